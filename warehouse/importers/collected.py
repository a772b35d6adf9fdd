"""Collector of items, scores and labels that an importer reads, with notes on the importer's decisions.

A score is a number, true or false, yes or no, or a grade of inspect_ai: C (correct, 1), P (partial, 0.5), I
(incorrect, 0) or N (no answer, 0). A score that is empty or NaN is missing.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from care_ops.errors import InputError, counted
from care_ops.scores import ScoreMatrix
from warehouse.conversations import messages_of, transcript
from warehouse.items import ItemRecord
from warehouse.sources.bounds import refuse_bomb
from warehouse.sources.columns import ITEM, LABEL, is_called, plain
from warehouse.sources.files import RecordedTable
from warehouse.sources.input_table import COMPRESSED, open_text
from warehouse.sources.reading import listed
from warehouse.sources.records import array_of, json_lines, parse_json

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""Numeric score for each word that may be a score."""

_TEXTS = ("prompt", "response", "response_2", "reference")


@dataclass(frozen=True)
class ImportedScores:
    """Imported scores by item and judge (None if missing), imported items, and the importer's decisions."""

    source: str
    scores: Mapping[tuple[str, str], float | None]
    items: Mapping[str, ItemRecord]
    notes: tuple[str, ...] = ()

    @property
    def judges(self) -> list[str]:
        """Names of the judges, in the order of their first scores."""
        return list(dict.fromkeys(judge for _, judge in self.scores))

    def recorded(self) -> RecordedTable:
        """Convert the scores to a matrix, with items and judges in the order of the files."""
        items, judges = list(self.items), self.judges
        rows = {item: row for row, item in enumerate(items)}
        columns = {judge: column for column, judge in enumerate(judges)}
        values = np.full((len(items), len(judges)), np.nan)
        for (item, judge), score in self.scores.items():
            values[rows[item], columns[judge]] = np.nan if score is None else score
        return RecordedTable(ScoreMatrix(values, tuple(items), tuple(judges)))

    def score_table(self) -> pa.Table:
        """Convert the scores to a table with the columns ``item_id``, ``judge`` and ``score``."""
        schema = pa.schema([("item_id", pa.string()), ("judge", pa.string()), ("score", pa.float64())])
        return pa.table([*zip(*self.scores, strict=True), self.scores.values()], schema=schema)

    def item_table(self) -> pa.Table:
        """Convert the items to a table of ids, texts, labels (``gold``) and other fields; omit empty columns."""
        records = list(self.items.values())
        columns = {name: [getattr(record, name) for record in records] for name in ("item_id", *_TEXTS, "gold")}
        for name in dict.fromkeys(key for record in records for key in record.metadata):
            if name not in columns:
                columns[name] = [_plain_value(record.metadata.get(name)) for record in records]
        filled = {name: values for name, values in columns.items() if any(value is not None for value in values)}
        return pa.table({name: array_of(values) for name, values in filled.items()})

    def sentences(self) -> list[str]:
        """Return sentences that describe the imported scores and the decisions of the importer."""
        missing = sum(score is None for score in self.scores.values())
        judges = listed([repr(judge) for judge in self.judges])
        labelled = sum(record.gold is not None for record in self.items.values())
        return [
            f"{self.source}: {len(self.items):,} items, {len(self.judges):,} judges ({judges})",
            f"missing scores: {missing:,} of {len(self.scores):,}; items with a label: {labelled:,}",
            *self.notes,
        ]


@dataclass
class Collector:
    """Container for the items and scores that an importer reads; ``opened`` lists the opened files."""

    source: str
    opened: list[Path]
    _scores: dict[tuple[str, str], float | None] = field(default_factory=dict[tuple[str, str], "float | None"])
    _items: dict[str, ItemRecord] = field(default_factory=dict[str, ItemRecord])
    _notes: list[str] = field(default_factory=list[str])
    _words: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    _repeated: Counter[str] = field(default_factory=Counter[str])

    def opening(self, path: Path) -> None:
        """Record which file is read next; raise ``InputError`` if the file decompresses to many times its size."""
        if path.suffix.lower() in COMPRESSED:
            refuse_bomb(path, COMPRESSED[path.suffix.lower()])
        self.opened.append(path)

    def document(self, path: Path) -> Any:
        """Read a JSON document; raise ``ValueError`` if the file is not JSON."""
        self.opening(path)
        with open_text(path, "utf-8-sig") as text:
            return parse_json(text.read())

    def lines(self, path: Path) -> Iterator[Any]:
        """Yield the JSON value of each line; raise ``InputError`` if a line is not JSON."""
        self.opening(path)
        return (value for _, value in json_lines(path))

    def add_item(self, record: ItemRecord) -> None:
        """Add an item; if an item with the same id exists, update its fields from the new record."""
        known = self._items.get(record.item_id)
        if known is None:
            self._items[record.item_id] = record
            return
        new = {name: getattr(record, name) for name in (*_TEXTS, "gold") if getattr(record, name) is not None}
        self._items[record.item_id] = replace(known, **new, metadata={**known.metadata, **record.metadata})

    def add_score(self, item_id: str, judge: str, value: Any) -> None:
        """Add a judge's score of an item; each value in a mapping or list becomes the score of a separate judge."""
        if isinstance(value, (Mapping, list)):
            for name, part in value.items() if isinstance(value, Mapping) else enumerate(value):
                self.add_score(item_id, f"{judge}/{name}", part)
            return
        number, judge = number_of(value), str(judge)
        if isinstance(number, str):
            self._words.setdefault(judge, []).append((item_id, number))
            return
        key = (item_id, judge)
        if self._scores.get(key) is not None and number != self._scores[key]:
            self._repeated[judge] += 1
        if number is not None or key not in self._scores:
            self._scores[key] = number

    def add_label(self, item_id: str, value: Any) -> None:
        """Add a person's label for an item; ignore a label that is not a number."""
        label = number_of(value)
        if label is not None and not isinstance(label, str):
            self.add_item(ItemRecord(item_id, gold=label))

    def note(self, sentence: str) -> None:
        """Add a sentence about an importer's decision, unless it has been added before."""
        if sentence not in self._notes:
            self._notes.append(sentence)

    def finished(self) -> ImportedScores:
        """Return all collected scores, items and decisions.

        Raises ``InputError`` if there is no score, or a judge's scores include both numbers and words.
        """
        judges = {judge for _, judge in self._scores}
        for judge, words in self._words.items():
            examples = listed([f"{word!r} (item {item!r})" for item, word in words], 5)
            if judge in judges:
                raise InputError(
                    f"{self.source}: the scores of judge {judge!r} are numbers and the words {examples}; CARE converts "
                    f"only {', '.join(GRADES)} to numbers, so replace the other words by numbers or empty values"
                )
            self.note(f"left out: judge {judge!r}, because its scores are words: {examples}; convert them to numbers")
        for judge, count in self._repeated.items():
            self.note(f"judge {judge!r} scored {counted(count, 'item')} more than once: the last score of each is used")
        if not any(score is not None for score in self._scores.values()):
            notes = "".join(f"; {note}" for note in self._notes)
            raise InputError(f"{self.source}: the files contain no scores; import files with scores{notes}")
        return ImportedScores(self.source, self._scores, self._items, tuple(self._notes))


def number_of(value: Any) -> float | str | None:
    """Convert a value to a number; return None if it is missing, and a string if it is not a number."""
    if value is None:
        return None
    text = str(value).strip()
    grade = GRADES.get(text, GRADES.get(text.lower()))
    try:
        number = float(text) if grade is None else grade
    except ValueError:
        return text or None
    return number if isfinite(number) else None if isnan(number) else text


def label_of(*metadata: Mapping[str, Any]) -> float | None:
    """Return the first number in a field whose name suggests a human label, or None if there is none."""
    for fields in metadata:
        for name, value in fields.items():
            number = number_of(value) if is_label(name) and not isinstance(value, (Mapping, list)) else None
            if number is not None and not isinstance(number, str):
                return number
    return None


def is_label(name: str) -> bool:
    """Return whether a field name suggests a human label."""
    return is_called(name, LABEL) or plain(name).startswith("human")


def id_of(*metadata: Mapping[str, Any]) -> str | None:
    """Return the value of the first non-empty field with a name in ``ITEM``, or None if there is no such field."""
    for name in ITEM:
        for fields in metadata:
            if fields.get(name) not in (None, ""):
                return str(fields[name])
    return None


def text_of(value: Any) -> str | None:
    """Convert a string, a conversation or a list of text parts to readable text, and any other value to JSON."""
    if value is None or isinstance(value, str):
        return value
    if messages := messages_of(value):
        return transcript(messages)
    if isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
        return "\n\n".join(text_of(part.get("content", part.get("text"))) or "" for part in value)
    return json.dumps(value, ensure_ascii=False)


def numbered(names: Iterable[str]) -> list[str]:
    """Make names unique: append a number to each repeated name.

    >>> numbered(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    used = Counter[str]()
    distinct: list[str] = []
    for name in names:
        used[name] += 1
        distinct.append(name if used[name] == 1 else f"{name} ({used[name]})")
    return distinct


def content_id(*texts: str | None) -> str:
    """Compute an item id as a hash of texts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def files_of(path: Path, pattern: str, what: str) -> list[Path]:
    """Return ``[path]`` for a file, or a folder's files that match ``pattern``; raise ``InputError`` if none exist."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder; correct the path")
    files = sorted(each for each in path.rglob(pattern) if each.is_file())
    if not files:
        raise InputError(f"{path}: the folder contains no {what}; give a folder with files whose names match {pattern}")
    return files


def _plain_value(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, bool, int, float)) else json.dumps(value, default=str)
