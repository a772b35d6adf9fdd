"""Tests of a workspace that reads the log folder of another tool."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from assets.sources import read_source, recorded_scores
from orchestration.workspace import load_workspace
from tests.support.workspaces import QUICK, run
from warehouse.importers.registry import read_unchanged

FILES = Path(__file__).parents[1] / "warehouse" / "imported" / "inspect_ai"
PANEL = json.loads((FILES.parent / "panels.json").read_text())["grades"]


def follow(folder: Path) -> Path:
    """Create a workspace whose only test set is the folder ``logs`` beside it."""
    (folder / "logs").mkdir(parents=True)
    shutil.copy(FILES / "grades.eval", folder / "logs")
    workspace = folder / "ws"
    (workspace / "testsets").mkdir(parents=True)
    (workspace / "care.yaml").write_text(QUICK + "panel: {admit: all}\n")
    (workspace / "testsets" / "logs.yaml").write_text(
        "source: {kind: import, tool: inspect_ai, path: ../logs, judges: '^(strict|kind|brief)$',"
        " families: {kind: warm}}\n"
    )
    return workspace


def test_items_judges_and_scores_come_from_the_logs(tmp_path):
    workspace = load_workspace(follow(tmp_path))
    assert set(workspace.judges) == set(PANEL["judges"])
    assert workspace.judges["kind"].family == "warm"
    items = read_source(workspace, "logs")
    assert [item.gold for item in items] == PANEL["labels"]
    scores = recorded_scores(workspace, "logs").scores.select_judges(PANEL["judges"])
    order = np.argsort([item.item_id for item in items])
    np.testing.assert_array_equal(scores.values[order], np.array(PANEL["scores"])[order])


@pytest.mark.slow
def test_a_nightly_run_follows_the_folder(tmp_path):
    folder = follow(tmp_path)
    first = run(folder)
    assert first.failures == {}
    assert ("aggregates", "logs") in first.materialised
    assert run(folder).materialised == [], "nothing has changed"
    log = json.loads((FILES / "graded.json").read_text())
    log["eval"]["task"], log["eval"]["created"] = "grades", "2027-01-01T00:00:00+00:00"
    for k, sample in enumerate(log["samples"]):
        sample |= {"id": f"new{k}", "epoch": 1}
        sample["scores"] = {judge: {"value": k + j} for j, judge in enumerate(PANEL["judges"])}
    (tmp_path / "logs" / "new.json").write_text(json.dumps(log))
    second = run(folder)
    assert second.failures == {}
    assert ("aggregates", "logs") in second.materialised
    workspace = load_workspace(folder)
    assert len(read_source(workspace, "logs")) == 8 + 6
    assert recorded_scores(workspace, "logs").scores.shape == (14, 3)


def test_unchanged_files_are_read_once_and_changed_ones_again(tmp_path):
    follow(tmp_path)
    first = read_unchanged("inspect_ai", tmp_path / "logs")
    assert read_unchanged("inspect_ai", tmp_path / "logs") is first
    shutil.copy(FILES / "votes.eval", tmp_path / "logs" / "grades.eval")
    (tmp_path / "logs" / "grades.eval").rename(tmp_path / "logs" / "votes.eval")
    assert read_unchanged("inspect_ai", tmp_path / "logs").judges == ["one", "two", "three"]
