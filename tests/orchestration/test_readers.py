"""What a reader sees while a workspace is being written: the night before or this one, never half of one."""

from pathlib import Path

import dagster as dg
import duckdb

from assets.state.rebuild import rebuild_warehouse
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import care, make, query


def test_a_fit_is_published_once_everything_is_known_of_it(after_a_night):
    """The views show the published fit; its evaluation, intervals and systems must be there by then."""
    with workspace_instance(load_workspace(after_a_night)) as instance:
        made = {
            asset: instance.get_latest_materialization_event(dg.AssetKey(asset))
            for asset in ("evaluation", "intervals", "systems", "factors", "review")
        }
    moments = {asset: event.timestamp for asset, event in made.items()}
    assert max(moments, key=moments.__getitem__) == "review"


def test_a_database_is_replaced_without_a_moment_in_which_there_is_none(after_a_night, monkeypatch):
    workspace = load_workspace(after_a_night)
    replace, there = Path.replace, []

    def watched(path: Path, target: Path) -> Path:
        if target == workspace.warehouse.path:
            there.append(target.exists())
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    rebuild_warehouse(workspace)
    assert there == [True]


def test_a_database_that_a_killed_writer_left_unfinished_is_replaced_with_its_log(after_a_night):
    """Else the log of the old one would be read into the new one."""
    workspace = load_workspace(after_a_night)
    rows = query(after_a_night, "SELECT * FROM latest_aggregates ORDER BY ALL")
    log = workspace.warehouse.path.with_name("care.duckdb.wal")
    log.write_bytes(b"of the old one")
    rebuild_warehouse(workspace)
    assert not log.exists()
    assert query(after_a_night, "SELECT * FROM latest_aggregates ORDER BY ALL") == rows


def test_a_fit_that_is_deleted_while_its_list_is_read_is_left_out(after_a_night):
    """A link to nothing is listed and cannot be read, as a file that is deleted between the two."""
    workspace = load_workspace(after_a_night)
    kept = workspace.fits.editions("one")
    (workspace.fits.folder("one") / "edition=gone.json").symlink_to("nowhere")
    (workspace.fits.folder("one") / f"fit={kept[0].fits['care']}.evaluation.json").unlink()
    (workspace.fits.folder("one") / f"fit={kept[0].fits['care']}.evaluation.json").symlink_to("nowhere")
    assert workspace.fits.editions("one") == kept
    assert kept[0].edition in care(after_a_night, "history", "one")


def test_looking_at_a_workspace_whose_first_night_is_just_beginning(tmp_path):
    folder = make(tmp_path / "ws")
    database = folder / "data" / "care.duckdb"
    database.parent.mkdir()
    database.touch()
    assert "missing" in care(folder, "status"), "as a writer has made the file and not yet taken its lock"
    database.unlink()
    duckdb.connect(str(database)).close()
    assert "missing" in care(folder, "status"), "as a writer was killed before it had made the tables"
