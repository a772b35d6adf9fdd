"""Tests that readers see either the previous or the new results while a workspace is written."""

from pathlib import Path

import dagster as dg
import duckdb
import pytest

from assets.publication.fit_versions import accept
from assets.state.rebuild import rebuild_warehouse
from care_ops.errors import InputError
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.resources import PublishedScores
from orchestration.workspace import load_workspace
from tests.support.workspaces import JUDGES, care, make, query, run, write_items

UP_TO_THE_FIT = " or ".join(
    f"key:{asset}"
    for asset in ("items", "gold", "judge_inference", "scores", "panel", "moments", "structure", "aggregates")
)


@pytest.mark.slow
def test_accept_evaluates_an_unevaluated_fit_first(workspace_after_run):
    """A run may still wait for a Dagster run that will read the labels."""
    folder = workspace_after_run
    write_items(folder, edited=7)
    assert not run(folder, selection=UP_TO_THE_FIT).failures
    latest = load_workspace(folder).fits.fit_versions("one")[-1]
    unevaluated = query(
        folder,
        "SELECT count(*) FROM fit_version_fits LEFT JOIN evaluations e USING (fit_id) "
        f"WHERE fit_version = '{latest.fit_version}' AND e.fit_id IS NULL",
    )
    assert unevaluated != [(0,)]
    accept(load_workspace(folder), "one", "")
    missing = "SELECT * FROM latest_fits LEFT JOIN evaluations e USING (fit_id) WHERE e.fit_id IS NULL"
    assert query(folder, missing) == []
    assert query(folder, "SELECT DISTINCT fit_version FROM latest_fits") == [(latest.fit_version,)]


def test_the_database_is_replaced_atomically(workspace_after_run, monkeypatch):
    workspace = load_workspace(workspace_after_run)
    replace, existed = Path.replace, []

    def watched(path: Path, target: Path) -> Path:
        if target == workspace.warehouse.path:
            existed.append(target.exists())
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    rebuild_warehouse(workspace)
    assert existed == [True]


def test_a_rebuild_deletes_the_log_of_the_old_database(workspace_after_run):
    """Otherwise the old log would be applied to the new database."""
    workspace = load_workspace(workspace_after_run)
    rows = query(workspace_after_run, "SELECT * FROM latest_aggregates ORDER BY ALL")
    log = workspace.warehouse.path.with_name("care.duckdb.wal")
    log.write_bytes(b"of the old one")
    rebuild_warehouse(workspace)
    assert not log.exists()
    assert query(workspace_after_run, "SELECT * FROM latest_aggregates ORDER BY ALL") == rows


def test_a_fit_deleted_during_reading_is_left_out(workspace_after_run):
    """A broken link is listed and cannot be read, like a file that is deleted in between."""
    workspace = load_workspace(workspace_after_run)
    kept = workspace.fits.fit_versions("one")
    (workspace.fits.folder("one") / "fit_version=gone.json").symlink_to("nowhere")
    (workspace.fits.folder("one") / f"fit={kept[0].fits['care']}.evaluation.json").unlink()
    (workspace.fits.folder("one") / f"fit={kept[0].fits['care']}.evaluation.json").symlink_to("nowhere")
    assert workspace.fits.fit_versions("one") == kept
    assert kept[0].fit_version in care(workspace_after_run, "fits", "list", "one")


def test_status_works_during_the_first_run(tmp_path):
    folder = make(tmp_path / "ws")
    database = folder / "data" / "care.duckdb"
    database.parent.mkdir()
    database.touch()
    assert "missing" in care(folder, "status"), "as a writer has made the file and not yet taken its lock"
    database.unlink()
    duckdb.connect(str(database)).close()
    assert "missing" in care(folder, "status"), "as a writer was killed before it had made the tables"


def test_a_judge_deleted_during_reading_is_left_out(tmp_path, monkeypatch):
    folder = make(tmp_path / "ws")
    listed = Path.glob

    def listed_before(where: Path, pattern: str) -> list[Path]:
        return [
            *listed(where, pattern),
            *([where / "gone.yaml"] if (where.name, pattern) == ("judges", "*.yaml") else []),
        ]

    monkeypatch.setattr(Path, "glob", listed_before)
    assert set(load_workspace(folder).judges) == set(JUDGES)
    (folder / "judges" / "gone.yaml").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"gone\.yaml: no such file"):
        load_workspace(folder)


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
