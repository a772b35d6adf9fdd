"""Tests of the share of items that repeat the text of another item."""

import pytest

from assets.fit.aggregates import share_of_duplicates
from orchestration.workspace import load_workspace
from tests.support.workspaces import make
from warehouse.items import ItemRecord


@pytest.mark.parametrize(
    ("items", "share"),
    [
        ([("q", "a", None), ("q", "a", None), ("q", "b", None)], 1 / 3),
        ([("q", "a", "u"), ("q", "a", "u"), ("q", "a", "v"), ("q", "a", None)], 2 / 4),
        ([(None, None, None), (None, None, None)], 0),
        ([], 0),
    ],
    ids=["no split units", "the same split unit is meant", "without texts", "no items"],
)
def test_items_of_equal_texts_count_unless_they_share_a_split_unit(tmp_path, items, share):
    workspace = load_workspace(make(tmp_path / "ws"))
    records = [ItemRecord(f"i{k}", prompt, response, split_unit=u) for k, (prompt, response, u) in enumerate(items)]
    workspace.parts.write_items("one", records)
    assert share_of_duplicates(workspace, "one") == pytest.approx(share)


def test_different_texts_are_not_duplicates(tmp_path):
    workspace = load_workspace(make(tmp_path / "ws"))
    texts = {"prompt": "p", "response": "r", "response_2": "s", "reference": "t", "aspect": "a"}
    others = [{**texts, name: "another"} for name in texts] + [{**texts, "aspect": None}]
    workspace.parts.write_items("one", [ItemRecord(f"i{k}", **some) for k, some in enumerate([texts, *others])])
    assert share_of_duplicates(workspace, "one") == 0
