"""What is deleted, and only when a person asks: old editions, parts nobody reads any more, an item everywhere.

Belongs here: deleting. Does not: the command line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assets.state.rebuild import rebuild_warehouse
from assets.workspace import FORGOTTEN, Workspace, forgotten_key
from care_ops.errors import CareError, InputError
from warehouse.testsets import VersionsSource
from warehouse.versions import ORIGINAL, version_id

if TYPE_CHECKING:
    from warehouse.fits import Edition

_DAY_S = 86_400.0


@dataclass(frozen=True)
class Removable:
    """Something that ``care gc`` deletes.

    Attributes
    ----------
    what, why : str
    paths : tuple of Path
    edition : Edition or None
        Deleted with the fits that no kept edition has.
    """

    what: str
    why: str
    paths: tuple[Path, ...] = ()
    edition: Edition | None = None

    @property
    def size(self) -> int:
        """Bytes of ``paths``."""
        return sum(path.stat().st_size for path in self.paths)


def removable(workspace: Workspace, *, editions: int, months: int, days: float) -> list[Removable]:
    """What the retention rule lets go of.

    Parameters
    ----------
    editions : int
        Latest editions of a test set that are kept.
    months : int
        Beside them the last edition of each of so many months. Everything published in the last ten
        publications stays.
    days : float
        Parts are kept for so long after they were written, whatever became of their judge.
    """
    found: list[Removable] = []
    for testset in workspace.fits.testsets():
        every = workspace.fits.editions(testset)
        kept = {e.edition for e in every[-editions:]} if editions else set[str]()
        kept |= {p.edition for p in workspace.fits.publications(testset)[-10:]}
        last_of_month = {e.made_at[:7]: e.edition for e in every}
        kept |= {last_of_month[month] for month in sorted(last_of_month)[len(last_of_month) - months :]}
        found += [
            Removable(f"fit {e.edition} of {testset}", f"made {e.made_at[:10]}", edition=e)
            for e in every
            if e.edition not in kept
        ]
    return found + list(_old_parts(workspace, time.time() - days * _DAY_S))


def _old_parts(workspace: Workspace, before: float) -> Iterator[Removable]:
    import pyarrow.parquet as pq

    for judge in workspace.parts.judges():
        for testset in workspace.parts.testsets():
            files = sorted(workspace.parts.scores_folder(judge, testset).glob("*.parquet"))
            old = [path for path in files if path.stat().st_mtime < before]
            if not old:
                continue
            if judge not in workspace.judges or testset not in workspace.testsets_of(judge):
                yield Removable(f"{len(old)} parts of {judge} on {testset}", "no longer in the workspace", tuple(old))
                continue
            try:
                key = workspace.judge_key(judge, testset)
            except CareError:  # a judge that cannot be built today may be mended tomorrow, and its parts are then read
                continue
            outdated = [p for p in old if pq.ParquetFile(p).read(columns=["judge_key"]).column(0)[0].as_py() != key]
            if outdated:
                what = f"{len(outdated)} parts of {judge} on {testset}"
                yield Removable(what, "scored under another specification", tuple(outdated))


def remove(workspace: Workspace, doomed: list[Removable]) -> int:
    """Delete; returns bytes freed."""
    from warehouse.fits import drop_edition, drop_loose_fits

    freed = 0
    gone = {r.edition.edition for r in doomed if r.edition is not None}
    for entry in doomed:
        if entry.edition is not None:
            kept = [e for e in workspace.fits.editions(entry.edition.testset) if e.edition not in gone]
            freed += workspace.fits.remove_edition(entry.edition, kept)
        freed += entry.size
        for path in entry.paths:
            path.unlink()
    if gone and workspace.warehouse.path.exists():
        with workspace.warehouse.writer() as connection:
            for edition in gone:
                drop_edition(connection, edition)
            drop_loose_fits(connection)
    return freed


def forget(workspace: Workspace, testset: str, item_id: str) -> dict[str, int]:
    """Remove an item from everything that CARE keeps, and never read it again.

    Its key is kept as a hash, so that the source does not bring it back. The user's own files are not
    touched.

    Returns
    -------
    dict
        Rows removed from items, scores, fits.

    Raises
    ------
    InputError
        Neither the test set's items nor its scores know the item.
    """
    spec = workspace.testset(testset).name
    removed = _forgotten_in(workspace, spec, {item_id})
    if not any(removed.values()):
        raise InputError(f"test set {spec!r} has no item {item_id!r}, and nothing was ever scored under that name")
    for name, other in workspace.testsets.items():
        if isinstance(other.source, VersionsSource) and other.source.of == spec:
            of_it = {version_id(item_id, change) for change in (ORIGINAL, *other.source.changes)}
            for kind, rows in _forgotten_in(workspace, name, of_it).items():
                removed[kind] += rows
    with (workspace.data / FORGOTTEN).open("a") as file:
        file.write(json.dumps({"item": forgotten_key(spec, item_id)}) + "\n")
    for page in workspace.report_folder.glob("*.html"):
        page.unlink()  # pages quote texts; the next run writes them anew
    rebuild_warehouse(workspace)
    return removed


def _forgotten_in(workspace: Workspace, testset: str, items: Collection[str]) -> dict[str, int]:
    """Remove items from everything that is kept of a test set; rows removed from items, scores, fits."""
    removed = {"items": _without(workspace.parts.items_file(testset), items), "scores": 0, "fits": 0}
    for judge in workspace.parts.judges():
        for path in sorted(workspace.parts.scores_folder(judge, testset).glob("*.parquet")):
            removed["scores"] += _without(path, items)
    for path in sorted(workspace.fits.folder(testset).glob("fit=*.parquet")):
        removed["fits"] += _without(path, items)
    for panel in workspace.fit_folder(testset).panels():
        _without(panel, items)
    return removed


def _without(path: Path, items: Collection[str]) -> int:
    """Rewrite a Parquet file without these items' rows; returns how many there were."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from warehouse.parts import write_table

    if not path.exists():
        return 0
    table = pq.ParquetFile(path).read()
    rest = table.filter(pa.array([item not in items for item in table.column("item_id").to_pylist()], pa.bool_()))
    gone = table.num_rows - rest.num_rows
    if gone and rest.num_rows:
        write_table(path, rest)
    elif gone:
        path.unlink()
    return gone
