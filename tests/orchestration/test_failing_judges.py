"""Tests of judges that fail for a while: asked again, reported, and stopped early."""

import json
import shutil

import pytest

from tests.support.openai_server import answer
from tests.support.workspaces import JUDGES, care, care_json, doctor_rows, ran, run, statuses, write_api_judge


@pytest.fixture
def failing(endpoint, workspace_after_run):
    """Return a workspace, a server that fails on some texts by ``broken["yes"]``, and a function to write its judge."""
    broken = {"yes": lambda text: "Rome" in text}
    endpoint.say = lambda text, _: (500, "no") if broken["yes"](text) else answer("7")

    def judge(**more):
        lines = "".join(f"{name}: {value}\n" for name, value in more.items())
        write_api_judge(workspace_after_run, endpoint.url, judge=lines, retries=0)

    return workspace_after_run, endpoint, broken, judge


@pytest.mark.slow
def test_the_next_run_asks_only_questions_that_failed(failing):
    folder, server, broken, judge = failing
    judge(most_failing=0.9)
    assert not run(folder).failures
    failed = statuses(folder)["engine_error"]
    assert 0 < failed < 40
    rows = care_notes(folder)
    assert f"Judge api failed on {failed} of 40 items" in rows

    broken["yes"] = lambda _: False
    asked = len(server.requests)
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == ["api"]
    assert ran(outcome, "panel") == ["one"]
    assert 0 < len(server.requests) - asked <= failed, "items of equal texts are one question"
    assert statuses(folder) == {"ok": 40}
    assert care_notes(folder) == ""
    assert run(folder).materialised == []


@pytest.mark.slow
def test_attempts_are_counted_and_limited(failing):
    folder, server, broken, judge = failing
    judge(most_failing=0.9, attempts=2)
    run(folder)
    assert "26 of 26 items of a batch failed" in run(folder).failures["judge_inference", "api"], "all that is left"
    asked = len(server.requests)
    failed = statuses(folder)["engine_error"]
    assert run(folder).materialised == [], "asked twice, as often as `attempts` allow"
    assert len(server.requests) == asked
    assert f"Judge api failed on {failed} of 40 items as often" in care_notes(folder)
    printed = care(folder, "run", "--dry-run")
    assert "every judge has scored every item" not in printed
    (row,) = care_json(folder, "run", "--dry-run")
    assert (row["judge"], row["items"], row["given_up"]) == ("api", 0, failed)
    broken["yes"] = lambda _: False
    judge(most_failing=0.9, attempts=3)
    assert ran(run(folder), "judge_inference") == ["api"]
    assert statuses(folder) == {"ok": 40}


@pytest.mark.slow
def test_an_outage_uses_up_no_attempts(failing):
    """Four runs get no answer, although two attempts are permitted; afterwards all items are asked."""
    folder, _, broken, judge = failing
    judge(attempts=2)
    broken["yes"] = lambda _: True
    for _ in range(4):
        assert "items of a batch failed" in run(folder, judge="api").failures["judge_inference", "api"]
    broken["yes"] = lambda _: False
    run(folder, judge="api")
    assert statuses(folder) == {"ok": 40}


@pytest.mark.slow
def test_a_judge_whose_endpoint_is_down_stops_early_and_is_named(failing):
    """Dagster, ``care run``, status and page report the failure; later the judge is asked about the remaining items."""
    folder, server, broken, judge = failing
    broken["yes"] = lambda _: True
    judge(batch_size=5)
    outcome = run(folder)
    assert "items of a batch failed (" in outcome.failures["judge_inference", "api"]
    assert len(server.requests) <= 10, "a batch of five questions, and once more: not all of them"
    assert "Judge api has not scored" in care_notes(folder)
    states = {row["judge"]: row["state"] for row in care_json(folder, "status")}
    assert states["api"] == "failed"
    assert states["length"] == "40 / 40"
    (lacks,) = doctor(folder)
    assert "items tried so far has a score (" in lacks
    assert "engine_error); its most frequent message: " in lacks

    broken["yes"] = lambda _: False
    outcome = run(folder)
    assert not outcome.failures
    assert statuses(folder) == {"ok": 40}
    assert care_notes(folder) == ""
    assert doctor(folder) == []


@pytest.mark.slow
def test_status_counts_scores_of_a_failed_judge_without_dagsters_storage(failing):
    folder, server, broken, judge = failing
    broken["yes"] = lambda _: len(server.requests) > 10
    judge(batch_size=5)
    assert "judge_inference" in {asset for asset, _ in run(folder).failures}
    given = statuses(folder)["ok"]
    assert 0 < given < 40
    expected = {"api": f"{given} / 40", **dict.fromkeys(JUDGES, "40 / 40")}
    assert {row["judge"]: row["state"] for row in care_json(folder, "status")} == expected
    shutil.rmtree(folder / "data" / "dagster")
    assert {row["judge"]: row["state"] for row in care_json(folder, "status")} == expected


def doctor(folder) -> list[str]:
    """Return the rows of ``care doctor`` about judges without scores."""
    own = [row["what"] for row in doctor_rows(folder) if row["check"] == "judge api"]
    return [what for what in own if "has a score" in what]


def care_notes(folder) -> str:
    """Return the verdict's notes about judges with missing scores."""
    verdict = json.loads((folder / "data/report/verdicts.json").read_text())["one"]
    topics = ("owing judge", "stale")
    return " | ".join(reason["sentence"] for reason in verdict["reasons"] if reason["topic"] in topics)
