"""Tests of databases of other releases: an older one is rebuilt, and a newer one is never replaced."""

import shutil

import dagster as dg
import pytest

from orchestration.dagster_internals import IMPLICIT_ASSET_JOB
from orchestration.definitions import build_defs
from orchestration.instance import deployed_home, instance_home, workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import JUDGES, care, query, score_rows
from warehouse.database import SCHEMA_VERSION


def made_by(folder, schema: int) -> bytes:
    """Change the database to another schema version, and return its file."""
    warehouse = load_workspace(folder).warehouse
    with warehouse.writer() as connection:
        connection.execute("UPDATE schema_version SET version = ?, written_by = 'another'", [schema])
    return warehouse.path.read_bytes()


def materialised(folder, asset: str, partition: str) -> dg.ExecuteInProcessResult:
    """Run an asset with the resources of a run by Dagster's daemon."""
    with workspace_instance(load_workspace(folder)) as instance:
        return (
            build_defs(folder)
            .resolve_job_def(IMPLICIT_ASSET_JOB)
            .execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(asset)],
                partition_key=partition,
                raise_on_error=False,
            )
        )


def test_a_run_of_the_daemon_rebuilds_an_older_database(workspace_after_run):
    before = score_rows(workspace_after_run)
    made_by(workspace_after_run, SCHEMA_VERSION - 1)
    assert materialised(workspace_after_run, "panel", "one").success
    assert query(workspace_after_run, "SELECT version FROM schema_version") == [(SCHEMA_VERSION,)]
    assert query(workspace_after_run, "SELECT count(*) FROM slices") == [(len(JUDGES),)]
    assert score_rows(workspace_after_run) == before


def test_a_run_rebuilds_an_older_database_and_nothing_else(workspace_after_run):
    made_by(workspace_after_run, SCHEMA_VERSION - 1)
    assert "nothing to do" in care(workspace_after_run, "run")
    assert query(workspace_after_run, "SELECT version FROM schema_version") == [(SCHEMA_VERSION,)]


def test_probes_of_an_earlier_release_are_not_read_and_deleted_by_forget(workspace_after_run):
    left = workspace_after_run / "data" / "parts" / "probes"
    scores = next((workspace_after_run / "data" / "parts").rglob("scores/**/*.parquet"))
    (left / scores.relative_to(workspace_after_run / "data" / "parts")).parent.mkdir(parents=True)
    shutil.copy(scores, left / scores.relative_to(workspace_after_run / "data" / "parts"))
    assert "nothing to do" in care(workspace_after_run, "run")
    care(workspace_after_run, "admin", "forget", "i1", "--testset", "one")
    assert not left.exists()
    with (workspace_after_run / "testsets" / "one.yaml").open("a") as file:
        file.write("probes: {kinds: [padding]}\n")
    printed = " ".join(care(workspace_after_run, "run", code=2).split())
    assert "one.yaml: probes: not a setting here; delete it" in printed


@pytest.mark.parametrize("words", [("run",), ("admin", "forget", "i1", "--testset", "one")])
def test_a_command_rejects_a_later_database_and_does_not_change_it(workspace_after_run, words):
    made = made_by(workspace_after_run, 99)
    assert "was built by CARE another (schema 99)" in care(workspace_after_run, *words, code=1).replace("\n", " ")
    assert load_workspace(workspace_after_run).warehouse.path.read_bytes() == made


def test_the_daemon_rejects_a_later_database_and_does_not_change_it(workspace_after_run):
    made = made_by(workspace_after_run, 99)
    result = materialised(workspace_after_run, "panel", "one")
    assert not result.success
    failures = [event.event_specific_data.error for event in result.all_events if event.is_resource_init_failure]
    assert "was built by CARE another (schema 99)" in failures[0].to_string()
    assert load_workspace(workspace_after_run).warehouse.path.read_bytes() == made


def test_a_deployment_is_detected_by_two_variables(workspace_after_run, tmp_path, monkeypatch):
    """``DAGSTER_HOME`` alone may belong to another project of the user."""
    workspace, home = load_workspace(workspace_after_run), tmp_path / "home"
    own = workspace.data / "dagster"
    for name, served, expected in (
        ("", "", None),
        (str(home), "", None),
        (str(home), str(tmp_path), None),
        (str(own), str(workspace_after_run), None),
        (str(home), str(workspace_after_run), home),
    ):
        monkeypatch.setenv("DAGSTER_HOME", name)
        monkeypatch.setenv("CARE_WORKSPACE", served)
        assert deployed_home(workspace) == expected
        assert instance_home(workspace) == (expected or own)
    for command in (("admin", "daemon"), ("ui",)):
        assert "own daemon and UI" in care(workspace_after_run, *command, code=1).replace("\n", " ")
