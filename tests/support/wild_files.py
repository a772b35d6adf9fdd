"""Realistic files of scores; CARE must read each file correctly or refuse it in one sentence.

``tests/warehouse/test_wild_files.py`` tests them.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from care_ops.errors import InputError
from warehouse.sources.files import read_scores
from warehouse.sources.reading import Reading
from warehouse.testsets import AS_FOUND, ReadingOptions, ScoreColumns

ScoreTable = Mapping[str, Mapping[str, float | None]]
"""Scores by item, then by judge."""

PANEL: ScoreTable = {"i1": {"a": 4, "b": 5}, "i2": {"a": 2.5, "b": None}, "i3": {"a": 1, "b": 3}}
WIDE = "item_id,a,b\ni1,4,5\ni2,2.5,\ni3,1,3\n"
LONG = "item_id,judge,score\ni1,a,4\ni1,b,5\ni2,a,2.5\ni2,b,\ni3,a,1\ni3,b,3\n"


@dataclass(frozen=True)
class WildFile:
    """File of scores, and its expected content or refusal.

    Attributes
    ----------
    name : str
        Name of the file.
    what : str
        Special property of the file.
    content : bytes
    panel : mapping item -> judge -> score
        Expected scores, if CARE reads the file.
    sentences : tuple of str
        Parts of the sentences on how the file was read.
    refused : str, optional
        Part of the sentence that refuses the file.
    columns, options : optional
        Columns and reading options that the user names.
    """

    name: str
    what: str
    content: bytes
    panel: ScoreTable = field(default_factory=lambda: PANEL)
    sentences: tuple[str, ...] = ()
    refused: str | None = None
    columns: ScoreColumns | None = None
    options: ReadingOptions = AS_FOUND

    @property
    def needs_excel(self) -> bool:
        """Return whether the file is a workbook, which needs an optional extra."""
        return self.name.endswith(".xlsx")


@dataclass(frozen=True)
class ReadOutcome:
    """Result of reading a file: its scores and the reading's description, or the message that refuses it."""

    panel: ScoreTable | None
    sentences: tuple[str, ...]
    refusal: str | None


def read(file: WildFile, folder: Path) -> ReadOutcome:
    """Write a file to the folder and read it with CARE."""
    path = folder / file.name
    path.write_bytes(file.content)
    readings: list[Reading] = []
    try:
        scores = read_scores(path, file.columns, options=file.options, report=readings.append).scores
    except InputError as error:
        return ReadOutcome(None, (), str(error).replace(f"{folder}/", ""))
    panel = {
        item: {
            judge: None if np.isnan(value) else float(value) for judge, value in zip(scores.judges, row, strict=True)
        }
        for item, row in zip(scores.item_ids, scores.values, strict=True)
    }
    sentences = [sentence.replace(f"{folder}/", "") for reading in readings for sentence in reading.sentences()]
    return ReadOutcome(panel, tuple(sentences), None)


def workbook(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    """Return an Excel workbook with rows in sheets; numbers are numbers, and all other values are text."""
    import xlsxwriter

    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    return out.getvalue()


def _texts() -> list[WildFile]:
    """Read the files in ``wild_texts.jsonl``, which has a file and its expected result in each line."""
    rows = map(json.loads, Path(__file__).with_name("wild_texts.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        WildFile(
            row["name"],
            row["what"],
            row["content"].encode(),
            row.get("panel", PANEL),
            tuple(row.get("sentences", ())),
            row.get("refused"),
            ScoreColumns(**row["columns"]) if "columns" in row else None,
            ReadingOptions(**row["options"]) if "options" in row else AS_FOUND,
        )
        for row in rows
    ]


def _parquet(columns: Mapping[str, object]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), out)
    return out.getvalue()


def _encoded() -> list[WildFile]:
    """Return text files in several encodings, compressed files and long files."""
    answer = 'first, ""so to speak""\nsecond\r\n\nlast ' + "x" * 900
    big = "item_id,a,response,b\n" + "".join(f'i{k},{k % 5},"{answer}",{k % 7}\n' for k in range(2200))
    read_big = {f"i{k}": {"a": k % 5, "b": k % 7} for k in range(2200)}
    counted = "item_id,a,b,number of row\n" + "".join(f"i{k},{k % 5},{k % 3},{k + 7}\n" for k in range(30))
    read_counted = {f"i{k}": {"a": k % 5, "b": k % 3} for k in range(30)}
    words = "item_id,a,b\n" + "".join(f"i{k},{'ABC'[k % 3]},{'AB'[k % 2]}\n" for k in range(3000))
    coffee, cp1252 = WIDE.replace("i2", "café"), ReadingOptions(encoding="cp1252")
    read_coffee = {"i1": PANEL["i1"], "café": PANEL["i2"], "i3": PANEL["i3"]}
    tabs, windows = WIDE.replace(",", "\t").encode("utf-16"), WIDE.replace("\n", "\r\n").encode("utf-8-sig")
    lines = "".join(json.dumps({"item_id": item, **scores}) + "\n" for item, scores in PANEL.items()).encode()
    cut, not_utf8 = gzip.compress((WIDE * 999).encode())[:-20], "line 3, with the byte 0xe9, is not valid UTF-8"
    unread_words = "column 'a' contains 'C' (1,000 times, first in line 4), but"
    return [
        WildFile("excel.csv", "byte order mark and CRLF", windows, sentences=("mark",)),
        WildFile("utf16.csv", "UTF-16, as Excel's Unicode text", tabs, sentences=("UTF-16",)),
        WildFile("latin1.csv", "Latin-1 without a word", coffee.encode("latin-1"), refused=not_utf8),
        WildFile(
            "cp1252.csv", "Windows-1252, named", coffee.encode("cp1252"), read_coffee, ("CP1252",), options=cp1252
        ),
        WildFile("utf16_no_mark.csv", "no mark", WIDE.encode("utf-16-le"), refused="contains NUL characters"),
        WildFile("compressed.csv.gz", "gzip", gzip.compress(WIDE.encode())),
        WildFile("cut.csv.gz", "gzip, cut off", cut, refused="cannot be read as csv"),
        WildFile("pandas.csv", "quoted newlines", big.encode(), read_big, ("'response' (holds text)",)),
        WildFile("counter.csv", "counted", counted.encode(), read_counted, ("'number of row' (contains row numbers)",)),
        WildFile("unknown_words.csv", "words, some unknown", words.encode(), refused=unread_words),
        WildFile("lines.jsonl.gz", "JSON lines, compressed", gzip.compress(lines)),
        WildFile("parquet.csv", "Parquet", _parquet({"item_id": ["x"]}), refused="parquet.csv is a Parquet file"),
    ]


def _typed() -> list[WildFile]:
    """Return Parquet files and workbooks."""
    sheet = [["item_id", "a", "b"], *([item, *scores.values()] for item, scores in PANEL.items())]
    numbered = [["item_id", "judge", "score"], [7, "a", 4], [7, "b", 5], [8, "a", 2.5], [8, "b", 1]]
    nested = {"item_id": list(PANEL), "scores": [dict(scores) for scores in PANEL.values()]}
    flat = {"item_id": list(PANEL), **{j: [s[j] for s in PANEL.values()] for j in "ab"}}
    categories = pa.array(["a", "b", "a", "b", "a", "b"]).dictionary_encode()
    long = {"item_id": ["i1", "i1", "i2", "i2", "i3", "i3"], "judge": categories, "score": [4, 5, 2.5, None, 1, 3]}
    next_to = {**flat, "difficulty": pa.array(["meh", "wow", "meh"]).dictionary_encode()}
    indexed, titled = {**flat, "__index_level_0__": [0, 2, 5]}, [["Scores of May", None, None], *sheet]
    read_numbered = {"7": {"a": 4, "b": 5}, "8": {"a": 2.5, "b": 1}}
    mixed = "contains 'good' (row 6 of the sheet), '4' (row 2 of the sheet), so"
    parquets = [
        ("category_next_to", next_to, PANEL, ("'difficulty' (holds text)",)),
        ("categories", long, PANEL, ("as Parquet",)),
        ("nested_next_to", {**flat, **nested}, PANEL, ("'scores' (holds nested",)),
        ("index", indexed, PANEL, ("'__index_level_0__' (no name",)),
    ]
    books: list[tuple[str, Mapping[str, Sequence[Sequence[object]]], ScoreTable, tuple[str, ...], str | None]] = [
        ("sheet", {"scores": sheet, "empty": []}, PANEL, ("sheet 'scores'",), None),
        ("numbers", {"scores": [[None], *numbered]}, read_numbered, (), None),
        ("sheets", {"May": sheet, "June": sheet}, PANEL, (), "2 sheets have content ('May', 'June')"),
        ("words", {"scores": [*numbered, [9, "a", "good"]]}, PANEL, (), mixed),
        ("title", {"scores": titled}, PANEL, (), "no column is called item_id"),
    ]
    refused = "'scores' is left out (holds nested data; make each field a column)"
    return [
        WildFile("nested.parquet", "an object of scores", _parquet(nested), refused=refused),
        *(WildFile(f"{name}.parquet", name, _parquet(of), panel, sentences) for name, of, panel, sentences in parquets),
        *(WildFile(f"{n}.xlsx", n, workbook(of), panel, sentences, why) for n, of, panel, sentences, why in books),
    ]


WILD_FILES = (*_texts(), *_encoded(), *_typed())
