"""Functions that rebuild the database from the stored Parquet files after deletion, damage or a schema change."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from assets.inputs.items import load_items
from assets.judging.scores import load_slice
from assets.publication.fit_versions import latest
from assets.report.verdicts import stored_verdicts
from assets.sources import read_source
from assets.versions import items_code, readable_source_version
from assets.workspace import Workspace
from care_ops.errors import CareError, WarehouseError
from warehouse.database import Warehouse
from warehouse.fit_rows import load_fits, store_verdict
from warehouse.items import ItemRecord
from warehouse.panel_rows import LongWrite, replace_panel

_log = logging.getLogger(__name__)


def needs_rebuild(workspace: Workspace) -> bool:
    """Return whether the database must be rebuilt; raise ``WarehouseError`` if a later release of CARE wrote it."""
    return bool(workspace.parts.testsets()) and not workspace.warehouse.usable()


def rebuild_warehouse(workspace: Workspace) -> dict[str, str]:
    """Rebuild the database from the stored Parquet files of items, scores and fits.

    Returns
    -------
    dict judge -> message
        Error of each judge whose scores cannot be loaded; the files of these scores are kept.

    Raises
    ------
    WarehouseError
        A later release of CARE has written the database.
    """
    workspace.warehouse.usable()  # raises an error for a database of a later release
    # Readers use the old database until the end, and a killed rebuild leaves no database that looks complete.
    rebuilding = Warehouse(workspace.data / "making" / workspace.warehouse.path.name)
    rebuilding.remove()
    copy = replace(workspace)
    copy.__dict__["warehouse"] = rebuilding  # the cached property of a copy
    with rebuilding.writer() as connection:  # the schema, even if there is nothing to load
        workspace.bills.load(connection)
    written, verdicts = set(workspace.parts.testsets()), stored_verdicts(workspace)
    rebuilt = [name for name in sorted(workspace.testsets) if name in written]
    broken: dict[str, str] = {}
    for testset in rebuilt:
        try:
            records = _read_items(workspace, testset)
            load_items(copy, testset, records, workspace.parts.items_version(testset, "source_version"))
        except CareError as error:  # the asset `items` is stale, and fails with this message
            _log.info("Test set %s is not in the rebuilt database; CARE cannot read its items: %s", testset, error)
            continue
        with rebuilding.writer() as connection:
            transactions = LongWrite(connection)
            for judge in workspace.judges_of(testset):
                try:
                    transactions.wrote(load_slice(copy, connection, judge, testset))
                except CareError as error:
                    broken[judge] = str(error)
            load_fits(connection, workspace.fits, testset)
            if testset in verdicts:
                store_verdict(connection, testset, verdicts[testset])
            if (now := latest(workspace, testset)) is not None:
                replace_panel(connection, testset, now.inputs.panel)
    workspace.warehouse.replace_by(rebuilding)
    rebuilding.path.parent.rmdir()
    return broken


def _read_items(workspace: Workspace, testset: str) -> Sequence[ItemRecord]:
    try:
        return workspace.parts.read_items(testset)
    except WarehouseError:
        version = readable_source_version(workspace, testset)
        records = read_source(workspace, testset)
        workspace.parts.write_items(testset, records, version, items_code())
        return records
