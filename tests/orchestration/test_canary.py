"""Tests of the canary, which asks a judge again and reports a model behind an API that changed."""

import re
import shutil
from datetime import UTC, date, datetime, timedelta
from html import unescape

import dagster as dg
import pytest

from assets.judge_keys import keys_of_judges
from assets.judging.canary import ask_again as ask_judge_again
from assets.judging.retests import Retest, changed_judges, record_retest, retests
from assets.report.names import page_name
from care_ops.errors import JudgeError
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.plan import Cursor, find_stale
from orchestration.requests import request_stale
from orchestration.workspace import load_workspace
from tests.support.openai_server import Server, answer
from tests.support.workspaces import JUDGES, QUICK, add_column, care, run, score_rows, write_api_judge, write_testset


@pytest.fixture(scope="module")
def first_run(one_run, tmp_path_factory):
    """Run an API judge and programs once; the server adds ``shift[0]`` to scores, as model ``shift[1]``."""
    shift = [0, "vendor/large-2026-08-01"]

    def say(text, _attempt):
        words = len(re.findall(r"\w+", text.split("capital of Italy?")[-1]))
        return answer(str(min(10, words % 7 + shift[0])), model=shift[1])

    server = Server(say)
    folder = shutil.copytree(one_run, tmp_path_factory.mktemp("canary") / "ws", symlinks=True)
    (folder / "care.yaml").write_text(QUICK + "canary: {items: 20}\nalerts: {file: alerts.jsonl}\n")
    add_column(folder / "one.csv", "model", ("old", "new"))
    write_testset(folder, rest="scale: [0, 10]\nsystems: [model]\n")
    write_api_judge(folder, server.url, judge="scale: [0, 10]\n")
    with pytest.MonkeyPatch.context() as patch, server:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        assert not run(folder).failures
        yield folder, server, shift


@pytest.fixture
def workspace(first_run, tmp_path):
    """Return a copy after the first run, with a server that answers as before."""
    folder, server, shift = first_run
    shift[:] = [0, "vendor/large-2026-08-01"]
    return shutil.copytree(folder, tmp_path / "ws", symlinks=True), server, shift


def ask_again(folder, judge="api"):
    with workspace_instance(load_workspace(folder)) as instance:
        job = build_defs(folder).resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("canary")], partition_key=judge)
    return result.get_asset_check_evaluations()[0]


def due(folder):
    """Return what ``care run`` would materialise."""
    return find_stale(load_workspace(folder), canaries=True)


def page_of(folder):
    return (load_workspace(folder).report_folder / page_name("one")).read_text()


@pytest.mark.slow
def test_a_silent_change_of_a_model_is_reported_and_no_score_changes(workspace):
    folder, server, shift = workspace
    rows, asked, today = score_rows(folder), len(server.requests), datetime.now(UTC).date().isoformat()
    same = ask_again(folder)
    assert same.passed
    assert 1 <= len(server.requests) - asked <= 20
    assert "no evidence of a change" in (same.description or "")
    shift[1] = "vendor/large-2026-11-01"
    other = ask_again(folder)
    assert not other.passed
    assert "the model vendor/large-2026-11-01 answered, before: vendor/large-2026-08-01" in (other.description or "")
    shift[0] = 3
    changed = ask_again(folder)
    assert not changed.passed
    assert changed.severity == dg.AssetCheckSeverity.WARN
    assert "30.0% of the scale" in (changed.description or "")
    one = retests(load_workspace(folder), "api").changed
    assert 0.1 < one.shift <= 0.3, "some had been asked a second time before, and had not moved"
    reported = (
        f"Judge api changed: its scores for the same answers rose by {one.shift:.3f} of the scale on {today} (detected"
    )
    assert reported in (changed.description or "")
    assert "Change `revision`" in (changed.description or "")
    assert score_rows(folder) == rows
    assert {asset for asset, _ in run(folder).materialised} == {"report_index"}, "asking again makes nothing stale"
    care(folder, "run")
    for output in (care(folder, "status"), (folder / "alerts.jsonl").read_text()):
        assert reported in " ".join(output.split())
    assert reported in " ".join(care(folder, "gate", "one", "new", "--against", "old", code=6).split())
    output = " ".join(care(folder, "judges", "retest", "api", code=6).split())
    assert "api: 20 items moved by 30.0% of the scale on average" in output
    assert reported in output
    page = unescape(page_of(folder))
    assert page.count(", the judge's scores changed by 30.0% of the scale on average") == 1
    assert page.count("Model: vendor/large-2026-11-01.") == 1
    assert page.count("<dt>Retest</dt>") == 1
    (folder / "judges" / "api.yaml").write_text(
        (folder / "judges" / "api.yaml").read_text().replace("}", ", revision: b}")
    )
    assert not run(folder).failures
    assert ask_again(folder).passed, "what the warning advises mends it: everything was asked anew"
    assert "Judge api changed" not in care(folder, "status")


def test_care_run_and_the_daemon_retest_judges_once_a_day(workspace, monkeypatch):
    from assets.judging import canary

    folder, server, shift = workspace
    assert ("canary", "api") not in due(folder), "what was scored today is not asked again today"
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    monkeypatch.setattr(canary, "today", lambda: tomorrow)
    loaded = load_workspace(folder)
    with workspace_instance(loaded) as instance:
        requests, _ = request_stale(loaded, instance, Cursor())
    assert [[*request.asset_selection] for request in requests] == [[dg.AssetKey("canary")]]
    assert requests[0].tags["dagster/partition"] == "api"
    asked, shift[0] = len(server.requests), 3
    outcome = run(folder)
    assert outcome.materialised == [("canary", "api"), ("report_index", None)]
    assert len(server.requests) == asked + 20
    assert "Judge api changed" in care(folder, "status")
    assert ("canary", "api") not in due(folder)
    monkeypatch.setattr(canary, "today", lambda: tomorrow + timedelta(days=1))
    assert ("canary", "api") in due(folder)
    (folder / "care.yaml").write_text(QUICK + "canary: {items: 0}\n")
    assert ("canary", "api") not in due(folder)


@pytest.mark.slow
def test_after_a_model_returns_only_scores_since_its_change_are_affected(workspace, monkeypatch):
    from assets.judging import canary

    folder, server, shift = workspace
    before, tomorrow = score_rows(folder), datetime.now(UTC).date() + timedelta(days=1)
    monkeypatch.setattr(canary, "today", lambda: tomorrow)
    shift[0] = 3
    assert "changed" in care(folder, "judges", "retest", "api", code=6)
    shift[0] = 0
    output = " ".join(care(folder, "judges", "retest", "api").split())
    assert f"answers as it did before {tomorrow}" in output
    assert "its scores remain valid" in output
    assert "revision" not in output
    assert retests(load_workspace(folder), "api").changed is None
    asked = len(server.requests)
    run(folder)
    assert len(server.requests) == asked
    assert score_rows(folder) == before
    assert "Judge api changed" not in care(folder, "status")

    monkeypatch.setattr(canary, "today", lambda: datetime.now(UTC).date())
    shift[0] = 3
    assert "changed" in care(folder, "judges", "retest", "api", code=6)
    shift[0] = 0
    printed = " ".join(care(folder, "judges", "retest", "api", code=6).split())
    assert "affects only the 40 items scored since then" in printed


def test_an_impossible_retest_is_rejected(workspace):
    folder, *_ = workspace
    (folder / "judges" / "read.yaml").write_text("engine: {kind: recorded, column: someone}\n")
    loaded = load_workspace(folder)
    (folder / "care.yaml").write_text(QUICK + "canary: {items: 0}\n")
    assert "set a number of items" in care(folder, "judges", "retest", "api", code=2)
    assert "cannot score items" in care(folder, "judges", "retest", "read", code=2)
    with pytest.raises(JudgeError, match="'read': this judge's scores were read from a file, so it cannot score items"):
        ask_judge_again(loaded, "read")


def test_a_changed_judge_blocks_the_gate_until_another_revision(workspace):
    folder, *_ = workspace
    loaded = load_workspace(folder)
    keys = [row["item_key"] for row in loaded.parts.read_scores("api", "one").to_pylist()]
    for day in range(1, 24):
        asked, moved = ((12 * day + k) % len(keys) for k in range(12)), 0.3 * (day >= 9)
        rows = [Retest(day, "one", keys[k], 0.5, 0.5 + moved + 0.01 * (-1) ** k) for k in asked]
        record_retest(loaded, "api", 1, rows, day)
    (found,) = changed_judges(loaded, "one").values()
    assert date.fromordinal(found.run_date).day == 9
    assert "Judge api changed" in care(folder, "status")
    assert "Judge api changed" in care(folder, "gate", "one", "new", "--against", "old", code=6)
    file = folder / "judges" / "api.yaml"
    file.write_text(file.read_text().replace("}", ", revision: b}"))
    assert changed_judges(load_workspace(folder), "one") == {}
    assert set(JUDGES) < set(keys_of_judges(load_workspace(folder), "one"))
