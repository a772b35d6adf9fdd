"""Tests of the deployment: PostgreSQL, the unchanged ``deploy/dagster.yaml``, a code server and a daemon."""

import dagster as dg
import pytest

from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support import held_items
from tests.support.deployed import Deployment, postgres, postgres_binaries
from tests.support.servers import kill, wait_until
from tests.support.workspaces import QUICK, make, query, write_items

pytestmark = pytest.mark.slow

CARE = QUICK + "on_change: true\n"
JUDGES = ("length", "conciseness", "redundancy")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """Create a deployment with migrated storage, and run ``care run`` once."""
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("install Debian's package `postgresql` to run the tests of the deployment")
    folder = tmp_path_factory.mktemp("deployed")
    workspace = make(folder / "ws", judges=JUDGES, care=CARE)
    with postgres(binaries) as address:
        deployment = Deployment.of(workspace, folder / "home", address)
        assert "Running migration" in deployment.command("dagster", "instance", "migrate")
        deployment.command("care", "run")
        try:
            yield deployment
        finally:
            deployment.stop()


@pytest.fixture
def instance(deployment, monkeypatch):
    """Open the deployment's instance as a command in a container does."""
    for name in ("DAGSTER_HOME", "CARE_WORKSPACE", *(n for n in deployment.environment if "POSTGRES" in n)):
        monkeypatch.setenv(name, deployment.environment[name])
    with workspace_instance(load_workspace(deployment.workspace)) as instance:
        yield instance


def test_commands_use_the_deployed_instance(deployment, instance):
    assert instance.get_ref().event_storage_data.class_name == "PostgresEventLogStorage"
    runs = instance.get_run_records()
    assert {record.dagster_run.status for record in runs} == {dg.DagsterRunStatus.SUCCESS}
    assert not list((deployment.workspace / "data" / "dagster").rglob("*.db"))
    reported = deployment.command("care", "status", "--json")
    assert reported.count('"40 / 40"') == len(JUDGES), reported
    assert "nothing to do" in deployment.command("care", "run")


def test_an_unreachable_database_is_reported_without_a_traceback(deployment):
    wrong = {**deployment.environment, "DAGSTER_POSTGRES_PASSWORD": "not this one"}
    reported = Deployment(deployment.home, deployment.workspace, wrong).command("care", "run", code=1)
    assert "Dagster's storage cannot be used" in reported
    assert "password authentication failed" in reported
    assert "Traceback" not in reported


def test_a_killed_code_server_loses_no_change(deployment, instance):
    """It is killed during ``items``; this run fails, and another run completes the work."""
    workspace = deployment.workspace
    server, port = deployment.start_code_server(held_items.__name__)
    deployment.start_daemon(port)
    items = load_workspace(workspace).parts.items_file("one")
    before, known = items.stat().st_mtime_ns, {record.dagster_run.run_id for record in instance.get_run_records()}
    (workspace / held_items.HOLD).touch()
    write_items(workspace, edited=7)
    wait_until(lambda: items.stat().st_mtime_ns != before, deployment.logs)
    kill(server)
    (workspace / held_items.HOLD).unlink()
    runs = [record.dagster_run for record in instance.get_run_records()]
    runs = [run for run in runs if dg.AssetKey("items") in (run.asset_selection or ())]
    (killed,) = [run for run in runs if run.run_id not in known]
    assert killed.status == dg.DagsterRunStatus.STARTED
    deployment.start_code_server(held_items.__name__, port)

    def failed() -> bool:
        run = instance.get_run_by_id(killed.run_id)
        return run is not None and run.status == dg.DagsterRunStatus.FAILURE

    wait_until(failed, deployment.logs)
    edited = "SELECT count(*) FROM items WHERE response LIKE '% and edited'"
    wait_until(lambda: query(workspace, edited) == [(1,)], deployment.logs)
    in_progress = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED], run_ids=[killed.run_id])
    assert not instance.get_run_records(in_progress)
