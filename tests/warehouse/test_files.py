"""Score files: every layout reads the same, and bad input says what is wrong and where."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from care_ops.errors import InputError
from warehouse.sources.files import read_families, read_items, read_labels, read_scores, recorded_judges
from warehouse.testsets import ItemColumns, ScoreColumns

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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (long_csv(header="thing,judge,score"), "no column is called item_id, nor item, id"),
        (long_csv([*LONG, (None, "a", 1)]), "item_id is empty in line 6"),
        (long_csv([*LONG, ("y", None, 1)]), "judge is empty in line 6"),
        (long_csv([*LONG, ("y", "a", "good")]), "column 'score' holds 'good' (line 6)"),
        (long_csv([*LONG, ("x", "a", 9)]), "several rows for item 'x' and judge 'a' (line 4, line 6)"),
        (long_csv([*LONG, ("y", "a", "inf")]), "column 'score' holds inf (line 6)"),
        (long_csv([("x", "a", None), ("x", "b", None)]), "every score is missing"),
        ("item_id,a\nx,1\nx,2\n", "item_id has several rows for 'x' (line 2, line 3)"),
        ("item_id\nx\n", "no judge"),
        ("item_id,judge,score\n", "the table is empty"),
        ("", "the file is empty"),
    ],
)
def test_bad_scores_say_what_and_where(tmp_path, text, words):
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_scores(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_files_that_are_not_what_they_say(tmp_path):
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


def test_texts_beside_scores_are_kept(tmp_path):
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
    with pytest.raises(InputError, match="no row where"):
        read_items(tmp_path / "items.csv", columns, {"kind": "z"})


def test_labels_and_families(tmp_path):
    (tmp_path / "l.csv").write_text("item_id,label\n01,1\n2,\n")
    assert read_labels(tmp_path / "l.csv") == {"01": 1.0}
    (tmp_path / "twice.csv").write_text("item_id,label\n1,1\n1,0\n")
    with pytest.raises(InputError, match="several rows for '1'"):
        read_labels(tmp_path / "twice.csv")
    (tmp_path / "f.csv").write_text("judge,family\na,gpt\nb,\n")
    assert read_families(tmp_path / "f.csv") == {"a": "gpt"}
    with pytest.raises(InputError, match="no column 'family'"):
        read_families(tmp_path / "l2.csv" if (tmp_path / "l2.csv").write_text("judge,x\na,b\n") else tmp_path)
