"""Tests of runs with a judge that asks by batch files: sending, waiting, collecting."""

from __future__ import annotations

import time

import pytest

from assets.report.names import page_name
from assets.report.staleness import LOOK_EVERY_S
from orchestration.plan import Cursor, find_stale
from orchestration.workspace import load_workspace
from tests.support.openai_server import answer
from tests.support.workspaces import care, care_json, make, query, ran, run, write_api_judge

N = 40
ASKING = ("judge_inference", "api")


@pytest.fixture
def nightly_run(tmp_path, endpoint):
    folder = make(tmp_path / "ws", ("length", "thoroughness", "conciseness"), N)
    endpoint.say = lambda text, _: answer(str(1 + len(text) % 9))
    write_api_judge(folder, endpoint.url, scoring="text", batch=True, price_in=1.0, price_out=5.0)
    return folder, endpoint


@pytest.mark.slow
def test_one_run_sends_a_batch_and_another_collects_it(nightly_run):
    folder, server = nightly_run
    printed = " ".join(care(folder, "run").split())
    (batch,) = server.batches.values()
    lines = batch["request_counts"]["total"]
    assert f"judge api: a batch of {lines} questions on one has been open since" in printed
    assert f"({batch['id']}), 0 of {lines} requests done; `care run` collects the responses" in printed
    assert "Judge api has not scored" in printed
    assert "left out: the judge gave" not in printed, "its one score is not fitted before the others are there"
    page = folder / "data" / "report" / page_name("one")
    assert page.is_file(), "the fit goes on with the judges that are there"
    state = {row["judge"]: row["state"] for row in care_json(folder, "status")}["api"]
    assert state.endswith(" in a batch")
    assert f"({batch['id']}), 0 of {lines} requests done" in " ".join(care(folder, "status").split())
    assert [row for row in care_json(folder, "run", "--dry-run") if row["judge"] == "api"] == []

    made = page.stat().st_mtime_ns
    for _ in range(2):
        outcome = run(folder)
        assert outcome.failures == {}
        assert outcome.materialised == [ASKING], "it is only looked at"
    assert page.stat().st_mtime_ns == made
    assert len(server.batches) == 1

    server.work()
    outcome = run(folder)
    assert outcome.failures == {}
    assert ran(outcome, "scores") == ["api|one"]
    assert {row["judge"]: row["state"] for row in care_json(folder, "status")}["api"] == f"{N} / {N}"
    assert set(server.paid.values()) == {1}
    bill = "SELECT dollars, tokens_in, forecast_dollars FROM bills WHERE judge = 'api'"
    ((dollars, tokens, forecast),) = query(folder, bill)
    assert tokens == server.tokens[0]
    assert dollars == pytest.approx((server.tokens[0] * 1.0 + server.tokens[1] * 5.0) / 1e6)
    assert 0 < forecast < 10 * dollars
    assert ">api</" in page.read_text()
    assert run(folder).materialised == []


@pytest.mark.slow
def test_the_daemon_polls_an_open_batch(nightly_run, monkeypatch):
    folder, _ = nightly_run
    run(folder)
    now, tried = [1e9], Cursor(most=2)
    monkeypatch.setattr(time, "time", lambda: now[0])

    def looks():
        workspace = load_workspace(folder)
        return [one.key for one in tried.request(workspace, find_stale(workspace))]

    assert [looks() for _ in range(3)] == [[ASKING], [], []]
    now[0] += LOOK_EVERY_S
    assert [looks() for _ in range(3)] == [[ASKING], [], []]
