"""Tests of the parts of ``care run``: grouping, abandoned runs, labels of runs."""

from contextlib import nullcontext
from types import SimpleNamespace

import dagster as dg
import pytest

from assets.report.staleness import StalePartition
from care_ops.errors import WarehouseError
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB, materialisations
from orchestration.definitions import build_defs
from orchestration.instance import (
    daemon_is_alive,
    dagster_home,
    end_abandoned_runs,
    partitions_under_way,
    unfinished_runs,
    workspace_instance,
)
from orchestration.plan import CARE_RUN, INDEX, LAUNCHED_BY, Cursor, plan, planned_by, split_partition
from orchestration.workspace import load_workspace
from tests.support.workspaces import make, ran, run, write_judge


@pytest.fixture(scope="module")
def instance():
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("judges", ["a", "b", "c", "d"])
        instance.add_dynamic_partitions("testsets", ["x", "y", "z"])
        yield instance


def runs(keys, instance, **options):
    """Return assets and partitions of each planned run."""
    requests = plan([StalePartition(*key, "") for key in keys], instance, **options)
    places = [(request.asset_selection or [], planned_by(request, instance)) for request in requests]
    return [([key.to_user_string() for key in keys], sorted({str(p) for _, p in pairs})) for keys, pairs in places]


def test_neighbouring_judges_share_a_run(instance):
    judges = [("judge_inference", judge) for judge in ("a", "b", "d", "gone")]
    assert runs(judges, instance) == [(["judge_inference"], ["a", "b"]), (["judge_inference"], ["d"])]
    assert plan([StalePartition(*key, "") for key in judges], instance)[0].tags == {
        "dagster/asset_partition_range_start": "a",
        "dagster/asset_partition_range_end": "b",
        "care/reason": "it is missing",
        "dagster/max_retries": "0",
    }


def test_judges_that_wait_for_a_gpu_do_not_share_a_run_with_others(instance):
    judges = [("judge_inference", judge) for judge in "abcd"]
    found = [partitions for _, partitions in runs(judges, instance, gpu_judges={"b", "c"})]
    assert sorted(found) == [["a"], ["b", "c"], ["d"]]


def test_a_run_of_first_requests_is_tagged(instance):
    panels = [StalePartition("panel", testset, "") for testset in "xy"]
    tagged = plan(panels, instance, first={("panel", "y")})
    assert ["care/tried_again" in request.tags for request in tagged] == [False, True]


def test_neighbouring_slices_of_a_test_set_share_a_run(instance):
    wanted = {f"{j}|{t}" for j in "abc" for t in "xy"} | {"d|x", "d|z"}
    found = runs([("scores", each) for each in wanted], instance)
    assert sorted(p for _, partitions in found for p in partitions) == sorted(wanted)
    assert sorted(len(partitions) for _, partitions in found) == [1, 3, 4]


def test_stages_of_one_test_set_share_a_run_and_keep_their_order(instance):
    requested = [
        *((a, "x") for a in ("report", "panel", "moments")),
        ("panel", "y"),
        ("report_index", None),
        ("items", "z"),
    ]
    assert runs(requested, instance) == [
        (["items"], ["z"]),
        (["panel", "moments", "report"], ["x"]),
        (["panel"], ["y"]),
        (["report_index"], ["None"]),
    ]


def test_partition_keys_name_judge_and_test_set():
    assert split_partition("scores", "gpt/4|x") == ("gpt/4", "x")
    assert split_partition("judge_inference", "gpt/4") == ("gpt/4", None)
    assert split_partition("panel", "x") == (None, "x")


def test_abandoned_runs_are_marked_as_failed(tmp_path, monkeypatch):
    workspace = load_workspace(make(tmp_path / "ws"))
    with workspace_instance(workspace) as instance:

        @dg.job
        def left() -> None: ...

        run_ = instance.create_run_for_job(left, status=dg.DagsterRunStatus.STARTED)
        assert not daemon_is_alive(instance)
        assert len(unfinished_runs(instance)) == 1
        end_abandoned_runs(workspace, instance)
        assert len(unfinished_runs(instance)) == 1, "it may have begun just now, and is about to wait for us"
        monkeypatch.setattr("orchestration.instance._BEGINNING_S", 0.0)
        end_abandoned_runs(workspace, instance)
        assert not unfinished_runs(instance)
        ended = instance.get_run_by_id(run_.run_id)
        assert ended is not None
        assert ended.status is dg.DagsterRunStatus.FAILURE


def test_partitions_written_without_an_event_are_materialised_again(workspace_after_run):
    """A kill between the last write and the event leaves a partition that the UI shows as failed."""
    workspace = load_workspace(workspace_after_run)
    with workspace_instance(workspace) as instance:
        instance.create_run_for_job(
            build_defs(workspace.root, workspace).resolve_job_def(IMPLICIT_ASSET_JOB),
            asset_selection={dg.AssetKey("judge_inference")},
            status=dg.DagsterRunStatus.STARTED,
            tags={LAUNCHED_BY: CARE_RUN, "dagster/partition": "length"},
        )
    assert run(workspace_after_run).materialised == [("judge_inference", "length")]
    assert not run(workspace_after_run).materialised, "once"


def test_partitions_whose_event_is_only_in_the_log_of_their_run_are_materialised_again(workspace_after_run):
    """Dagster's SQLite storage writes an event to the run's file first, then to the index."""
    workspace = load_workspace(workspace_after_run)
    with workspace_instance(workspace) as instance:
        left = instance.create_run_for_job(
            build_defs(workspace.root, workspace).resolve_job_def(IMPLICIT_ASSET_JOB),
            asset_selection={dg.AssetKey("panel")},
            status=dg.DagsterRunStatus.STARTED,
            tags={LAUNCHED_BY: CARE_RUN, "dagster/partition": "one"},
        )
        event = instance.fetch_materializations(dg.AssetKey("panel"), limit=1).records[0].event_log_entry.dagster_event
        assert event is not None
        instance.report_dagster_event(event, left.run_id)
        instance.wipe_assets([dg.AssetKey("panel")])  # from the shared file only
        assert materialisations(instance, left.run_id) == [("panel", "one")]
    assert run(workspace_after_run).materialised == [("panel", "one")]


@pytest.mark.slow
@pytest.mark.parametrize("asset", ["panel", "report"])
def test_partitions_whose_event_could_not_be_stored_are_materialised_again(workspace_after_run, monkeypatch, asset):
    """A disk error while Dagster stores an event leaves a file that Dagster does not know."""
    folder = workspace_after_run
    write_judge(folder, "readability")
    with workspace_instance(load_workspace(folder)) as instance:
        storage = type(instance.event_log_storage)
    store, failed = storage._store_asset_event, []

    def fails_once(self, connection, event, event_id):
        written = event.asset_materialization
        if written and written.asset_key == dg.AssetKey(asset) and not failed:
            failed.append(event)
            raise OSError("disk full")
        return store(self, connection, event, event_id)

    monkeypatch.setattr(storage, "_store_asset_event", fails_once)
    outcome = run(folder)
    assert failed
    assert not outcome.failures
    assert outcome.materialised.count((asset, "one")) == 1
    with workspace_instance(load_workspace(folder)) as instance:
        assert instance.get_materialized_partitions(dg.AssetKey(asset)) == {"one"}
    assert not run(folder).materialised


@pytest.mark.parametrize("has_run", [False, True])
def test_an_incomplete_dagster_storage_is_rebuilt(tmp_path, has_run):
    """A storage with runs is not rebuilt, but reported as damaged."""
    workspace = load_workspace(make(tmp_path / "ws"))
    with workspace_instance(workspace) as instance:
        if has_run:
            instance.create_run_for_job(build_defs(workspace.root, workspace).resolve_job_def(IMPLICIT_ASSET_JOB))
    events = dagster_home(workspace) / "history" / "runs" / "index.db"
    for neighbour in events.parent.glob("index.db-*"):
        neighbour.unlink()
    events.write_bytes(b"")
    reported = pytest.raises(WarehouseError, match="care doctor --repair") if has_run else nullcontext()
    with reported, workspace_instance(workspace) as instance:
        assert instance.get_dynamic_partitions("judges") == []


def test_an_unreadable_source_blocks_no_fit_and_is_tried_once_per_command(workspace_after_run):
    (workspace_after_run / "one.csv").unlink()
    (workspace_after_run / "care.yaml").write_text("fit: {resamples: 0, gamma: 0.4}\nreview: {hold: false}\n")
    outcome = run(workspace_after_run)
    assert {asset for asset, _ in outcome.failures} == {"items"}
    assert ran(outcome, "aggregates") == ["one"]
    again = run(workspace_after_run)
    assert {asset for asset, _ in again.failures} == {"items"}
    assert again.materialised == []


def one(asset, partition="x", version="1", **more) -> StalePartition:
    return StalePartition(asset, partition, version, **more)


def asked(stale, tried, busy=()):
    """Return the requested partitions by asset."""
    workspace = SimpleNamespace(testsets_of=lambda judge: ["x", "y"])
    found = tried.request(workspace, {entry.key: entry for entry in stale}, busy)  # type: ignore[arg-type]
    return sorted((entry.asset, entry.partition) for entry in found)


def test_a_judge_waits_for_the_items_of_its_test_sets_and_a_fit_for_its_judges():
    judge = one("judge_inference", "a", testsets=("x",))
    fit = [one("panel"), one("moments"), one("panel", "z")]
    assert asked([one("items", "y"), judge, *fit], Cursor(most=1)) == [("items", "y"), ("panel", "z")]
    assert asked([one("scores", "a|x"), *fit], Cursor(most=1)) == [("panel", "z"), ("scores", "a|x")]
    assert asked([judge, *fit], Cursor(most=1), {judge.key}) == [("panel", "z")], "it is at work"
    tried = Cursor(most=1)
    assert asked([judge, *fit], tried) == [("judge_inference", "a"), ("panel", "z")]
    assert asked([judge, *fit[:2]], tried) == [("moments", "x"), ("panel", "x")], "it was asked in vain"


def test_what_depends_on_a_failure_is_not_requested():
    tried = Cursor(most=1)
    assert asked([one("panel")], tried) == [("panel", "x")]
    assert asked([one("panel"), one("moments"), one("factors", "z")], tried) == [("factors", "z")]
    assert asked([one("panel", version="2"), one("moments")], tried) == [("moments", "x"), ("panel", "x")]


def test_a_fit_in_progress_is_left_to_its_run_and_the_index_is_last():
    index = one(*INDEX)
    assert asked([one("panel"), index], Cursor(most=1), {("review", "x")}) == []
    assert asked([one("panel"), index], Cursor(most=1)) == [("panel", "x")]
    assert asked([index], Cursor(most=1), {("panel", "x")}) == []
    assert asked([index], Cursor(most=1)) == [INDEX]


def test_a_failure_is_requested_again_a_limited_number_of_times_for_each_version():
    tried, evaluation = Cursor(most=2), one("evaluation")
    for times in (1, 2):
        assert asked([evaluation], tried) == [evaluation.key]
        assert tried.times(evaluation) == times
    assert asked([evaluation], tried) == []
    assert asked([one("evaluation", version="2")], tried) == [evaluation.key]
    assert asked([], tried) == []
    assert asked([evaluation], tried) == [evaluation.key], "it was made meanwhile"


def test_the_version_of_a_requested_partition_is_taken_after_its_run():
    tried, fit, first = Cursor(most=1), one("aggregates"), one("evaluation")
    then = one("evaluation", version="of the new fit")
    assert asked([fit, first], tried) == [fit.key, first.key]
    assert asked([first], tried, {fit.key, first.key}) == [], "its run has not ended"
    assert not tried.may_ask(then)
    assert asked([then], tried) == [], "its run has failed"
    assert tried.may_ask(first)


@pytest.mark.slow
def test_partitions_of_unfinished_runs_are_found(instance, tmp_path):
    every = build_defs(tmp_path).resolve_job_def(IMPLICIT_ASSET_JOB)

    def begin(asset, **tags):
        selection = frozenset({dg.AssetKey(asset)})
        instance.create_run_for_job(every, tags=tags, status=dg.DagsterRunStatus.STARTED, asset_selection=selection)

    keys = [
        *(("scores", each) for each in ("b|x", "b|y", "c|x", "c|y")),
        ("judge_inference", "b"),
        ("judge_inference", "c"),
    ]
    for request in plan([StalePartition(*key, "") for key in keys], instance):
        begin(request.asset_selection[0].to_user_string(), **request.tags)
    begin("panel", **{"dagster/partition": "z"})
    begin("report_index")
    assert partitions_under_way(instance) == {
        *(("scores", f"{judge}|{testset}") for judge in "bc" for testset in "xy"),
        ("judge_inference", "b"),
        ("judge_inference", "c"),
        ("panel", "z"),
        ("report_index", None),
    }
