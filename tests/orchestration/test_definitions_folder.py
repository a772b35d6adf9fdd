"""Tests of a workspace in the folder of definitions of another Dagster project, and of its published scores."""

import dagster as dg
import pytest

from care_ops.errors import InputError
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.resources import PublishedScores
from orchestration.workspace import load_workspace
from tests.support.workspaces import make, query

PROJECT = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "host_project"\n'
DEFS = """
from pathlib import Path

import dagster as dg

from orchestration.definitions import build_defs


@dg.definitions
def care() -> dg.Definitions:
    return build_defs(Path({workspace!r}), key_prefix={prefix!r})
"""
THEIRS = "import dagster as dg\n\n@dg.asset\ndef theirs() -> None: ...\n"


@pytest.mark.slow
def test_a_function_mounts_workspaces_in_another_project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    defs = folder / "host_project" / "defs"
    defs.mkdir(parents=True)
    for package in (defs.parent, defs):
        (package / "__init__.py").write_text("")
    (defs / "tables.py").write_text(THEIRS)
    (folder / "pyproject.toml").write_text(PROJECT)
    for prefix in ("team_a", "team_b"):
        make(tmp_path / prefix)
        (defs / f"{prefix}.py").write_text(DEFS.format(workspace=str(tmp_path / prefix), prefix=prefix))
    monkeypatch.syspath_prepend(folder)
    loaded = dg.load_from_defs_folder(project_root=folder)
    keys = loaded.resolve_asset_graph().get_all_asset_keys()
    single = build_defs(tmp_path / "team_a").resolve_asset_graph().get_all_asset_keys()
    mounted = {key.with_prefix(prefix) for key in single for prefix in ("team_a", "team_b")}
    assert keys == {*mounted, dg.AssetKey("theirs")}


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
