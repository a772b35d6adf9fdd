"""Seven nights of `care run`: exactly the listed partitions, no others, and every item scored once."""

import pytest

from tests.support.nights import nights, workspace
from tests.support.workspaces import run, score_rows

pytestmark = pytest.mark.slow


def test_seven_nights_run_exactly_what_they_must(tmp_path):
    folder = workspace(tmp_path / "ws")
    for night in nights():
        night.happen(folder)
        outcome = run(folder)
        ran: dict[str, set[str]] = {}
        for asset, partition in outcome.materialised:
            ran.setdefault(asset, set()).add(partition or "")
        assert ran == night.runs, night.what
        assert len(outcome.materialised) == len(set(outcome.materialised)), f"{night.what}: nothing is made twice"
        assert set(outcome.failures) == night.fails, night.what
        rows = score_rows(folder)
        assert len(rows) == len(set(rows)), f"{night.what}: nothing is scored twice"
        again = run(folder)
        assert again.materialised == [], f"{night.what}: and then it is quiet"
