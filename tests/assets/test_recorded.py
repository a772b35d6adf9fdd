"""Tests of recorded scores: they are joined by item id, judge by judge, and only new scores are stored."""

import pytest

from assets.judge_keys import judge_key
from assets.judging.recorded import store_recorded
from assets.judging.stored_items import StoredItems
from assets.sources import read_source
from assets.workspace import FORGOTTEN, forgotten_key
from care_ops.errors import InputError, JudgeError
from judges.items import checked_score
from orchestration.workspace import load_workspace
from tests.support.workspaces import make, read_table, write_table, write_testset
from warehouse.storage import write_lines

SCALE = (0.0, 10.0)


@pytest.fixture
def recorded(tmp_path):
    """Create a workspace with items and with the recorded scores of judge ``a`` from ``record``."""
    folder = make(tmp_path / "ws", judges=("length",))
    write_testset(folder, source="scores: {path: scores.csv, columns: {response: text}}\n")
    record(folder)
    workspace = load_workspace(folder)
    workspace.parts.write_items("one", read_source(workspace, "one"))
    return folder


def record(folder, **changed):
    """Write scores in another order than the items: two out of range, two missing, two for another text."""
    texts = {row["item_id"]: row["answer"] for row in read_table(folder / "one.csv")}
    values = {f"i{k}": str(k % 9 + 0.25) for k in reversed(range(40))} | {"i5": "11", "i6": "-0.5", "i7": "", **changed}
    del values["i8"]
    texts |= dict.fromkeys(("i20", "i21"), "another text")
    rows = [(item_id, "a", value, texts.get(item_id)) for item_id, value in values.items()]
    write_table(folder / "scores.csv", ("item_id", "judge", "score", "text"), rows)
    return values


def stored(folder):
    """Return the rows of the judge's parts by item, and the number of parts."""
    parts = load_workspace(folder).parts
    rows = {(row["item_id"], row["judge_key"]): row for row in parts.read_scores("a", "one").to_pylist()}
    return rows, len(list(parts.scores_folder("a", "one").glob("*.parquet")))


def store(folder):
    workspace = load_workspace(folder)
    return store_recorded(workspace, "a", "one", StoredItems(workspace.parts, "one"))


def test_scores_do_not_depend_on_each_other(recorded):
    values = record(recorded)
    assert store(recorded) == 40
    rows, _ = stored(recorded)
    of_item = {item_id: row for (item_id, _), row in rows.items()}
    assert len(of_item) == len(rows) == 40
    keys = StoredItems(load_workspace(recorded).parts, "one")
    for item_id, key in zip(keys.ids, keys.keys, strict=True):
        row, value = of_item[item_id], values.get(item_id) or None
        score, status = checked_score(None if value is None else float(value), SCALE)
        assert (row["score"], row["status"], row["item_key"]) == (score, status, key)
        assert row["raw"] == (repr(float(value)) if status == "out_of_range" else None)
        assert row["text_mismatch"] == (item_id in ("i20", "i21"))
        assert (row["engine"], row["tokens_in"], row["p_json"]) == ("recorded", None, None)


def test_only_missing_recorded_scores_are_stored(recorded, monkeypatch):
    record(recorded)
    monkeypatch.setattr("assets.judging.recorded._ROWS_A_PART", 16)
    assert store(recorded) == 40
    rows, parts = stored(recorded)
    assert parts == 3
    assert store(recorded) == 0
    lost = sorted(load_workspace(recorded).parts.scores_folder("a", "one").glob("*.parquet"))[0]
    lost.unlink()  # as after a kill
    assert 0 < store(recorded) <= 16
    again, parts = stored(recorded)
    assert parts == 3
    assert {key: row["score"] for key, row in again.items()} == {key: row["score"] for key, row in rows.items()}
    record(recorded, i3="9.5")
    assert store(recorded) == 40, "the recordings are another version of the judge"


def test_recorded_scores_of_unknown_items_are_rejected_as_in_care_fit(recorded):
    record(recorded, i77="3", i78="4")
    with pytest.raises(InputError, match=r"one\.csv: the table lacks 2 scored items, such as 'i77'"):
        store(recorded)
    assert stored(recorded)[0] == {}
    forgotten = [{"item": forgotten_key("one", item)} for item in ("i77", "i78")]
    write_lines(recorded / "data" / FORGOTTEN, forgotten)
    assert store(recorded) == 40, "they were forgotten, and are not asked for again"


def test_removed_items_are_reported_although_no_score_changed(recorded):
    assert store(recorded) == 40
    lines = (recorded / "one.csv").read_text(encoding="utf-8").splitlines()
    (recorded / "one.csv").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="1 scored item"):
        judge_key(load_workspace(recorded), "a", "one")


def test_scores_of_items_that_the_source_filters_out_are_permitted(recorded):
    testset = recorded / "testsets" / "one.yaml"
    testset.write_text(testset.read_text().replace("  scores:", "  where: {item_id: i3}\n  scores:"))
    workspace = load_workspace(recorded)
    workspace.parts.write_items("one", read_source(workspace, "one"))
    assert store(recorded) == 1


def test_a_judge_without_a_score_file_is_refused(recorded):
    write_testset(recorded)
    (recorded / "judges" / "a.yaml").write_text("engine: {kind: recorded, column: a}\n")
    with pytest.raises(JudgeError, match="no score file"):
        store(recorded)
