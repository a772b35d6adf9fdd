"""Tests of CARE in another project's Dagster, with its executor and resources, and of two workspaces."""

import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from assets.metadata import failure
from assets.mount import UNMOUNTED, Mount
from orchestration.alert_causes import failures_of_run, is_ours
from orchestration.alerts import Notifier
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB, pool_slots
from orchestration.definitions import build_defs
from orchestration.instance import follow_partitions, last_nightly_run
from orchestration.mounted import GPU
from orchestration.plan import Cursor
from orchestration.requests import request_stale
from orchestration.resources import WorkspaceResource
from orchestration.sensors import _notify
from orchestration.workspace import AlertSettings, Settings, load_workspace
from tests.support.workspaces import QUICK, make

TEAM_A, TEAM_B = Mount(("team_a",)), Mount(("org", "team_b"))
FEW = ("length", "conciseness", "redundancy")

NO_INSTANCE = SimpleNamespace()

LIMITS = {"concurrency": {"pools": {"granularity": "op", "default_limit": 1}}}


@dg.asset(key=["theirs"])
def theirs(workspace: dg.ResourceParam[str]) -> str:
    return workspace


def host(*workspaces: dg.Definitions) -> dg.Definitions:
    """Return a project's definitions, with an executor and a resource named as an argument of CARE's assets."""
    own = dg.Definitions([theirs], executor=dg.multiprocess_executor, resources={"workspace": "theirs"})
    return dg.Definitions.merge(own, *workspaces)


@pytest.fixture
def two(tmp_path, monkeypatch) -> tuple[Path, Path]:
    monkeypatch.delenv("CARE_WORKSPACE", raising=False)
    return make(tmp_path / "a", FEW, n=15), make(tmp_path / "b", FEW, n=12)


def mounted(two: tuple[Path, Path]) -> dg.Definitions:
    a, b = two
    return host(build_defs(str(a), key_prefix="team_a"), build_defs(b, key_prefix=["org", "team_b"]))


def test_a_host_project_keeps_its_executor_and_resources(two):
    merged = host(build_defs(two[0]))
    dg.Definitions.validate_loadable(merged)
    assert merged.executor is dg.multiprocess_executor
    assert merged.resources["workspace"] == "theirs"
    assert isinstance(merged.resources["care_workspace"], WorkspaceResource)
    assert build_defs(two[0]).executor is None
    assert {"night", "refit", "judge"} <= {job.name for job in merged.resolve_all_job_defs()}


def test_no_group_holds_assets_of_two_workspaces_or_of_a_host(two):
    """Dagster's graph shows a box for each group."""
    groups = {}
    for spec in mounted(two).resolve_all_asset_specs():
        groups.setdefault(spec.group_name, set()).add(spec.key.path[:-1][0] if spec.key.path[:-1] else "host")
    assert {"team_a__fit", "org__team_b__fit", "default"} <= groups.keys()
    assert all(len(whose) == 1 for whose in groups.values()), groups
    assert {spec.group_name for spec in build_defs(two[0]).resolve_all_asset_specs()} >= {"inputs", "fit", "report"}


@pytest.mark.slow
def test_loading_the_definitions_in_a_host_project_prints_no_warning(two):
    """Dagster's beta warnings concern CARE, which pins Dagster, and not the project."""
    code = f"build_defs(Path({str(two[0])!r}), key_prefix='team_a')"
    run = [sys.executable, "-c", f"from pathlib import Path\nfrom orchestration.definitions import build_defs\n{code}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stderr == ""


def materialise(defs: dg.Definitions, instance: dg.DagsterInstance, request: dg.RunRequest) -> None:
    done = defs.resolve_job_def(IMPLICIT_ASSET_JOB).execute_in_process(
        instance=instance,
        asset_selection=list(request.asset_selection or ()),
        partition_key=request.tags.get("dagster/partition"),
        tags=dict(request.tags),
    )
    assert done.success


@pytest.mark.slow
def test_two_workspaces_in_one_code_location_run_separately(two):
    """The sensors of both workspaces run until neither requests a run."""
    defs = mounted(two)
    dg.Definitions.validate_loadable(defs)
    with dg.instance_for_test(overrides=LIMITS) as instance:
        for folder, mount in zip(two, (TEAM_A, TEAM_B), strict=True):
            workspace = dg.build_resources({"w": defs.resources[mount.name("care_workspace")]})
            with workspace as resources:
                loaded = resources.w
            assert loaded.root == folder
            seen = Cursor()
            for _ in range(12):
                asked, seen = request_stale(loaded, instance, seen)
                for request in asked:
                    materialise(defs, instance, request)
                if not asked:
                    break
            else:
                pytest.fail("it asks for ever")
            made = instance.get_materialized_partitions(mount.key("report"))
            assert made == {"one"}, mount
            assert (folder / "data" / "report" / "testset-one.html").is_file()
        assert instance.get_dynamic_partitions("team_a__judges") == sorted(FEW)
        assert instance.get_dynamic_partitions("judges") == []
        assert not instance.get_latest_materialization_event(dg.AssetKey("items"))
        for asset, rows in (("scores", 15), ("judge_inference", 15)):
            event = instance.get_latest_materialization_event(TEAM_A.key(asset))
            assert event.asset_materialization.metadata["dagster/row_count"].value == rows, asset
        checked_single(defs, instance, two[0])


def checked_single(defs: dg.Definitions, instance: dg.DagsterInstance, folder: Path) -> None:
    """Run a single check, which publishes and builds nothing."""
    workspace = load_workspace(folder)
    before = [p.fit_version for p in workspace.fits.publications("one")]
    key = dg.AssetCheckKey(TEAM_A.key("review"), "gold_leakage")
    single = defs.resolve_job_def(IMPLICIT_ASSET_JOB).get_subset(asset_selection=set(), asset_check_selection={key})
    done = single.execute_in_process(instance=instance, tags={"dagster/partition": "one"})
    assert [each.check_name for each in done.get_asset_check_evaluations()] == ["gold_leakage"]
    assert done.get_asset_materialization_events() == []
    assert [p.fit_version for p in workspace.fits.publications("one")] == before


def test_a_run_is_assigned_to_its_workspace(two):
    with dg.instance_for_test() as instance:
        defs = mounted(two)
        job = defs.resolve_job_def(IMPLICIT_ASSET_JOB)
        runs = {
            name: instance.create_run_for_job(job, asset_selection={key})
            for name, key in (("a", TEAM_A.key("panel")), ("b", TEAM_B.key("panel")), ("host", dg.AssetKey("theirs")))
        }
        reported = {
            name: (is_ours(TEAM_A, instance, run), is_ours(UNMOUNTED, instance, run)) for name, run in runs.items()
        }
        assert reported == {"a": (True, False), "b": (False, False), "host": (False, False)}
        assert last_nightly_run(instance, TEAM_A) is None


def test_failures_of_other_projects_steps_send_no_alert(two):
    workspace = load_workspace(two[0])
    unsaid = SimpleNamespace(user_failure_data=None, error=None)
    events = [SimpleNamespace(step_key=key, step_failure_data=unsaid) for key in ("theirs", "panel", "experiments")]
    run = dg.DagsterRun("a job", tags={"dagster/partition": "one"})
    reported = failures_of_run(workspace, NO_INSTANCE, run, events)  # type: ignore[arg-type]
    assert [alert.kind for alert in reported] == ["fit failed", "experiment failed"]
    one = failure({"theory_rates": "the weights cancel"})
    data = SimpleNamespace(user_failure_data=SimpleNamespace(metadata=one.metadata), error=None)
    event = SimpleNamespace(step_key="experiments", step_failure_data=data)
    (experiment,) = failures_of_run(workspace, NO_INSTANCE, dg.DagsterRun("a job"), [event])  # type: ignore[list-item]
    assert (experiment.asset, experiment.partition, experiment.testset) == ("theory_rates", None, None)
    assert experiment.what == "theory_rates could not be built: the weights cancel"
    (elsewhere,) = failures_of_run(
        replace(workspace, mount=TEAM_A),
        NO_INSTANCE,
        run,
        [SimpleNamespace(step_key="team_a__panel", step_failure_data=unsaid)],
    )  # type: ignore[list-item]
    assert elsewhere.asset == "panel"


def test_the_heartbeat_ignores_runs_of_other_workspaces(two, monkeypatch):
    workspace = replace(load_workspace(two[0]), mount=TEAM_A)
    beats = []
    monkeypatch.setattr("orchestration.alerts._post", lambda _address, document, _setting: beats.append(document))
    monkeypatch.setattr("orchestration.plan.find_stale", lambda *_, **_more: {})
    notifier = Notifier(AlertSettings(heartbeat="https://localhost/beat"), workspace.root, workspace.data)
    job = mounted(two).resolve_job_def(IMPLICIT_ASSET_JOB)
    with dg.instance_for_test() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(TEAM_A.key("night")))

        def goes_on(mount):
            keys, tags = {mount.key("items")}, {"dagster/partition": "one"}
            run = instance.create_run_for_job(job, asset_selection=keys, status=dg.DagsterRunStatus.STARTED, tags=tags)
            _notify(notifier, workspace, instance, Settings())
            return run

        own = goes_on(TEAM_A)
        assert not beats, "its own night is not over"
        instance.report_run_failed(own)
        goes_on(TEAM_B)
    assert [(each["workspace"], each["night"] > 0) for each in beats] == [("a", True)]


def test_every_asset_has_kinds_owners_and_tags(two):
    (two[0] / "care.yaml").write_text(QUICK + "owners: [team:evals]\n")
    other = shutil.copytree(two[0], two[0].parent / "mein Büro")
    assert {spec.tags["care/workspace"] for spec in build_defs(other).resolve_all_asset_specs()} == {"mein_B_ro"}
    defs = build_defs(two[0])
    for spec in defs.resolve_all_asset_specs():
        assert spec.kinds, spec.key
        assert spec.owners == ["team:evals"], spec.key
        assert spec.tags["care/workspace"] == "a"


@pytest.mark.slow
def test_pools_separate_gpu_judges_and_prevent_parallel_runs_of_a_judge():
    """Steps of three runs, each on a thread, hold slots at the same time."""
    holds, released = {name: threading.Event() for name in ("model", "endpoint")}, threading.Event()
    order: list[str] = []

    def step(name: str, pools: list[str], *, waits: bool) -> dg.AssetsDefinition:
        @dg.asset(name=name)
        def held(context: dg.AssetExecutionContext) -> None:
            with pool_slots(context, pools):
                order.append(name)
                if waits:
                    holds[name].set()
                    assert released.wait(60)

        return held

    model = step("model", [GPU, "judge_m"], waits=True)
    endpoint = step("endpoint", ["judge_e"], waits=True)
    again = step("again", ["judge_e"], waits=False)
    with dg.instance_for_test(overrides=LIMITS) as instance:
        threads = [
            threading.Thread(target=dg.materialize, args=([one],), kwargs={"instance": instance})
            for one in (model, endpoint)
        ]
        for thread, name in zip(threads, holds, strict=True):
            thread.start()
            assert holds[name].wait(60), f"{name} waits for a place that nobody holds"
        last = threading.Thread(target=dg.materialize, args=([again],), kwargs={"instance": instance})
        last.start()
        last.join(3)
        assert order == ["model", "endpoint"], "the judge is being asked"
        released.set()
        for thread in (*threads, last):
            thread.join(60)
        assert order[-1] == "again"
        assert not instance.event_log_storage.get_concurrency_info(GPU).claimed_slots


def test_a_judge_that_needs_a_gpu_shares_no_run_with_one_that_does_not(tmp_path):
    folder = make(tmp_path / "ws", ("length", "redundancy"))
    model = "engine: {kind: vllm, model: some/model, template: quality}\nscale: [0, 10]\n"
    (folder / "judges" / "m.yaml").write_text(model)
    workspace = load_workspace(folder)
    with dg.instance_for_test() as instance:
        follow_partitions(workspace, instance)
        defs = build_defs(folder)
        (items,) = request_stale(workspace, instance, Cursor())[0]
        materialise(defs, instance, items)
        asked, _ = request_stale(workspace, instance, Cursor())
        ranges = {
            (r.tags["dagster/asset_partition_range_start"], r.tags["dagster/asset_partition_range_end"]) for r in asked
        }
        assert ("m", "m") in ranges
        assert all("m" not in (first, last) for first, last in ranges - {("m", "m")})
