"""Reader of items from data sets on the Hugging Face hub, at a pinned revision."""

import hashlib
import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from care_ops.errors import InputError, guard, how_to_install
from warehouse.conversations import messages_of, split_answer, transcript
from warehouse.items import ITEM_TEXTS, ItemRecord
from warehouse.testsets import HuggingFaceSource, resolve

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_FIELDS = (*ITEM_TEXTS, "split_unit")


def read_items(source: HuggingFaceSource, base: Path, further: Sequence[str] = ()) -> list[ItemRecord]:
    """Read the items of a data set from the Hugging Face hub or from a local folder, relative to ``base``.

    ``further`` lists columns, or paths into columns, that become metadata; words in ``gold.values`` become numbers.
    Raises ``InputError`` if ``datasets`` is not installed, the data set cannot be loaded, a repository has no
    revision, a column is missing, or a gold label is not a number.
    """
    name = f"data set {source.dataset!r}"
    rows = _load(source, base, name)
    classes = {column: kind.names for column, kind in rows.features.items() if hasattr(kind, "int2str")}
    allowed = {path: value if isinstance(value, list) else [value] for path, value in source.where.items()}
    chosen = [
        (k, row)
        for k, row in enumerate(rows)
        if all(_at(row, path, name) in values for path, values in allowed.items())
    ]
    if not chosen:
        raise InputError(f"{name}: no row matches `where` ({source.where}); correct its columns or values")
    if source.sample is not None and source.sample < len(chosen):
        draw = np.random.default_rng(source.seed).permutation(len(chosen))[: source.sample]
        chosen = [chosen[k] for k in sorted(draw)]
    records = [_record(source, number, row, classes, name, further) for number, row in chosen]
    if len({record.item_id for record in records}) != len(records):
        raise InputError(f"{name}: two rows have the same {source.columns.item_id!r}; omit item_id to use row numbers")
    return records


def _load(source: HuggingFaceSource, base: Path, name: str) -> Any:
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise InputError(f"{name}: `datasets` is not installed ({error}); {how_to_install('huggingface')}") from error
    folder = resolve(source.dataset, base)
    if not folder.is_dir() and source.revision is None:
        raise InputError(
            f"{name}: a repository needs a pinned commit; add revision: COMMIT (40 hexadecimal digits) to the source"
        )
    try:
        if source.files is not None:
            root = str(folder) if folder.is_dir() else f"hf://datasets/{source.dataset}@{source.revision}"
            kind = source.files.rpartition(".")[2].removesuffix("l")
            with guard(name, "try again when the hub answers"):
                return datasets.load_dataset(kind, data_files=f"{root}/{source.files}", split="train")
        where = str(folder) if folder.is_dir() else source.dataset
        return datasets.load_dataset(where, source.config, split=source.split, revision=source.revision)
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError and DatasetNotFoundError are OSErrors
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{name}, split {source.split!r}: cannot be loaded ({first}); correct the source") from error


def _record(
    source: HuggingFaceSource,
    number: int,
    row: Mapping[str, Any],
    classes: Mapping[str, Sequence[str]],
    name: str,
    further: Sequence[str],
) -> ItemRecord:
    named = source.columns.model_dump()
    texts: dict[str, str | None] = {}
    for text, column in named.items():
        if text in _FIELDS and column is not None:
            value = _first(row, column, name)
            # a class is stored as its number, which a judge cannot read
            value = classes[column][value] if column in classes and isinstance(value, int) else value
            texts[text] = _text(value, last=text.startswith("response"))
    plain = "item_id" in source.columns.model_fields_set
    item_id = str(_at(row, source.columns.item_id, name)) if plain else f"{source.split}-{number}"
    gold = _gold(source, row, name)
    if source.pair is not None:
        better, worse = (_text(_at(row, p, name), last=True) for p in (source.pair.better, source.pair.worse))
        coin = hashlib.sha256(f"{source.seed}\x1f{better}\x1f{worse}".encode("utf-8", "surrogatepass")).digest()[0] % 2
        texts |= {"response": worse, "response_2": better} if coin else {"response": better, "response_2": worse}
        gold = float(coin)
    numbers: Mapping[Any, Any] = {} if source.gold is None else source.gold.values
    metadata = {path: numbers.get(value, value) for path in further for value in [_at(row, path, name)]}
    return replace(ItemRecord(item_id, gold=gold, metadata=metadata), **texts)


def _gold(source: HuggingFaceSource, row: Mapping[str, Any], name: str) -> float | None:
    rule = source.gold
    if rule is None:
        column = source.columns.gold
        return None if column is None else _number(_at(row, column, name), {}, column, name)
    numbers = [_number(_at(row, path, name), rule.values, path, name) for path in rule.mean_of]
    present = [number for number in numbers if number is not None]
    return rule.of(sum(present) / len(present)) if present else None


def _number(value: Any, values: Mapping[str, float], path: str, name: str) -> float | None:
    if value is None:
        return None
    if str(value) in values:
        return values[str(value)]
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name}: gold column {path!r} contains {value!r}, which is not a number; convert words with gold.values"
        ) from error


def _first(row: Any, paths: str, name: str) -> Any:
    """Return the value at the first path with a non-empty value; ``|`` separates paths, as in ``a.b | a.c``."""
    values = [_at(row, path.strip(), name) for path in paths.split("|")]
    return next((value for value in values if value not in (None, "")), None)


def _at(row: Any, path: str, name: str) -> Any:
    """Return the value in a row at a path, such as ``a.b[1].c``."""
    value = row
    for key, position in _STEP.findall(path):
        try:
            value = value[int(position)] if position else value[key]
        except (KeyError, IndexError, TypeError) as error:
            columns = ", ".join(row) if isinstance(row, Mapping) else "nothing"
            raise InputError(f"{name}: a row has no {path!r}; choose from the columns {columns}") from error
    return value


def _text(value: Any, *, last: bool = False) -> str | None:
    """Convert a value to text: for a conversation, all messages, or only the last answer if ``last`` is true."""
    messages = messages_of(value) if isinstance(value, list) else []
    if messages:
        return split_answer(messages)[1] if last else transcript(messages)
    return None if value is None else str(value)
