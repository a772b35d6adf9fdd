"""Tests of score files: every layout gives the same scores, and bad input is refused with reason and place."""

import json
import re
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.labels import read_labels
from care_ops.errors import InputError
from care_ops.labels import Label
from tests.support.wild_files import workbook
from warehouse.items import unnamed_text
from warehouse.sources.files import read_families, read_items, read_scores, recorded_judges
from warehouse.testsets import FilesSource, ItemColumns, ReadingOptions, ScoreColumns, TestsetSpec, resolve

LONG_TEXT = "a text of more than eight words that a judge has read"
LONG = [("007", "a", 1.0), ("007", "b", None), ("x", "a", 3.5), ("x", "b", 4.0)]


def long_csv(rows=LONG, header="item_id,judge,score") -> str:
    return "\n".join([header, *(",".join("" if v is None else str(v) for v in row) for row in rows)]) + "\n"


def test_layouts_and_formats_agree(tmp_path):
    (tmp_path / "long.csv").write_text(long_csv())
    (tmp_path / "wide.csv").write_text("item_id,a,b\n007,1.0,\nx,3.5,4.0\n")
    rows = [{"item_id": i, "judge": j, "score": s} for i, j, s in LONG]
    (tmp_path / "long.jsonl").write_text("\n".join(json.dumps(r) for r in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "long.parquet")
    wide = pa.table({"item_id": ["007", "x"], "a": [1.0, 3.5], "b": [None, 4.0]})
    pq.write_table(wide, tmp_path / "wide.parquet")
    for name in ("long.csv", "wide.csv", "long.jsonl", "long.parquet", "wide.parquet"):
        found = read_scores(tmp_path / name).scores
        assert (found.item_ids, found.judges) == (("007", "x"), ("a", "b")), name
        np.testing.assert_array_equal(found.values, [[1.0, np.nan], [3.5, 4.0]])
        assert recorded_judges(tmp_path / name) == ["a", "b"]


def test_a_named_decimal_mark_decides_about_thousands(tmp_path):
    """The error that asks for the decimal mark must name a method that works."""
    path = tmp_path / "scores.csv"
    path.write_text('item_id,a,b\nx,"2,600","1,250.5"\ny,300,"-1,000,000"\n')
    with pytest.raises(InputError, match="may separate decimals or thousands; set --decimal"):
        read_scores(path)
    readings = []
    recorded = read_scores(path, options=ReadingOptions(decimal="."), report=readings.append)
    assert recorded.scores.values.tolist() == [[2600.0, 1250.5], [300.0, -1_000_000.0]]
    assert "'a' is read with a comma as thousands separator" in readings[0].notes
    path.write_text('item_id,a,b\nx,"2,60",1\ny,"3,000",2\n')
    with pytest.raises(InputError, match="'2,60'"):
        read_scores(path, options=ReadingOptions(decimal="."))


def test_files_with_a_wrong_name_are_refused(tmp_path):
    (tmp_path / "scores.parquet").write_text("hello")
    (tmp_path / "scores.doc").write_text("hello")
    for name, words in (
        ("scores.parquet", "cannot be read as parquet"),
        ("scores.doc", "unknown kind of file '.doc'"),
        ("nowhere.csv", "no such file"),
    ):
        with pytest.raises(InputError, match=words):
            read_scores(tmp_path / name)
    with pytest.raises(InputError, match="not a file"):
        read_scores(tmp_path)


def test_texts_in_a_table_of_scores_are_kept(tmp_path):
    (tmp_path / "s.csv").write_text("item_id,judge,score,seen\nx,a,1,hello\nx,b,2,\n")
    found = read_scores(tmp_path / "s.csv", ScoreColumns(response="seen"))
    assert found.responses == {"a": {"x": "hello"}}


def test_items_take_named_columns_and_leave_dropped_ones(tmp_path):
    (tmp_path / "items.csv").write_text("id,text,label,leak,kind\n1,one,0,9,a\n2,two,,9,a\n3,three,1,9,b\n")
    columns = ItemColumns(item_id="id", response="text", gold="label")
    found = read_items(tmp_path / "items.csv", columns, {"kind": "a"}, ("leak",))
    assert [(r.item_id, r.response, r.gold, r.metadata) for r in found] == [
        ("1", "one", 0.0, {"kind": "a"}),
        ("2", "two", None, {"kind": "a"}),
    ]
    with pytest.raises(InputError, match="no column 'nope'"):
        read_items(tmp_path / "items.csv", ItemColumns(item_id="id", gold="nope"))
    with pytest.raises(InputError, match="no row matches"):
        read_items(tmp_path / "items.csv", columns, {"kind": "z"})
    with pytest.raises(InputError, match="no column 'lek'; choose one of 'id', 'text', 'label', 'leak'"):
        read_items(tmp_path / "items.csv", columns, drop=("leak", "lek"))


@pytest.mark.parametrize("columns", [None, ItemColumns(), ItemColumns(gold="mark")])
def test_a_field_that_is_not_named_is_taken_from_the_column_of_its_name(tmp_path, columns):
    (tmp_path / "items.csv").write_text("item_id,prompt,response,aspect,mark\n1,why?,so,style,2\n")
    (found,) = read_items(tmp_path / "items.csv", columns, drop=("aspect",))
    assert (found.prompt, found.response, found.aspect) == ("why?", "so", None)
    assert found.gold == (2.0 if columns is not None and columns.gold else None)
    (other,) = read_items(tmp_path / "items.csv", ItemColumns(prompt="response"))
    assert (other.prompt, other.response) == ("so", None), "a column holds one field"


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_texts_of_digits_keep_their_characters(tmp_path, suffix):
    names = ("item_id", "prompt", "response", "response_2", "reference", "aspect", "split_unit", "judge", "rater")
    rows = [dict.fromkeys(names, text) | {"label": 1, "score": k} for k, text in enumerate(("007", "1.50", "1e3"))]
    path = tmp_path / f"items.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        cells = [[*rows[0]], *(map(str, row.values()) for row in rows)]
        path.write_text("".join(("\t" if suffix == "tsv" else ",").join(line) + "\n" for line in cells))
    for record, row in zip(read_items(path), rows, strict=True):
        assert {name: getattr(record, name) for name in names[:7]} == {name: row[name] for name in names[:7]}
    (other, *_) = read_items(path, ItemColumns(prompt="rater"), where={"aspect": "007"})
    assert (other.item_id, other.prompt) == ("007", "007")
    assert [label.rater for label in read_labels(path).given] == ["007", "1.50", "1e3"]
    scored = read_scores(path, ScoreColumns(response="response"))
    assert scored.responses == {row["judge"]: {row["item_id"]: row["response"]} for row in rows}


def test_a_column_without_texts_is_missing_and_where_takes_numbers(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item_id,prompt,response,aspect\nx,,7,1\ny,,,2\n")
    (found,) = read_items(path, where={"aspect": 2})
    assert (found.item_id, found.prompt, found.response) == ("y", None, "")


def test_labels_know_how_they_came(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(
        "item_id,label,drawn,probability,rater,labelled_at\n"
        "a,1,random,0.5,ann,2026-01-02T10:00:00\na,0,random,0.5,bob,2026-01-03T10:00:00\n"
        "b,0,Chosen,0.25,,\nc,1,chosen,,,\nd,,random,0.5,,\n"
    )
    readings = []
    labels = read_labels(path, report=readings.append)
    assert labels.given == (
        Label("a", 1.0, "random", 0.5, "ann", "2026-01-02T10:00:00"),
        Label("a", 0.0, "random", 0.5, "bob", "2026-01-03T10:00:00"),
        Label("b", 0.0, "chosen", 0.25),
        Label("c", 1.0, "chosen"),
    )
    message = " ".join(readings[0].sentences())
    assert "4 labels of 3 items: 1 drawn at random, 2 chosen" in message
    assert "1 item chosen with an unknown probability" in message
    assert "1 item with several labels" in message
    for rows, sentence in {
        "a,1,maybe,,,": "labels.csv: `drawn` must be random, chosen or empty, got 'maybe'",
        "a,1,random,0,,": r"item 'a' has the sampling probability 0; give one in \(0, 1\]",
        "a,1,random,,ann,now\na,1,random,,ann,now": "several rows say that ann labelled item 'a' at now",
        "a,1,random,,,\na,1,chosen,,,": "the rows of item 'a' disagree",
    }.items():
        path.write_text(f"item_id,label,drawn,probability,rater,labelled_at\n{rows}\n")
        with pytest.raises(InputError, match=sentence):
            read_labels(path)


def test_labels_without_a_draw_are_taken_as_declared(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text("item_id,label\na,1\nb,0\n")
    for unstated, usable, taken in (
        ("chosen", {}, "CARE treats these items as chosen"),
        ("random", {"a": 1.0, "b": 1.0}, "as declared, CARE treats it as random"),
    ):
        readings = []
        assert read_labels(path, report=readings.append, unstated=unstated).sample == usable
        assert all(words in " ".join(readings[0].sentences()) for words in ("for 2 of 2 labels", taken))
    path.write_text("item_id,label,chance\na,1,0.5\nb,0,0.1\n")
    assert read_labels(path).sample == {"a": 0.5, "b": 0.1}


def test_a_misspelt_column_is_named(tmp_path):
    path, readings = tmp_path / "a.csv", []
    path.write_text("item_id,label,drwan,rater2\na,1,random,x\n")
    with pytest.raises(
        InputError, match=r"add a column `drawn` .*no column is called 'drawn': is 'drwan' a misspelling"
    ):
        read_labels(path, unstated=None)
    path.write_text("item_id,respones,prompts\na,x,y\n")
    read_items(path, report=readings.append)
    (question,) = [note for note in readings[0].notes if "misspelling" in note]
    assert "'respones'" in question
    path.write_text("item_id,juge,score\na,x,1\na,y,2\n")
    with pytest.raises(InputError, match="is 'juge' a misspelling"):
        read_scores(path)


def test_labels_and_families(tmp_path):
    (tmp_path / "l.csv").write_text("item_id,label\n01,1\n2,\n")
    assert read_labels(tmp_path / "l.csv").values == {"01": 1.0}
    (tmp_path / "twice.csv").write_text("item_id,label\n1,1\n1,0\n")
    assert read_labels(tmp_path / "twice.csv").values == {"1": 0.5}
    (tmp_path / "f.csv").write_text("judge,family\na,gpt\nb,\n")
    assert read_families(tmp_path / "f.csv") == {"a": "gpt"}
    with pytest.raises(InputError, match="no column 'family'"):
        read_families(tmp_path / "l2.csv" if (tmp_path / "l2.csv").write_text("judge,x\na,b\n") else tmp_path)


class FrameOfAnotherLibrary:
    """Frame that offers only Arrow's PyCapsule interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


WIDE = pa.table({"item_id": ["007", "x"], "a": [1.0, 3.5], "b": [None, 4.0], "gold": [1, 0]})


def frames():
    pandas = pytest.importorskip("pandas", reason="pip install '.[dev]'")
    yield "pyarrow Table", WIDE
    yield "pyarrow RecordBatchReader", WIDE.to_reader()
    yield "tests FrameOfAnotherLibrary", FrameOfAnotherLibrary(WIDE)
    yield "pandas DataFrame", WIDE.to_pandas()
    yield "pandas DataFrame", WIDE.to_pandas().set_index("item_id")
    yield "pandas DataFrame", pandas.concat([WIDE.slice(1, 1).to_pandas(), WIDE.slice(0, 1).to_pandas()])
    yield "duckdb DuckDBPyRelation", duckdb.from_arrow(WIDE)


def test_frames_are_read_as_files_are():
    for name, frame in frames():
        readings = []
        scores = read_scores(frame, report=readings.append).scores.canonical()
        assert (scores.item_ids, scores.judges) == (("007", "x"), ("a", "b")), name
        np.testing.assert_array_equal(scores.values, [[1.0, np.nan], [3.5, 4.0]])
        (reading,) = readings
        assert reading.source == name
        assert "gold" in [one.column for one in reading.left_out]


def test_polars_frames_are_read_without_importing_polars():
    polars = pytest.importorskip("polars", reason="pip install '.[dev]'")
    long = polars.DataFrame(LONG, schema=["item_id", "judge", "score"], orient="row")
    for frame in (long, long.with_columns(polars.col("judge").cast(polars.Categorical))):
        scores = read_scores(frame).scores
        assert (scores.item_ids, scores.judges) == (("007", "x"), ("a", "b"))
        np.testing.assert_array_equal(scores.values, [[1.0, np.nan], [3.5, 4.0]])


def test_ids_in_a_pandas_index_are_found_and_a_count_of_rows_is_not_taken_for_ids():
    pandas = pytest.importorskip("pandas", reason="pip install '.[dev]'")
    scores = {"a": [1, 2, 3], "b": [3, 2, 1]}
    read = read_scores(pandas.DataFrame(scores, index=["x", "y", "z"])).scores
    assert (read.item_ids, read.judges) == (("x", "y", "z"), ("a", "b"))
    for index in (None, [5, 6, 7]):
        with pytest.raises(InputError, match="pandas DataFrame: no column is called item_id"):
            read_scores(pandas.DataFrame(scores, index=index))


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ([["x", 1, 2]], "cannot read a builtins list; give the path of a file, or a frame"),
        (pa.table([[1], [2], [3]], names=["item_id", "a", "a"]), "columns have the same name: 'a' (columns 2, 3)"),
        (pa.table({"item_id": ["x"], "a": ["good"], "b": [1]}).slice(0, 0), "the table is empty"),
        (pa.table({"item_id": ["x", "y"], "a": ["1", "good"], "b": ["2", "bad"]}), "column 'b' contains 'bad' (row 2)"),
    ],
)
def test_unreadable_frames_are_refused_with_a_reason(frame, words):
    with pytest.raises(InputError) as error:
        read_scores(frame)
    assert words in str(error.value)


def test_a_query_is_no_source_of_items():
    with pytest.raises(ValueError, match="save the result as a Parquet file"):
        FilesSource(items="items.sql")


def test_readings_of_items_labels_and_families_are_recorded(tmp_path):
    (tmp_path / "items.csv").write_text("id;response;gold;source\n01;one;0,5;web\n2;two;;web\n")
    readings = []
    found = read_items(tmp_path / "items.csv", report=readings.append)
    assert [(r.item_id, r.response, r.gold, r.metadata) for r in found] == [
        ("01", "one", 0.5, {"source": "web"}),
        ("2", "two", None, {"source": "web"}),
    ]
    (tmp_path / "labels.jsonl").write_text('{"thing": "01", "gold": 1}\n')
    assert read_labels(tmp_path / "labels.jsonl", item="thing", report=readings.append).values == {"01": 1.0}
    (tmp_path / "judges.tsv").write_text("rater\tvendor\n1\tx\n2\t\n")
    assert read_families(tmp_path / "judges.tsv", report=readings.append) == {"1": "x"}
    sentences = [sentence for reading in readings for sentence in reading.sentences()]
    for words in (
        "item is 'id', response is 'response', gold is 'gold'",
        "kept as metadata: 'source'",
        "item is 'thing', label is 'gold'",
        "judge is 'rater', family is 'vendor'",
    ):
        assert words in sentences


def test_texts_of_items_are_found_by_the_names_that_people_give_them(tmp_path):
    def fields(head: str) -> tuple[str | None, ...]:
        (tmp_path / "items.csv").write_text(
            f"id,{head}\nx,{','.join(f'text {k}' for k in range(head.count(',') + 1))}\n"
        )
        (record,) = read_items(tmp_path / "items.csv")
        return record.prompt, record.response, record.response_2

    assert fields("question,answer") == ("text 0", "text 1", None)
    assert fields("Output,Instruction") == ("text 1", "text 0", None)
    assert fields("question,answer_a,answer_b") == ("text 0", "text 1", "text 2")
    assert fields("answer,response") == (None, "text 1", None), "a column of the field's own name is all that is taken"
    assert fields("topic,source") == (None, None, None)
    for name in ("reply", "reply_text", "Model Answer", "model_output", "prediction", "answer text", "generated_text"):
        assert fields(name)[1] == "text 0", name
    assert fields("prompt,reply") == fields("user_question,text_reply") == ("text 0", "text 1", None)
    assert fields("reply,prediction") == (None, None, None), "ambiguous"
    for gold in ("reference_answer", "gold_answer", "ideal_answer", "target_output", "expected_output", "label_text"):
        assert fields(gold) == (None, None, None), gold
    for number in ("1.5", "yes"):
        (tmp_path / "items.csv").write_text(f"id,prediction\nx,{number}\ny,{number}\n")
        assert read_items(tmp_path / "items.csv")[0].response is None, "a verdict or a number is no text"


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"body": LONG_TEXT, "source": "web"}, True),
        ({"body": LONG_TEXT, "source": LONG_TEXT}, False),
        ({"body": LONG_TEXT, "ideal_text": LONG_TEXT, "question": "why"}, True),
        ({"ideal_text": LONG_TEXT}, False),
        ({"body": "web"}, False),
        ({"body": LONG_TEXT, "answer": "yes"}, False),
    ],
)
def test_the_only_column_of_long_texts_is_named_with_its_remedy(columns, named):
    readings = []
    records = read_items(pa.table({"item_id": ["x"], **{c: [v] for c, v in columns.items()}}), report=readings.append)
    assert ("column 'body'" in str(unnamed_text(records))) == named
    kept = next((note for note in readings[0].notes if note.startswith("kept as metadata")), "")
    assert kept.endswith("rename it to `response`: CARE then checks whether judges reward longer answers") == named


def test_every_repeated_item_and_bad_label_is_named(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item_id,gold\n1,x\n2,1\n3,z\n")
    with pytest.raises(InputError, match=r"column 'gold' contains 'x' \(line 2\), 'z' \(line 4\)"):
        read_items(path)
    path.write_text("item_id,gold\n1,0\n2,1\n2,1\n1,0\n")
    with pytest.raises(InputError, match=r"'1' \(line 2, line 5\), '2' \(line 3, line 4\)"):
        read_items(path)


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text('item_id,a,b,why\n\ni1,1,2,"first\nsecond"\ni2,poor,1,short\n')
    with pytest.raises(InputError, match=r"'poor' \(line 5\)"):
        read_scores(path)


def test_where_an_extra_is_missing_the_sentence_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    path = tmp_path / "scores.xlsx"
    path.write_bytes(workbook({"scores": [["item_id", "a", "b"], ["x", 1, 2]]}))
    with pytest.raises(InputError, match=r"pip install '\.\[excel\]'"):
        read_scores(path)


def test_a_test_set_of_before_has_the_version_that_it_had(tmp_path):
    (tmp_path / "items.csv").write_text("item_id\nx\n")
    spec = TestsetSpec(name="one", source=FilesSource(items="items.csv"))
    named = spec.model_copy(update={"source": FilesSource(items="items.csv", reading=ReadingOptions(separator=";"))})
    assert spec.fingerprint(tmp_path) == "f16043eb81259fe903e8d47477bfae50"
    assert named.fingerprint(tmp_path) != spec.fingerprint(tmp_path)


def test_text_that_a_writer_calls_bytes_is_text(tmp_path):
    path = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"item_id": [b"x", b"y"], "a": [1, 2], "b": [2, 1], "image": [b"\xff", b"\xfe"]}), path)
    readings = []
    assert read_scores(path, report=readings.append).scores.item_ids == ("x", "y")
    assert [(one.column, one.why) for one in readings[0].left_out] == [("image", "holds bytes")]
    pq.write_table(pa.table({"item_id": [{"k": 1}], "a": [1], "b": [2]}), path)
    with pytest.raises(InputError, match="column item_id contains struct<k: int64>, not names"):
        read_scores(path)


def test_a_long_table_drops_judges_and_columns(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("item_id,judge,score,note\na,x,1,n\na,y,2,n\nb,x,3,n\nb,y,5,n\n")
    columns, seen = ScoreColumns(drop=("y", "note")), []
    scores = read_scores(path, columns, report=seen.append).scores
    assert scores.judges == ("x",)
    assert scores.values.tolist() == [[1.0], [3.0]]
    assert recorded_judges(path, columns) == ["x"]
    assert {left.column: left.why for left in seen[0].left_out} == {"y": "as you asked", "note": "as you asked"}
    with pytest.raises(InputError, match="no judge or column 'z' to drop; the judges are 'x', 'y'"):
        read_scores(path, ScoreColumns(drop=("z",)))


def test_columns_to_drop_must_be_there(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("item_id,a,b,annotator\nx,1,2,Kim\ny,2,1,Lee\n")
    assert read_scores(path, ScoreColumns(drop=("annotator",))).scores.judges == ("a", "b")
    for drop, words in (("nobody", "no column 'nobody'"), ("a", "'annotator' contains the judge of each row")):
        with pytest.raises(InputError, match=words):
            read_scores(path, ScoreColumns(drop=(drop,)))


def test_json_lines_with_several_types_and_keys_become_columns_of_one_type(tmp_path):
    rows = [{"item_id": k, "a": k, "b": 1} for k in range(3)] + [{"item_id": "x", "a": 2.5}, {"item_id": "y", "c": 1}]
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    scores = read_scores(path).scores
    assert (scores.item_ids, scores.judges) == (("0", "1", "2", "x", "y"), ("a", "b", "c"))
    nan = np.nan
    expected = [[0, 1, nan], [1, 1, nan], [2, 1, nan], [2.5, nan, nan], [nan, nan, 1]]
    np.testing.assert_array_equal(scores.values, expected)


def test_an_address_is_not_taken_for_a_folder(tmp_path, monkeypatch):
    """Joined to a folder, ``s3://bucket/items.csv`` would name a file in a folder called ``s3:``."""
    monkeypatch.setenv("CARE_TEST_STORE", "gs://bucket")
    for path in ("s3://bucket/items.csv", "${CARE_TEST_STORE}/items.csv"):
        with pytest.raises(InputError, match=r"://bucket/items\.csv is a URL; give a local path"):
            resolve(path, tmp_path)
    assert resolve("a folder/items.csv", tmp_path) == tmp_path / "a folder" / "items.csv"


def test_a_resolved_path_has_no_parent_steps_and_is_the_opened_file(tmp_path):
    """Links in the middle of a path are followed; a link at its end keeps its name."""
    (tmp_path / "far" / "ws").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "ws")
    for folder in (tmp_path, tmp_path / "far"):
        (folder / "stored").write_text(str(folder))
        (folder / "items.csv").symlink_to(folder / "stored")
    assert resolve("../items.csv", tmp_path / "far") == tmp_path / "items.csv"
    assert resolve("../../items.csv", tmp_path / "link") == tmp_path / "items.csv"
    for base in (tmp_path / "far", tmp_path / "link"):
        found = resolve("../items.csv", base)
        assert found.read_text() == (base / ".." / "items.csv").read_text()
        assert (found.name, ".." in found.parts) == ("items.csv", False)


def test_half_a_character_in_json_is_replaced_and_nothing_else(tmp_path):
    """JSON can contain half of a surrogate pair, which UTF-8, parts and hashes cannot."""
    rows = [
        '{"item_id": "a", "prompt": "\\ud83d what", "response": "it is so", "tags": ["\\ude00", "x"]}',
        '{"item_id": "b", "prompt": "\\ud83d\\ude00 is whole", "response": "é"}',
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(rows) + "\n")
    found = read_items(tmp_path / "items.jsonl")
    assert [(r.item_id, r.prompt, r.response) for r in found] == [
        ("a", "\N{REPLACEMENT CHARACTER} what", "it is so"),
        ("b", "\N{GRINNING FACE} is whole", "é"),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            '{"item_id": "a", "prompt": "p"}\n{"item_id": "b", "prompt": %s}\n',
            "line 2 is not valid JSON (maximum recursion depth exceeded",
        ),
        ('[{"item_id": "a", "prompt": %s}]', "the data is nested too deeply"),
    ],
)
def test_deeply_nested_json_is_refused(tmp_path, text, where):
    path = tmp_path / ("items.jsonl" if text.startswith("{") else "items.json")
    path.write_text(text % ("[" * 100_000 + "]" * 100_000))
    with pytest.raises(InputError, match=re.escape(where)):
        read_items(path)
