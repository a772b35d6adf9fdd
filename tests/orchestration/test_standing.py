"""Between nights: what fails in a run of the daemon, or has changed, reaches page and index without `care run`."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.report.verdicts import failed_assets, note_failure
from orchestration.dagster_internals import implicit_asset_job
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.standing import forget_mended_failures, note_failed_run
from orchestration.workspace import load_workspace
from tests.support.workspaces import QUICK, care, query, write_items


class Daemon:
    """What Dagster's daemon does with a workspace, one step at a time: looks, and runs."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.folder, self.instance, self.cursor = folder, instance, None
        self.definitions = build_defs(folder)

    def look(self) -> list[dg.RunRequest]:
        """One tick of the sensor that watches the workspace, and what it asks for."""
        sensor = next(s for s in self.definitions.sensors or () if s.name == "workspace_sensor")
        context = dg.build_sensor_context(
            self.instance, self.cursor, repository_def=self.definitions.get_repository_def()
        )
        tick = sensor.evaluate_tick(context)
        self.cursor = tick.cursor
        for event in tick.asset_events:
            self.instance.report_runless_asset_event(event)
        return list(tick.run_requests or ())

    def run(self, asset: str, partition: str | None = None) -> dg.ExecuteInProcessResult:
        """One run, and what the sensor of failed runs remembers of it."""
        result = implicit_asset_job(self.definitions).execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey(asset)],
            partition_key=partition,
            raise_on_error=False,
        )
        failures = [event for event in result.all_events if event.is_step_failure]
        note_failed_run(load_workspace(self.folder), result.dagster_run, failures)
        return result

    def told(self) -> list[str]:
        """The sentence on page, in the index, as JSON and in the database."""
        report = self.folder / "data" / "report"
        sentence = json.loads((report / "verdicts.json").read_text())["one"]["sentence"]
        for page in ("testset-one.html", "index.html"):
            assert sentence in html.unescape((report / page).read_text()), page
        assert query(self.folder, "SELECT sentence FROM verdicts") == [(sentence,)]
        return sentence


@pytest.fixture
def daemon(after_a_night) -> Iterator[Daemon]:
    with workspace_instance(load_workspace(after_a_night)) as instance:
        yield Daemon(after_a_night, instance)


def test_a_stage_that_fails_under_the_daemon_is_told_until_it_is_mended(daemon):
    before = daemon.told()
    assert daemon.look() == []
    source = daemon.folder / "one.csv"
    good = source.read_text()
    source.write_text("nothing,of,this,is\nan,item,at,all\n")
    assert daemon.look() == [], "the tick that reports a change leaves it to what follows"
    assert not daemon.run("items", "one").success

    (request,) = daemon.look()
    assert daemon.look() == [], "it is asked for once"
    assert request.asset_selection in (None, [dg.AssetKey("report_index")])
    assert daemon.run("report_index").success
    assert daemon.told().startswith("Failed: `items` could not be made: ")
    assert daemon.look() == []

    source.write_text(good)
    daemon.look()
    assert daemon.run("items", "one").success
    assert len(daemon.look()) == 1
    assert daemon.run("report_index").success
    assert daemon.told() == before


def test_a_fit_that_is_stale_is_told_without_care_run(daemon):
    write_items(daemon.folder, edited=3)
    (daemon.folder / "care.yaml").write_text(QUICK.replace("{resamples: 0}", "{resamples: 0, gamma: 0.4}"))
    daemon.look()
    assert len(daemon.look()) == 1
    assert daemon.run("report_index").success
    sentence = daemon.told()
    assert sentence.startswith("Stale: source, settings or anchors changed since the last run")
    assert f"one: {sentence}" in care(daemon.folder, "status"), "the command says what the page says"


def test_a_failure_is_forgotten_with_the_asset_that_failed_and_no_other(daemon):
    workspace = load_workspace(daemon.folder)
    note_failure(workspace, "one", "items", "it cannot be read")
    note_failure(workspace, "one", "panel", "too few judges")
    note_failure(workspace, "one", "items", "it cannot be read, again")
    assert failed_assets(workspace, "one") == ("panel", "items")
    forget_mended_failures(workspace, daemon.instance)
    assert failed_assets(workspace, "one") == (), "the last run of both was good"
