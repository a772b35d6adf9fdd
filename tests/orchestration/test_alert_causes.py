"""Tests that failures and changes between nightly runs are shown on page and index without `care run`."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from assets.partitions import JUDGES
from assets.publication.review import review_latest
from assets.report.staleness import StalePartition, State, states
from assets.report.verdicts import known_failures, note_failure
from care_ops.errors import CareError
from orchestration.alert_causes import failures_of_run, forget_resolved_failures, note_failures_of_run
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB, end_run_as_failed
from orchestration.definitions import build_defs
from orchestration.instance import instance_home, workspace_instance
from orchestration.plan import NO_RETRY, RANGE_END_TAG, RANGE_START_TAG, TRIED_AGAIN
from orchestration.workspace import load_workspace
from tests.support import held_items
from tests.support.servers import kill, wait_until
from tests.support.workspaces import QUICK, care, make, query, write_items, write_judge, write_testset


class Daemon:
    """Simulation of Dagster's daemon for a workspace: sensor ticks and runs, one at a time."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.folder, self.instance = folder, instance
        self.cursors: dict[str, str | None] = {}
        self.definitions = build_defs(folder)

    def tick(self, name: str) -> Any:
        """Run one tick of a sensor."""
        sensor = next(s for s in self.definitions.sensors or () if s.name == name)
        repository = self.definitions.get_repository_def()
        context = dg.build_sensor_context(self.instance, self.cursors.get(name), repository_def=repository)
        tick = sensor.evaluate_tick(context)
        self.cursors[name] = tick.cursor
        return tick

    def look(self) -> list[dg.RunRequest]:
        """Run one tick of the sensors that watch the workspace, and return their requests."""
        self.tick("workspace_sensor")
        return list(self.tick("stale_assets_sensor").run_requests or ())

    def run_together(self, assets: set[str], tags: Mapping[str, str]) -> dg.ExecuteInProcessResult:
        """Run several assets together, for the partition or range in the tags."""
        return self.definitions.resolve_job_def(IMPLICIT_ASSET_JOB).execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey(asset) for asset in assets],
            partition_key=tags.get("dagster/partition"),
            tags=tags,
            raise_on_error=False,
        )

    def run(self, asset: str, partition: str | None = None) -> dg.ExecuteInProcessResult:
        """Run one asset, and the sensor of failed runs."""
        result = self.run_together({asset}, {"dagster/partition": partition} if partition else {})
        failures = [event for event in result.all_events if event.is_step_failure]
        note_failed_run(self.folder, self.instance, result.dagster_run, failures)
        return result

    def hear(self, sensor_name: str, run_id: str) -> None:
        """Run a sensor of ended runs for a run."""
        sensor = next(s for s in self.definitions.sensors or () if s.name == sensor_name)
        run = self.instance.get_run_by_id(run_id)
        ends = (dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_CANCELED)
        ended = self.instance.all_logs(run_id, of_type=set(ends))[-1].dagster_event
        context = dg.build_run_status_sensor_context(sensor_name, ended, self.instance, run)
        sensor(context.for_run_failure() if run.status == dg.DagsterRunStatus.FAILURE else context)

    def reported(self) -> list[str]:
        """Return the sentence that page, index, JSON and database report."""
        report = self.folder / "data" / "report"
        sentence = json.loads((report / "verdicts.json").read_text())["one"]["sentence"]
        for page in ("testset-one.html", "index.html"):
            assert sentence in html.unescape((report / page).read_text()), page
        assert query(self.folder, "SELECT sentence FROM verdicts") == [(sentence,)]
        return sentence


@pytest.fixture
def daemon(workspace_after_run) -> Iterator[Daemon]:
    with workspace_instance(load_workspace(workspace_after_run)) as instance:
        yield Daemon(workspace_after_run, instance)


def note_failed_run(folder, instance, run, failures):
    workspace = load_workspace(folder)
    note_failures_of_run(workspace, failures_of_run(workspace, instance, run, failures))


def assets_of(requests: list[dg.RunRequest]) -> list[str]:
    return [key.to_user_string() for request in requests for key in request.asset_selection or ()]


def test_a_failed_stage_is_retried_once_and_shown_in_the_verdict_until_it_succeeds(daemon):
    before = daemon.reported()
    assert daemon.look() == []
    source = daemon.folder / "one.csv"
    good = source.read_text()
    source.write_text("nothing,of,this,is\nan,item,at,all\n")
    for tried_again in ("true", None):
        (request,) = daemon.look()
        assert assets_of([request]) == ["items", "gold"]
        assert request.tags.get(TRIED_AGAIN) == tried_again
        assert not daemon.run("items", "one").success

    assert assets_of(daemon.look()) == ["report_index"], "the items have been tried twice"
    assert daemon.run("report_index").success
    assert daemon.reported().startswith("`items` could not be built: ")
    assert daemon.look() == []

    assert daemon.run_together({"night"}, {}).success
    assert assets_of(daemon.look()) == ["items", "gold"], "a night asks for it once more"
    source.write_text(good)
    assert assets_of(daemon.look()) == ["report_index"], "the items are of this source"
    assert daemon.run("report_index").success
    assert daemon.reported() == before


@pytest.mark.slow
def test_downstream_assets_are_requested_at_the_next_tick(daemon):
    write_judge(daemon.folder, "readability")
    asked: list[list[str]] = []
    while requests := daemon.tick("stale_assets_sensor").run_requests:
        asked += [assets_of([request]) for request in requests]
        for request in requests:
            assert daemon.run_together(set(asked[-1]), request.tags).success
    assert [assets[0] for assets in asked] == ["judge_inference", "scores", "panel", "report_index"]


def test_an_unreadable_workspace_is_alerted_once_and_resolved(daemon):
    """A run may fail for the same reason; while the webhook is down, the alert file gets no further line."""
    (daemon.folder / "care.yaml").write_text(QUICK + "alerts: {file: told.jsonl, webhook: 'http://127.0.0.1:1/down'}\n")
    run = daemon.instance.create_run_for_job(
        daemon.definitions.resolve_job_def(IMPLICIT_ASSET_JOB),
        asset_selection={dg.AssetKey("panel")},
        tags={"dagster/partition": "one", **NO_RETRY},
    )
    daemon.instance.report_run_failed(run)
    (daemon.folder / "judges" / "length.yaml").write_text("engine: {kind: nothing}\n")
    daemon.hear("alert_on_failure", run.run_id)
    for _ in range(2):
        daemon.tick("workspace_sensor")
    alert = json.loads((daemon.folder / "told.jsonl").read_text())
    assert (alert["kind"], alert["state"]) == ("workspace unreadable", "open")
    assert "length.yaml" in alert["what"]
    write_judge(daemon.folder, "length")
    daemon.tick("workspace_sensor")
    over = json.loads((daemon.folder / "told.jsonl").read_text().splitlines()[1])
    assert (over["key"], over["state"]) == (alert["key"], "resolved")


@pytest.mark.slow
@pytest.mark.parametrize("is_good", [True, False])
def test_a_tick_during_a_run_requests_nothing_twice(daemon, monkeypatch, is_good):
    """The run may end or be lost; the remaining partitions are then requested once more."""
    (daemon.folder / "care.yaml").write_text(QUICK.replace("{resamples: 0}", "{resamples: 0, gamma: 0.4}"))
    (request,) = daemon.look()
    asked = set(assets_of([request]))
    assert {"structure", "aggregates", "review", "evaluation", "report"} <= asked

    def look_and_review(workspace, testset):
        assert daemon.look() == [], "they are under way"
        if is_good:
            return review_latest(workspace, testset)
        raise CareError("the process is lost")

    monkeypatch.setattr("assets.publication.review.review_latest", look_and_review)
    tags = dict(request.tags)
    assert daemon.run_together(asked, tags).success == is_good
    if not is_good:
        assert set(assets_of(daemon.look())) == {"review", "report"}
        lost = daemon.run_together({"review", "report"}, tags)
        failures = [event for event in lost.all_events if event.is_step_failure]
        note_failed_run(daemon.folder, daemon.instance, lost.dagster_run, failures)
    assert assets_of(daemon.look()) == ["report_index"]
    assert daemon.run("report_index").success
    assert daemon.look() == []


def test_an_alert_names_failed_partitions_of_a_range_but_none_that_are_retried(daemon):
    (daemon.folder / "care.yaml").write_text(QUICK + "alerts: {file: told.jsonl}\n")
    write_judge(daemon.folder, "oracle")
    daemon.tick("workspace_sensor")
    judges = daemon.instance.get_dynamic_partitions(str(JUDGES.name))
    tags = {RANGE_START_TAG: judges[0], RANGE_END_TAG: judges[-1]}
    result = daemon.run_together({"judge_inference"}, tags)
    assert not result.success
    for tag in ("dagster/will_retry", TRIED_AGAIN):
        daemon.instance.add_run_tags(result.run_id, {tag: "true"})
        daemon.hear("alert_on_failure", result.run_id)
        assert not (daemon.folder / "told.jsonl").exists()
        daemon.instance.add_run_tags(result.run_id, {tag: "false"})
    daemon.hear("alert_on_failure", result.run_id)
    (alert,) = (daemon.folder / "told.jsonl").read_text().splitlines()
    reported = json.loads(alert)
    assert (reported["kind"], reported["judge"], reported["partition"]) == ("judge failed", "oracle", "oracle")
    assert judges[0] not in reported["what"].partition(" could not be built: ")[0], "the first of the range is innocent"
    daemon.tick("workspace_sensor")
    assert len((daemon.folder / "told.jsonl").read_text().splitlines()) == 1, "it is stale, and told already"
    (daemon.folder / "judges" / "oracle.yaml").unlink()
    daemon.tick("workspace_sensor")
    over = json.loads((daemon.folder / "told.jsonl").read_text().splitlines()[1])
    assert (over["key"], over["state"]) == (reported["key"], "resolved")


def test_new_judges_and_test_sets_are_requested_at_the_first_tick(daemon):
    workspace = load_workspace(daemon.folder)
    write_judge(daemon.folder, "sentence_length")
    write_items(daemon.folder, name="two")
    write_testset(daemon.folder, "two")
    with workspace.warehouse.writer() as connection:
        connection.execute("DELETE FROM slices WHERE judge = 'length'")
    asked = {(request.tags.get("dagster/partition"), *assets_of([request])) for request in daemon.look()}
    assert asked == {("two", "items", "gold")}, "a judge waits for the items of its test sets"
    assert daemon.run_together({"items", "gold"}, {"dagster/partition": "two"}).success
    (judges,) = [request for request in daemon.look() if assets_of([request]) == ["judge_inference"]]
    assert daemon.run_together({"judge_inference"}, dict(judges.tags)).success
    assert {*assets_of(daemon.look())} == {"scores"}, "no fit before the scores"


def test_failures_noted_by_a_sensor_are_written_to_the_store(tmp_path):
    """A sensor holds the store's lease only while it writes."""
    store = tmp_path / "store"
    folder = make(tmp_path / "ws", ("length",), care=f"data: {store.as_uri()}\n{QUICK}")
    workspace = load_workspace(folder)
    lost = dg.DagsterRun("a job", tags={"dagster/partition": "one"})
    failure = SimpleNamespace(user_failure_data=None, error=None)
    event = SimpleNamespace(step_key="aggregates", step_failure_data=failure)
    with dg.instance_for_test() as instance:
        note_failed_run(folder, instance, lost, [event])  # type: ignore[list-item]
        assert [path.name for path in (store / "fits" / "testset=one").iterdir()] == ["failures.json"]
        forget_resolved_failures(workspace, {"one": State(())})
    assert not list((store / "fits" / "testset=one").iterdir())


def test_the_index_shows_a_stale_fit_without_care_run(daemon):
    write_items(daemon.folder, edited=3)
    (daemon.folder / "care.yaml").write_text(QUICK.replace("{resamples: 0}", "{resamples: 0, gamma: 0.4}"))
    assert daemon.run("report_index").success
    sentence = daemon.reported()
    assert sentence.startswith("Source, settings or labels changed since the last run")
    assert sentence in care(daemon.folder, "status"), "the command says what the page says"


def test_a_failure_is_cleared_once_its_asset_is_materialised(daemon):
    workspace = load_workspace(daemon.folder)
    note_failure(workspace, "one", "items", "it cannot be read")
    note_failure(workspace, "one", "panel", "too few judges")
    note_failure(workspace, "one", "items", "it cannot be read, again")
    assert known_failures(workspace, "one") == {"panel": "too few judges", "items": "it cannot be read, again"}
    forget_resolved_failures(workspace, {"one": State((StalePartition("panel", "one", "of now"),))})
    assert list(known_failures(workspace, "one")) == ["panel"]
    forget_resolved_failures(workspace, states(workspace))
    assert known_failures(workspace, "one") == {}, "nothing is outdated"


@pytest.mark.slow
def test_a_run_that_fails_without_a_failed_step_is_shown_in_the_verdict_until_repeated(daemon):
    before = daemon.reported()
    (daemon.folder / "care.yaml").write_text(QUICK + "panel: {admit: all}\n")
    for _ in range(2):
        assert assets_of(daemon.look()) == ["panel"]
        run = daemon.instance.create_run_for_job(
            daemon.definitions.resolve_job_def(IMPLICIT_ASSET_JOB),
            asset_selection={dg.AssetKey("panel"), dg.AssetKey("moments")},
            tags={"dagster/partition": "one", **NO_RETRY},
        )
        daemon.instance.report_run_failed(run)
    daemon.hear("alert_on_failure", run.run_id)
    assert assets_of(daemon.look()) == ["report_index"]
    assert daemon.run("report_index").success
    assert daemon.reported().startswith("`panel` could not be built: the run's process or machine ended unexpectedly")
    assert daemon.look() == []

    assert daemon.run_together({"panel"}, {"dagster/partition": "one"}).success
    assert assets_of(daemon.look()) == ["report_index"], "the panel came out as it was"
    assert daemon.run("report_index").success
    assert daemon.reported() == before


@pytest.mark.slow
def test_a_killed_run_is_alerted(daemon):
    """A real process is killed during ``items``, so Dagster records no failed step."""
    (daemon.folder / held_items.HOLD).touch()
    write_items(daemon.folder, edited=3)
    items = load_workspace(daemon.folder).parts.items_file("one")
    before = items.stat().st_mtime_ns
    process = _materialise_elsewhere(daemon)
    try:
        wait_until(lambda: items.stat().st_mtime_ns != before, (daemon.folder / "child.log").read_text)
    finally:
        kill(process)
        process.wait()
    (record,) = daemon.instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    daemon.instance.add_run_tags(record.dagster_run.run_id, NO_RETRY)  # of the second attempt, which is the last
    run_ended = daemon.instance.get_run_by_id(record.dagster_run.run_id)
    end_run_as_failed(daemon.instance, run_ended, "as Dagster's run monitoring does")
    daemon.hear("alert_on_failure", record.dagster_run.run_id)
    assert assets_of(daemon.look()) == ["items", "gold"], "it is made again"
    assert daemon.run("report_index").success
    assert daemon.reported().startswith("`items` could not be built: the run's process or machine ended unexpectedly")


def _materialise_elsewhere(daemon: Daemon) -> subprocess.Popen[bytes]:
    """Start a process that materialises ``items`` and pauses in the middle."""
    words = ["asset", "materialize", "--select", "items", "--partition", "one", "-m", held_items.__name__]
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    home = str(instance_home(load_workspace(daemon.folder)))
    environment = {**os.environ, "DAGSTER_HOME": home, "CARE_WORKSPACE": str(daemon.folder), "PYTHONPATH": path}
    with (daemon.folder / "child.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dagster", *words],
            cwd=daemon.folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


STATUS = """
import sys
from typer.testing import CliRunner
from orchestration.cli.app import app
result = CliRunner().invoke(app, ["status", "--exit-code", "--workspace", sys.argv[1]])
print(result.output, result.exit_code, "dagster" in sys.modules)
"""


def test_status_imports_no_dagster_and_writes_no_file(workspace_after_run):
    def files():
        return {path: path.stat().st_mtime_ns for path in [workspace_after_run, *workspace_after_run.rglob("*")]}

    before = files()
    printed = subprocess.run(
        [sys.executable, "-c", STATUS, workspace_after_run], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split()[-2:] == ["0", "False"], printed.stdout + printed.stderr
    assert "40 / 40" in printed.stdout
    assert files() == before


def test_status_has_exit_codes_for_probes(workspace_after_run):
    care(workspace_after_run, "status", "--exit-code")
    write_items(workspace_after_run, edited=3)
    care(workspace_after_run, "status", "--exit-code", code=3)
    care(workspace_after_run, "status")
    write_judge(workspace_after_run, "oracle")
    assert "failed" in care(workspace_after_run, "status", "--exit-code", code=1)
