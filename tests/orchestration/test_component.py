"""Tests of a workspace mounted into a Dagster project by one YAML file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from care_ops.errors import InputError
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.resources import PublishedScores
from orchestration.workspace import load_workspace
from tests.support.workspaces import make, query

PROJECT = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "host_project"\n'
DEFS = "type: orchestration.component.CareWorkspaceComponent\nattributes:\n  workspace: {workspace}\n"
THEIRS = "import dagster as dg\n\n@dg.asset\ndef theirs() -> None: ...\n"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Iterator[Path]:
    """Create a project with an asset of another team, and a folder for the component."""
    folder = tmp_path / "project"
    (folder / "host_project" / "defs" / "care").mkdir(parents=True)
    for package in (folder / "host_project", folder / "host_project" / "defs"):
        (package / "__init__.py").write_text("")
    (folder / "host_project" / "defs" / "tables.py").write_text(THEIRS)
    (folder / "pyproject.toml").write_text(PROJECT)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "host_project"]:
        del sys.modules[name]  # the next test has a project of that name too


def mount(project: Path, workspace: str, more: str = "", folder: str = "care") -> dg.Definitions:
    (project / "host_project" / "defs" / folder).mkdir(exist_ok=True)
    (project / "host_project" / "defs" / folder / "defs.yaml").write_text(DEFS.format(workspace=workspace) + more)
    return dg.load_from_defs_folder(project_root=project)


@pytest.mark.slow
def test_a_yaml_file_mounts_a_workspace_in_another_project(project, tmp_path):
    make(tmp_path / "ws")
    loaded = mount(project, "../../../../ws")
    keys = loaded.resolve_asset_graph().get_all_asset_keys()
    single = build_defs(tmp_path / "ws")
    assert keys == {*single.resolve_asset_graph().get_all_asset_keys(), dg.AssetKey("theirs")}
    assert {sensor.name for sensor in loaded.sensors or ()} == {sensor.name for sensor in single.sensors or ()}
    assert loaded.resources["care_workspace"].folder == str(tmp_path / "ws")


def test_a_component_rejects_a_folder_without_a_workspace(project):
    with pytest.raises(Exception, match="CareWorkspaceComponent") as caught:
        mount(project, "nowhere")
    assert isinstance(caught.value.__cause__, InputError)
    assert "has no care.yaml; correct `workspace`, or create a workspace with `care init" in str(caught.value.__cause__)


@pytest.mark.slow
def test_two_workspaces_of_one_project_have_two_prefixes(project, tmp_path):
    """A prefix may be a string; with the same prefix or none, the keys of two workspaces would be equal."""
    make(tmp_path / "ws")
    make(tmp_path / "other")
    mount(project, "../../../../ws", "  key_prefix: team_a\n")
    both = mount(project, "../../../../other", "  key_prefix: [team_b]\n", "second")
    keys = both.resolve_asset_graph().get_all_asset_keys()
    assert {dg.AssetKey(["team_a", "panel"]), dg.AssetKey(["team_b", "panel"])} < keys
    for same in ("  key_prefix: [team_a]\n", "  key_prefix: team_a\n"):
        with pytest.raises(Exception, match="CareWorkspaceComponent") as caught:
            mount(project, "../../../../other", same, "second")
        assert "two workspaces have the same key prefix; give each a different `key_prefix`" in str(
            caught.value.__cause__
        )


def test_published_scores_load_through_dagsters_io_manager(workspace_after_run):
    defs = build_defs(workspace_after_run)
    with workspace_instance(load_workspace(workspace_after_run)) as instance:
        scores = defs.load_asset_value("review", instance=instance, partition_key="one")
    names = ["item_id", "aggregator", "estimate", "sd", "p_quality", "fit_id"]
    assert scores.column_names == names
    assert scores.to_pylist() == [
        dict(zip(names, row, strict=True))
        for row in query(workspace_after_run, f"SELECT {', '.join(names)} FROM latest_aggregates ORDER BY ALL")
    ]
    with pytest.raises(InputError, match="use another IO manager"):
        PublishedScores(folder=str(workspace_after_run)).handle_output(dg.build_output_context(asset_key="theirs"), 1)
