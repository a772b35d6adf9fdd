"""Files of scores as people have them; each must be read correctly or refused in one sentence.

Belongs here: the files, which are made in memory, and what is expected of each. Belongs elsewhere: the test
(``tests/warehouse/test_wild_files.py``) and printing the table (``benchmarks/soaks/wild_files.py``).
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from care_ops.errors import InputError
from warehouse.sources.files import read_scores
from warehouse.sources.reading import Reading
from warehouse.testsets import AS_FOUND, ReadingOptions, ScoreColumns

ScoreTable = Mapping[str, Mapping[str, float | None]]
"""Item -> judge -> score."""

PANEL: ScoreTable = {"i1": {"a": 4, "b": 5}, "i2": {"a": 2.5, "b": None}, "i3": {"a": 1, "b": 3}}
WIDE = "item_id,a,b\ni1,4,5\ni2,2.5,\ni3,1,3\n"
LONG = "item_id,judge,score\ni1,a,4\ni1,b,5\ni2,a,2.5\ni2,b,\ni3,a,1\ni3,b,3\n"


@dataclass(frozen=True)
class WildFile:
    """One file, and how it must be read or refused.

    Attributes
    ----------
    name : str
        Name of the file.
    what : str
        What is special about the file.
    content : bytes
    panel : mapping item -> judge -> score
        Scores that the file holds, if it is read.
    told : tuple of str
        Parts of the sentences that say how the file was read.
    refused : str, optional
        Part of the sentence that refuses the file.
    columns, options : optional
        Columns and reading options that the user names.
    """

    name: str
    what: str
    content: bytes
    panel: ScoreTable = field(default_factory=lambda: PANEL)
    told: tuple[str, ...] = ()
    refused: str | None = None
    columns: ScoreColumns | None = None
    options: ReadingOptions = AS_FOUND

    @property
    def needs_excel(self) -> bool:
        """Whether it is a workbook, which an optional extra reads."""
        return self.name.endswith(".xlsx")


@dataclass(frozen=True)
class ReadOutcome:
    """The result of reading a file: its scores and how it was read, or the message that refuses it."""

    panel: ScoreTable | None
    told: tuple[str, ...]
    refusal: str | None


def read(file: WildFile, folder: Path) -> ReadOutcome:
    """Write the file and read it."""
    path = folder / file.name
    path.write_bytes(file.content)
    readings: list[Reading] = []
    try:
        scores = read_scores(path, file.columns, options=file.options, tell=readings.append).scores
    except InputError as error:
        return ReadOutcome(None, (), str(error).replace(f"{folder}/", ""))
    panel = {
        item: {
            judge: None if np.isnan(value) else float(value) for judge, value in zip(scores.judges, row, strict=True)
        }
        for item, row in zip(scores.item_ids, scores.values, strict=True)
    }
    told = [sentence.replace(f"{folder}/", "") for reading in readings for sentence in reading.sentences()]
    return ReadOutcome(panel, tuple(told), None)


def workbook(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    """The smallest Excel workbook with these rows, numbers as numbers and the rest as text."""
    out = io.BytesIO()
    spreadsheet = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    numbered = list(enumerate(sheets.items(), start=1))
    with zipfile.ZipFile(out, "w") as archive:
        parts = "".join(
            f'<Override PartName="/xl/worksheets/sheet{k}.xml" ContentType="{kind}.worksheet+xml"/>'
            for k, _ in numbered
        )
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{types}"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>{parts}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        listed = "".join(f'<sheet name="{escape(name)}" sheetId="{k}" r:id="r{k}"/>' for k, (name, _) in numbered)
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{spreadsheet}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        )
        targets = "".join(
            f'<Relationship Id="r{k}" Type="{office}/worksheet" Target="worksheets/sheet{k}.xml"/>' for k, _ in numbered
        )
        archive.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{relations}">{targets}</Relationships>')
        for k, (_, rows) in numbered:
            cells = "".join(f'<row r="{r}">{_cells(row, r)}</row>' for r, row in enumerate(rows, start=1))
            archive.writestr(
                f"xl/worksheets/sheet{k}.xml",
                f'<worksheet xmlns="{spreadsheet}"><sheetData>{cells}</sheetData></worksheet>',
            )
    return out.getvalue()


def _cells(row: Sequence[object], number: int) -> str:
    written: list[str] = []
    for column, value in enumerate(row):
        place = f"{chr(ord('A') + column)}{number}"
        if isinstance(value, str):
            written.append(f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>')
        elif value is not None:
            written.append(f'<c r="{place}"><v>{value}</v></c>')
    return "".join(written)


def _parquet(columns: Mapping[str, object]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), out)
    return out.getvalue()


def _jsonl(rows: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _rows(panel: ScoreTable = PANEL) -> list[dict[str, object]]:
    return [{"item_id": item, **scores} for item, scores in panel.items()]


def _with(header: str, *values: str) -> bytes:
    """The wide table with a further column."""
    lines = WIDE.splitlines()
    return "".join(f"{line},{more}\n" for line, more in zip(lines, (header, *values), strict=True)).encode()


def _before(header: str, *values: str) -> bytes:
    """The wide table with a column before the others."""
    lines = WIDE.splitlines()
    return "".join(f"{more},{line}\n" for line, more in zip(lines, (header, *values), strict=True)).encode()


def _quoted_newlines() -> tuple[bytes, ScoreTable]:
    """Two megabytes as pandas writes answers of several lines, with quotes and separators inside."""
    answer = 'first, "so to speak"\nsecond\r\n\nlast ' + "x" * 900
    rows = ["item_id,a,response,b"]
    panel: dict[str, dict[str, float | None]] = {}
    quoted = '"' + answer.replace('"', '""') + '"'
    for k in range(2200):
        rows.append(f"i{k},{k % 5},{quoted},{k % 7}")
        panel[f"i{k}"] = {"a": k % 5, "b": k % 7}
    return ("\n".join(rows) + "\n").encode(), panel


def _encodings() -> list[WildFile]:
    """Usual tables, and texts in several encodings."""
    return [
        WildFile("long.csv", "the usual long table", LONG.encode(), told=("long: item is 'item_id'", "a comma")),
        WildFile(
            "wide.csv",
            "the usual wide table",
            WIDE.encode(),
            told=("the judges are 'a', 'b'", "missing scores: 1 of 6"),
        ),
        WildFile(
            "excel.csv", "byte order mark and CRLF", WIDE.replace("\n", "\r\n").encode("utf-8-sig"), told=("mark",)
        ),
        WildFile(
            "utf16.csv", "UTF-16, as Excel's Unicode text", WIDE.replace(",", "\t").encode("utf-16"), told=("UTF-16",)
        ),
        WildFile(
            "latin1.csv",
            "Latin-1 without a word",
            WIDE.replace("i2", "café").encode("latin-1"),
            refused="line 3, with the byte 0xe9, is not UTF-8",
        ),
        WildFile(
            "cp1252.csv",
            "Windows-1252, named",
            WIDE.replace("i2", "café").encode("cp1252"),
            {"i1": PANEL["i1"], "café": PANEL["i2"], "i3": PANEL["i3"]},
            ("CP1252",),
            options=ReadingOptions(encoding="cp1252"),
        ),
        WildFile(
            "utf16_no_mark.csv", "UTF-16 without a mark", WIDE.encode("utf-16-le"), refused="holds NUL characters"
        ),
    ]


def _separators() -> list[WildFile]:
    """Separators, decimal characters, line ends and compression."""
    big, big_panel = _quoted_newlines()
    comma = WIDE.replace(",", ";").replace("2.5", "2,5")
    return [
        WildFile(
            "semicolons.csv", "semicolons and decimal commas", comma.encode(), told=("a semicolon", "decimal comma")
        ),
        WildFile(
            "thousands.csv",
            "a comma before three digits",
            b"item_id;a;b\ni1;1,250;5\ni2;2,500;\n",
            refused="where the comma may stand before decimals or thousands",
        ),
        WildFile(
            "points_named.csv",
            "points where commas stand before decimals",
            b"item_id;a;b\ni1;1.250;5\ni2;2.500;\n",
            refused="column 'a' holds '1.250' (line 2), '2.500' (line 3), where a finite number is needed",
            options=ReadingOptions(decimal=","),
        ),
        WildFile(
            "thousands_named.csv",
            "the same, its decimals named",
            b"item_id;a;b\ni1;1,250;5\ni2;2,500;\n",
            {"i1": {"a": 1.25, "b": 5}, "i2": {"a": 2.5, "b": None}},
            ("decimal comma",),
            options=ReadingOptions(decimal=","),
        ),
        WildFile("tabs.tsv", "tabs", WIDE.replace(",", "\t").encode(), told=("a tab",)),
        WildFile("tabs.csv", "tabs in a file called CSV", WIDE.replace(",", "\t").encode(), told=("a tab",)),
        WildFile("bars.txt", "vertical bars", WIDE.replace(",", "|").encode(), told=("a vertical bar",)),
        WildFile(
            "carets.csv",
            "a separator that is named",
            WIDE.replace(",", "^").encode(),
            options=ReadingOptions(separator="^"),
        ),
        WildFile("sep.csv", "Excel's line sep=;", ("sep=;\n" + comma).encode(), told=("sep=", "a semicolon")),
        WildFile("old_mac.csv", "lines that end in CR", WIDE.replace("\n", "\r").encode()),
        WildFile("mixed.csv", "CRLF and LF", WIDE.replace("\n", "\r\n", 2).encode()),
        WildFile(
            "no_end.csv", "no newline at the end, empty lines inside", WIDE.replace("i2", "\n\ni2").rstrip().encode()
        ),
        WildFile("compressed.csv.gz", "gzip", gzip.compress(WIDE.encode())),
        WildFile(
            "cut.csv.gz", "gzip, cut off", gzip.compress((WIDE * 999).encode())[:-20], refused="cannot be read as csv"
        ),
        WildFile("pandas.csv", "two megabytes of quoted newlines", big, big_panel, ("'response' (holds text)",)),
    ]


def _malformed_texts() -> list[WildFile]:
    """Quotes and records that are broken or unusual, and files of another kind."""
    return [
        WildFile(
            "unclosed.csv",
            "a quote that is never closed",
            b'item_id,a,b,why\ni1,4,5,"good\ni2,2,1,fine\ni3,1,3,bad\n',
            refused="the quotes in the record that begins in line 2 do not match",
        ),
        WildFile(
            "backslash.csv",
            "quotes escaped by backslashes",
            b'item_id,a,b,why\ni1,4,5,"so \\"good\\", he said"\n',
            refused="line 2 do not match",
        ),
        WildFile(
            "uneven.csv",
            "rows of other lengths",
            b"item_id,a,b\ni1,4,5\ni2,2,5,9\ni3,1\n",
            refused="4 values in line 3, 2 values in line 4",
        ),
        WildFile("spaces.csv", "spaces after commas", LONG.replace(",", ", ").encode(), told=("judge is ' judge'",)),
        WildFile(
            "missing.csv",
            "missing scores in words",
            WIDE.replace("2.5,\n", "2.5,None\n").encode(),
            told=("missing scores: 1 of 6",),
        ),
        WildFile("empty.csv", "no bytes", b"", refused="the file is empty"),
        WildFile("only_names.csv", "no rows", b"item_id,a,b\n", refused="the table is empty"),
        WildFile("no_names.csv", "no line of names", b"i1,a,4\ni1,b,5\n", refused="no column is called item_id"),
        WildFile(
            "title.csv",
            "a title above the names",
            ("Scores of May\n" + WIDE).encode(),
            refused="let the names",
        ),
        WildFile("notes.docx", "another kind of file", b"hello", refused="unknown kind of file '.docx'"),
        WildFile(
            "parquet.csv", "Parquet called CSV", _parquet({"item_id": ["x"]}), refused="a Parquet file by its first"
        ),
    ]


def _columns_beside_judges() -> list[WildFile]:
    """Columns of wide tables that are not judges."""
    counted = "item_id,a,b,number of row\n" + "".join(f"i{k},{k % 5},{k % 3},{k + 7}\n" for k in range(30))
    return [
        WildFile("index.csv", "pandas' index", _before("", "0", "1", "2"), told=("'unnamed column 1' (has no name",)),
        WildFile(
            "unnamed.csv",
            "pandas' index, twice",
            _before("Unnamed: 0", "0", "1", "2"),
            told=("'Unnamed: 0' (has no name",),
        ),
        WildFile(
            "ids_as_index.csv",
            "ids in pandas' index",
            WIDE.replace("item_id", "").encode(),
            told=("item is 'unnamed column 1'",),
        ),
        WildFile(
            "counter_alone.csv",
            "pandas' index and no ids",
            b",a,b\n0,4,5\n1,2,3\n",
            refused="no column is called item_id",
        ),
        WildFile(
            "counter.csv",
            "a column that counts the rows",
            counted.encode(),
            {f"i{k}": {"a": k % 5, "b": k % 3} for k in range(30)},
            ("'number of row' (counts the rows)",),
        ),
        WildFile(
            "gold.csv", "gold among the judges", _with("Gold", "5", "1", "0"), told=("'Gold' (a label by its name",)
        ),
        WildFile("label.csv", "a label among the judges", _with("label", "1", "0", "0"), told=("'label' (a label",)),
        WildFile(
            "length.csv", "a length among the judges", _with("length", "120", "80", "7"), told=("'length' (a size",)
        ),
        WildFile(
            "dates.csv",
            "dates",
            _with("asked", "2026-05-01", "2026-05-02", ""),
            told=("'asked' (holds dates or times)",),
        ),
        WildFile(
            "dates_in_words.csv",
            "dates as another country writes them",
            _with("asked", "1.5.2026", "31.12.2026", ""),
            told=("'asked' (holds text)",),
        ),
        WildFile(
            "other_id.csv",
            "another id",
            _with("question_id", "1", "2", "2"),
            told=("'question_id' (an id by its name)",),
        ),
    ]


def _names_of_columns() -> list[WildFile]:
    """Names of columns that say, or do not say, what the columns hold."""
    return [
        WildFile("text.csv", "texts", _with("model", "gpt", "claude", "gpt"), told=("kept beside them: 'model'",)),
        WildFile(
            "length_judge.csv",
            "judges that are named",
            _with("length", "120", "80", "7"),
            {i: {"a": PANEL[i]["a"], "length": n} for i, n in zip(PANEL, (120, 80, 7), strict=True)},
            ("'b' (not among the judges named)",),
            columns=ScoreColumns(judge_columns=("a", "length")),
        ),
        WildFile(
            "only_gold.csv",
            "no judge",
            b"item_id,gold\ni1,4\n",
            refused="no judge beside 'item_id': 'gold' is left out",
        ),
        WildFile(
            "twice.csv", "one name twice", b"item_id,a,a\ni1,4,5\n", refused="columns share a name: 'a' (columns 2, 3)"
        ),
        WildFile(
            "synonyms.csv",
            "other names",
            LONG.replace("item_id,judge,score", "Sample ID,Rater,rating").encode(),
            told=("item is 'Sample ID', judge is 'Rater', score is 'rating'",),
        ),
        WildFile(
            "named.csv",
            "names that are given",
            LONG.replace("item_id,judge,score", "thing,model,stars").encode(),
            columns=ScoreColumns(item_id="thing", judge="model", score="stars"),
        ),
        WildFile(
            "two_ratings.csv",
            "two columns that may be the score",
            LONG.replace("score\n", "rating,grade\n").replace("\ni", ",1\ni").replace("grade,1", "grade")[:-1].encode()
            + b",1\n",
            refused="'rating', 'grade' may each be the score; name one with --score",
        ),
        WildFile(
            "stars.csv",
            "a long table whose score has another name",
            LONG.replace("score", "stars").encode(),
            refused="'judge' names the judge of each row, but no column is called score",
        ),
        WildFile(
            "model.csv",
            "a long table whose judge has another name",
            LONG.replace("judge", "model").encode(),
            refused="with its column 'score' it looks like a long table without a judge's column",
        ),
    ]


def _ids() -> list[WildFile]:
    """Ids that are repeated, empty or unusual."""
    return [
        WildFile(
            "repeated.csv",
            "an item twice",
            (WIDE + "i1,1,1\n").encode(),
            refused="item_id has several rows for 'i1' (line 2, line 5)",
        ),
        WildFile(
            "repeated_long.csv",
            "a score twice",
            (LONG + "i1,a,1\ni3,b,1\n").encode(),
            refused="item 'i1' and judge 'a' (line 2, line 8), item 'i3' and judge 'b' (line 7, line 9)",
        ),
        WildFile("no_id.csv", "an id that is empty", (LONG + ",a,1\n").encode(), refused="item_id is empty in line 8"),
        WildFile(
            "near.csv", "names that differ in a space", (LONG + "i4,a ,1\n").encode(), refused="judge is 'a' and 'a '"
        ),
        WildFile(
            "zeros.csv",
            "ids with zeros in front",
            LONG.replace("i1", "007").replace("i2", "7").replace("i3", "1e3").encode(),
            {"007": PANEL["i1"], "7": PANEL["i2"], "1e3": PANEL["i3"]},
        ),
    ]


def _values() -> list[WildFile]:
    return [
        WildFile(
            "words.csv",
            "words among scores",
            LONG.replace("a,4", "a,great").replace("b,3", "b,poor").encode(),
            refused="column 'score' holds 'great' (line 2), 'poor' (line 7), where a finite number is needed, or",
        ),
        WildFile(
            "percent.csv", "per cent", b"item_id,a,b\ni1,40%,5\ni2,3,1\n", refused="column 'a' holds '40%' (line 2)"
        ),
        WildFile(
            "german.csv",
            "points before thousands, commas before decimals",
            b"item_id;a;b\ni1;1.250,5;5\ni2;2.000,1;2\n",
            refused="column 'a' holds '1.250,5' (line 2), '2.000,1' (line 3)",
        ),
        WildFile(
            "infinite.csv", "an infinite score", b"item_id,a,b\ni1,inf,5\ni2,3,-inf\n", refused="holds -inf (line 3)"
        ),
        WildFile(
            "verdicts.csv",
            "pass and fail, one judge that never fails",
            b"item_id,a,b,note\ni1,PASS,Pass,fine\ni2, fail,pass,bad\ni3,NA,pass,\n",
            {"i1": {"a": 1, "b": 1}, "i2": {"a": 0, "b": 1}, "i3": {"a": None, "b": 1}},
            ("'pass' as 1 (4 times), 'fail' as 0 (once)", "'note' (holds text)"),
        ),
        WildFile(
            "preferences.jsonl",
            "A, B and tie, the judges and items by other names",
            _jsonl(
                [
                    {"test_case": i, "grader": j, "score": s}
                    for i, j, s in (("i1", "a", "A"), ("i1", "b", "tie"), ("i2", "a", "b"), ("i2", "b", "B"))
                ]
            ),
            {"i1": {"a": 1, "b": 0.5}, "i2": {"a": 0, "b": 0}},
            ("item is 'test_case'", "'A' as 1", "'B' as 0 (2 times)", "'tie' as 0.5", "first of two answers is better"),
        ),
        WildFile(
            "unknown_words.csv",
            "words of which some are not known",
            ("item_id,a,b\n" + "".join(f"i{k},{'ABC'[k % 3]},{'AB'[k % 2]}\n" for k in range(3000))).encode(),
            refused="column 'a' holds 'C' (1,000 times, first in line 4), where",
        ),
        WildFile(
            "words_and_numbers.csv",
            "words beside the 0 and 1 of the same judge",
            b"item_id,judge,score\ni1,a,yes\ni2,a,0\ni1,b,no\ni2,b,yes\n",
            {"i1": {"a": 1, "b": 0}, "i2": {"a": 0, "b": 1}},
            ("judge 'a' mixes words and numbers: 1 and 1",),
        ),
        WildFile(
            "words_and_grades.csv",
            "words beside grades of the same judge",
            LONG.replace("a,4", "a,good").replace("b,3", "b,bad").encode(),
            refused="holds 'good' (line 2), '2.5' (line 4), so",
        ),
        WildFile(
            "words_beside.csv",
            "a column of yes and no beside judges with numbers",
            _with("checked", "yes", "no", "yes"),
            told=("'checked' (holds words, where the judges give numbers",),
        ),
        *_grades(),
        WildFile("none.csv", "no score at all", b"item_id,a,b\ni1,,\ni2,,\n", refused="every score is missing"),
        WildFile(
            "votes.csv",
            "true and false",
            b"item_id,a,b\ni1,true,False\ni2,false,True\n",
            {"i1": {"a": 1, "b": 0}, "i2": {"a": 0, "b": 1}},
            ("words are read as numbers: 'true' as 1 (2 times), 'false' as 0 (2 times)",),
        ),
    ]


def _graded(*grades: str) -> bytes:
    """A wide table of two judges, who give these grades in turn."""
    rows = [f"i{k + 1},{grade},{grades[k - 1]}" for k, grade in enumerate(grades)]
    return "\n".join(["item_id,a,b", *rows, ""]).encode()


def _numbered(*numbers: float) -> dict[str, dict[str, float | None]]:
    return {f"i{k + 1}": {"a": number, "b": numbers[k - 1]} for k, number in enumerate(numbers)}


def _grades() -> list[WildFile]:
    """Grades as people write them."""
    order = ReadingOptions(grades=("meh", "Nice", "super"))
    return [
        WildFile("per_cents.csv", "per cents", _graded("85%", "7.5 %"), _numbered(85, 7.5), ("per cents are read as",)),
        WildFile(
            "shares.csv", "fractions", _graded("4/5", "2 out of 5"), _numbered(4, 2), ("fractions of 5 are read",)
        ),
        WildFile("two_shares.csv", "two denominators", b"item_id,a,b\ni1,4/5,7/10\n", refused="fractions of 10 and"),
        WildFile(
            "only_stars.csv",
            "stars",
            _graded("★★★", "★★½", "★☆☆"),
            _numbered(3, 2.5, 1),
            ("stars are read as numbers",),
        ),
        WildFile("counted_stars.csv", "counted stars", _graded("3 stars", "1 star", "4★"), _numbered(3, 1, 4)),
        WildFile(
            "graded.csv",
            "words in a known order, written in several ways",
            _graded("Poor", "fair", "very_good", "Excellent", "good"),
            _numbered(1, 2, 4, 5, 3),
            ("words are read as grades from 1 to 5", "'very good' as 4 (2)"),
        ),
        WildFile("agree.csv", "agreement", _graded("Agree", "strongly disagree", "Neutral"), _numbered(4, 1, 3)),
        WildFile("letters.csv", "letters of grades", _graded("A", "C", "F", "B"), _numbered(5, 3, 1, 4)),
        WildFile("good_poor.csv", "a known word beside an unknown one", _graded("good", "poor"), _numbered(3, 1)),
        WildFile("meh.csv", "unknown words", _graded("meh", "nice"), refused="as --grades poor,fair,good"),
        WildFile(
            "named_order.csv",
            "an order that is named",
            _graded("meh", "nice", "SUPER"),
            _numbered(1, 2, 3),
            options=order,
        ),
        WildFile(
            "named_elsewhere.csv", "an order of other words", _graded("yes", "no"), _numbered(1, 0), options=order
        ),
        WildFile(
            "category.parquet",
            "an ordered category",
            _parquet({"item_id": ["i1", "i2"], "a": _category("meh", "wow"), "b": _category("wow", "meh")}),
            _numbered(1, 2),
        ),
        WildFile(
            "category_beside.parquet",
            "an ordered category beside judges with numbers",
            _parquet({"item_id": ["i1", "i2"], "a": [1, 2], "b": [2, 1], "difficulty": _category("meh", "wow")}),
            _numbered(1, 2),
            ("'difficulty' (holds text)",),
        ),
        WildFile(
            "grades_and_numbers.csv",
            "words of an order and numbers of one judge",
            b"item_id,judge,score\ni1,a,fair\ni2,a,4\ni1,b,poor\ni2,b,good\n",
            refused="so a judge mixes words and others",
        ),
    ]


def _category(*values: str) -> pa.Array:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    return pa.DictionaryArray.from_arrays([["meh", "wow"].index(value) for value in values], ["meh", "wow"]).cast(kind)


def _json_files() -> list[WildFile]:
    """JSON documents and JSON lines."""
    nan = _jsonl(_rows()).replace(b"null", b"NaN")
    return [
        WildFile("lines.jsonl", "JSON lines with NaN", nan, told=("one object a line",)),
        WildFile("lines.json", "JSON lines called JSON", _jsonl(_rows()), told=("one object a line",)),
        WildFile("list.json", "a list of objects", json.dumps(_rows(), indent=1).encode(), told=("a list of objects",)),
        WildFile(
            "under.json", "a list under a key", json.dumps({"n": 3, "data": _rows()}).encode(), told=("under 'data'",)
        ),
        WildFile(
            "columns.json",
            "pandas' columns",
            json.dumps({n: {str(k): row[n] for k, row in enumerate(_rows())} for n in _rows()[0]}).encode(),
            told=("an object of objects",),
        ),
        WildFile(
            "unlike.json",
            "objects of two kinds",
            json.dumps({"judge": {"name": "a"}, "score": {"value": 4}}).encode(),
            refused="write a list of objects, one a row (pandas: orient='records')",
        ),
        WildFile(
            "broken.jsonl",
            "a line that is cut off",
            _jsonl(_rows()) + b'{"item_id": "i4", "a"',
            refused="not so in line 4 (Expecting",
        ),
        WildFile(
            "key_twice.jsonl",
            "a key twice",
            _jsonl(_rows()) + b'{"item_id": "i4", "a": 1, "a": 2}',
            refused="the key 'a' stands twice",
        ),
        WildFile(
            "dates_as_ids.jsonl",
            "ids that look like dates and numbers",
            _jsonl([{"item_id": i, "a": 1, "b": 2} for i in ("2026-05-01", 7, 2**70)]),
            {i: {"a": 1, "b": 2} for i in ("2026-05-01", "7", str(2**70))},
        ),
        WildFile("lines.jsonl.gz", "JSON lines, compressed", gzip.compress(_jsonl(_rows()))),
        WildFile(
            "true_among_numbers.jsonl",
            "true among numbers",
            _jsonl([{"item_id": "i1", "a": 4, "b": 5}, {"item_id": "i2", "a": True, "b": 1}]),
            refused="holds 'true' (line 2), '4' (line 1), so",
        ),
    ]


def _typed_tables() -> list[WildFile]:
    """Parquet files, workbooks and queries."""
    sheet = [["item_id", "a", "b"], *([item, *scores.values()] for item, scores in PANEL.items())]
    numbered = [["item_id", "judge", "score"], [7, "a", 4], [7, "b", 5], [8, "a", 2.5], [8, "b", 1]]
    nested = {"item_id": list(PANEL), "scores": [dict(scores) for scores in PANEL.values()]}
    flat = {"item_id": list(PANEL), **{j: [s[j] for s in PANEL.values()] for j in "ab"}}
    categories = pa.array(["a", "b", "a", "b", "a", "b"]).dictionary_encode()
    long = {"item_id": ["i1", "i1", "i2", "i2", "i3", "i3"], "judge": categories, "score": [4, 5, 2.5, None, 1, 3]}
    return [
        WildFile("categories.parquet", "a category for the judge", _parquet(long), told=("as Parquet",)),
        WildFile(
            "nested.parquet",
            "scores nested in one column",
            _parquet(nested),
            told=("'scores' is read as its fields",),
        ),
        WildFile(
            "nested_beside.parquet", "nested beside flat", _parquet({**flat, **nested}), told=("'scores' (nested",)
        ),
        WildFile(
            "index.parquet",
            "pandas' index",
            _parquet({**flat, "__index_level_0__": [0, 2, 5]}),
            told=("'__index_level_0__' (has no name",),
        ),
        WildFile("sheet.xlsx", "a workbook", workbook({"scores": sheet, "empty": []}), told=("sheet 'scores'",)),
        WildFile(
            "numbers.xlsx",
            "ids that are numbers",
            workbook({"scores": [[None], *numbered]}),
            {"7": {"a": 4, "b": 5}, "8": {"a": 2.5, "b": 1}},
        ),
        WildFile(
            "sheets.xlsx",
            "two sheets",
            workbook({"May": sheet, "June": sheet}),
            refused="2 sheets hold something, 'May', 'June'",
        ),
        WildFile(
            "words.xlsx",
            "a word among scores",
            workbook({"scores": [*numbered, [9, "a", "good"]]}),
            refused="holds 'good' (row 6 of the sheet), '4' (row 2 of the sheet), so",
        ),
        WildFile(
            "title.xlsx",
            "a title above the names",
            workbook({"scores": [["Scores of May", None, None], *sheet]}),
            refused="no column is called item_id",
        ),
        WildFile(
            "query.sql",
            "a query for DuckDB",
            b"SELECT * FROM (VALUES ('i1', 4, 5), ('i2', 2.5, NULL), ('i3', 1, 3)) AS scores(item_id, a, b)",
            told=("as a query",),
        ),
        WildFile(
            "wrong.sql", "a query that fails", b"SELECT nothing FROM nowhere", refused="the query fails: Catalog Error"
        ),
    ]


WILD_FILES = (
    *_encodings(),
    *_separators(),
    *_malformed_texts(),
    *_columns_beside_judges(),
    *_names_of_columns(),
    *_ids(),
    *_values(),
    *_json_files(),
    *_typed_tables(),
)
