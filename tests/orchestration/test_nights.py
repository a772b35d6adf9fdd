"""Seven nights by the conditions: exactly the listed partitions, no others, and every item scored once."""

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
        # `care run` looks at the state too and has the index tell of a judge that failed; conditions alone do not
        expected: dict[str, set[str]] = {"report_index": {""}} if night.fails else {}
        assert ran == {**night.runs, **expected}, night.what
        assert set(outcome.failures) == night.fails, night.what
        loads = [p for a, p in outcome.materialised if a == "judge_inference"]
        assert len(loads) == len(set(loads)), f"{night.what}: one load a judge"
        rows = score_rows(folder)
        assert len(rows) == len(set(rows)), f"{night.what}: nothing is scored twice"
        again = run(folder)
        assert again.materialised == [], f"{night.what}: and then it is quiet"
