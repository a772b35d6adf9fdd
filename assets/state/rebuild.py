"""The warehouse rebuilt from the parts: after it was deleted or damaged, or when its schema is of another version."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from assets.inputs.items import load_items
from assets.judging.scores import load_slice
from assets.publication.editions import latest
from assets.report.verdicts import told
from assets.sources import read_source
from assets.versions import items_code, readable_source_version
from assets.workspace import Workspace
from care_ops.errors import CareError, WarehouseError
from warehouse.database import Warehouse
from warehouse.fit_rows import load_fits, store_verdict
from warehouse.items import ItemRecord
from warehouse.panel_rows import LongWrite, replace_panel

_log = logging.getLogger(__name__)


def is_outdated(workspace: Workspace) -> bool:
    """Whether there are parts, and no usable database of this release over them.

    Raises ``WarehouseError`` where a later release of CARE made the database.
    """
    return bool(workspace.parts.testsets()) and not workspace.warehouse.usable()


def rebuild_warehouse(workspace: Workspace) -> dict[str, str]:
    """Make the database anew.

    Returns
    -------
    dict judge -> message
        Judges that cannot be built, hence have no key to find their rows by; their parts stay.

    Raises
    ------
    WarehouseError
        There is a database of a later release of CARE, which may hold more than this release knows of.
    """
    workspace.warehouse.usable()  # this refuses the database of a later release
    # Beside the old one, which readers have until then: a rebuild that is killed leaves no database that looks whole.
    making = Warehouse(workspace.data / "making" / workspace.warehouse.path.name)
    making.remove()
    beside = replace(workspace)
    beside.__dict__["warehouse"] = making  # the cached property of a copy
    with making.writer() as connection:  # the schema, also where there is nothing to load
        workspace.bills.load(connection)
    written, said = set(workspace.parts.testsets()), told(workspace)
    rebuilt = [name for name in sorted(workspace.testsets) if name in written]
    broken: dict[str, str] = {}
    for testset in rebuilt:
        try:
            records = _items(workspace, testset)
            load_items(beside, testset, records, workspace.parts.items_version(testset, "source_version"))
        except CareError as error:  # neither part nor source can be read: `items` is asked for, fails and says why
            _log.info("%s is left out of the rebuilt database: %s", testset, error)
            continue
        with making.writer() as connection:
            transactions = LongWrite(connection)
            for judge in workspace.judges_of(testset):
                try:
                    transactions.wrote(load_slice(beside, connection, judge, testset))
                except CareError as error:
                    broken[judge] = str(error)
            load_fits(connection, workspace.fits, testset)
            if testset in said:
                store_verdict(connection, testset, said[testset])
            if (now := latest(workspace, testset)) is not None:
                replace_panel(connection, testset, now.inputs.panel)
    workspace.warehouse.replace_by(making)
    making.path.parent.rmdir()
    return broken


def _items(workspace: Workspace, testset: str) -> Sequence[ItemRecord]:
    """A test set's items from its part, or from its source where the part is damaged or gone."""
    try:
        return workspace.parts.read_items(testset)
    except WarehouseError:
        version = readable_source_version(workspace, testset)
        records = read_source(workspace, testset)
        workspace.parts.write_items(testset, records, version, items_code())
        return records
