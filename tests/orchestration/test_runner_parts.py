"""The pieces of ``care run``: grouping, what was left behind, anchors."""

import dagster as dg
import pytest

from assets.state.reconcile import missing
from orchestration import runner
from orchestration.dagster_internals import load_cursor
from orchestration.definitions import build_defs
from orchestration.instance import daemon_is_alive, dagster_home, end_abandoned_runs, under_way, workspace_instance
from orchestration.launches import plan, split_partition
from orchestration.observe import observe, report
from orchestration.runner import CursorFile
from orchestration.workspace import load_workspace
from tests.support.workspaces import make, query, ran, run, write_items
from warehouse.storage import read_document


@pytest.fixture
def instance():
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("judges", ["a", "b", "c", "d"])
        instance.add_dynamic_partitions("testsets", ["x", "y", "z"])
        yield instance


def test_neighbouring_judges_share_a_run(instance):
    launches = plan({"judge_inference": {"a", "b", "d", "gone"}}, instance)
    assert [launch.partitions for launch in launches] == [("a", "b"), ("d",)]
    assert launches[0].tags == {
        "dagster/asset_partition_range_start": "a",
        "dagster/asset_partition_range_end": "b",
    }


def test_slices_are_cut_into_rectangles(instance):
    wanted = {f"{j}|{t}" for j in "abc" for t in "xy"} | {"d|x", "d|z"}
    launches = plan({"scores": wanted}, instance)
    assert sorted(p for launch in launches for p in launch.partitions) == sorted(wanted)
    assert sorted(len(launch.partitions) for launch in launches) == [1, 1, 6]


def test_stages_of_one_test_set_share_a_run_and_keep_their_order(instance):
    requested = {"report": {"x"}, "panel": {"x", "y"}, "moments": {"x"}, "report_index": {None}, "items": {"z"}}
    assert [(launch.assets, launch.partitions[0]) for launch in plan(requested, instance)] == [
        (("items",), "z"),
        (("panel", "moments", "report"), "x"),
        (("panel",), "y"),
        (("report_index",), None),
    ]


def test_partition_keys_name_judge_and_test_set():
    assert split_partition("scores", "gpt/4|x") == ("gpt/4", "x")
    assert split_partition("judge_inference", "gpt/4") == ("gpt/4", None)
    assert split_partition("panel", "x") == (None, "x")


def test_runs_that_nobody_works_on_are_ended(tmp_path, monkeypatch):
    workspace = load_workspace(make(tmp_path / "ws"))
    with workspace_instance(workspace) as instance:

        @dg.job
        def left() -> None: ...

        run_ = instance.create_run_for_job(left, status=dg.DagsterRunStatus.STARTED)
        assert not daemon_is_alive(instance)
        assert under_way(instance) == 1
        end_abandoned_runs(workspace, instance)
        assert under_way(instance) == 1, "it may have begun just now, and is about to wait for us"
        monkeypatch.setattr("orchestration.instance._BEGINNING_S", 0.0)
        end_abandoned_runs(workspace, instance)
        assert under_way(instance) == 0
        ended = instance.get_run_by_id(run_.run_id)
        assert ended is not None
        assert ended.status is dg.DagsterRunStatus.FAILURE


@pytest.mark.slow
def test_anchors_of_a_workspace_reach_the_fit_and_leave_the_evaluation(tmp_path):
    folder = make(tmp_path / "ws")
    (folder / "labels.csv").write_text("item_id,label\ni0,0\ni1,1\ni2,2\ni3,3\n")
    (folder / "care.yaml").write_text("anchors: {one: labels.csv}\n")
    assert not run(folder).failures
    rows = query(
        folder,
        "SELECT f.aggregator, f.labels_used, e.n FROM latest_fits f JOIN evaluations e USING (fit_id) ORDER BY ALL",
    )
    used = {name: labels for name, labels, _ in rows}
    assert used == {"care": 4, "avg": 0, "mv": 0, "uws": 0, "care_svd": 4, "care_tensor": 4}
    assert {n for *_, n in rows} == {36}, "the same items for everybody"


@pytest.mark.slow
def test_a_change_of_a_source_that_was_reported_and_lost_is_found_by_its_version(after_a_night):
    """As where the process that was to read the new items was killed: nothing asks for them any more."""
    folder = after_a_night
    assert missing(load_workspace(folder)) == {}
    write_items(folder, edited=7)
    workspace = load_workspace(folder)
    with workspace_instance(workspace) as instance:
        report(observe(workspace, instance), instance)
        cursor = load_cursor(read_document(dagster_home(workspace) / "care_run_cursor.json")["cursor"])
        seen = dg.evaluate_automation_conditions(build_defs(folder), instance, cursor=cursor)
        assert seen.get_requested_partitions(dg.AssetKey("items")) == {"one"}
        CursorFile(workspace, instance).save(seen.cursor)
    assert missing(workspace) == {"items": {"one"}, "gold": {"one"}}
    outcome = run(folder)
    assert not outcome.failures
    assert ran(outcome, "items") == ["one"]
    assert query(folder, "SELECT count(*) FROM items WHERE response LIKE '% and edited'") == [(1,)]
    assert missing(load_workspace(folder)) == {}


def test_no_result_is_made_of_a_panel_before_its_fit_whoever_asks(after_a_night, monkeypatch):
    """As the reconciler asks where a panel changed after this command had made all but these two."""
    asked = [{"panel": {"one"}, "systems": {"one"}, "factors": {"one"}}]
    monkeypatch.setattr(runner, "missing", lambda workspace: asked.pop() if asked else {})
    outcome = run(after_a_night)
    assert not asked
    assert not outcome.failures
    assert [asset for asset, _ in outcome.materialised if asset in ("panel", "systems", "factors")] == ["panel"]


def test_a_source_that_cannot_be_read_is_not_asked_for_every_night(after_a_night):
    (after_a_night / "one.csv").unlink()
    assert missing(load_workspace(after_a_night)) == {}
