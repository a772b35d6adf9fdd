"""Deletion of old fit versions, unused score files and individual items, at a person's request."""

import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from assets.judge_keys import judge_key
from assets.judging.journal import recover
from assets.publication.fit_versions import follow_files, latest
from assets.report.names import labels_name
from assets.report.to_label import leave_out
from assets.state.rebuild import rebuild_warehouse
from assets.workspace import FORGOTTEN, Workspace, forgotten_key
from care_ops.errors import CareError, InputError, counted
from warehouse.documents import document_of, read_record
from warehouse.storage import (
    DAMAGED,
    DamagedError,
    delete,
    delete_folder,
    find_sound,
    leftovers,
    read_table,
    write_document,
    write_lines,
    write_table,
)
from warehouse.testsets import VersionsSource
from warehouse.versions import ORIGINAL, version_id

_log = logging.getLogger(__name__)

_DAY_S = 86_400.0


@dataclass(frozen=True)
class Removable:
    """Files that ``care admin gc`` deletes, with the reason for the deletion."""

    what: str
    why: str
    paths: tuple[Path, ...]

    @property
    def size(self) -> int:
        """Size of ``paths`` in bytes."""
        return sum(path.stat().st_size for path in self.paths)


@dataclass(frozen=True)
class UnderWay:
    """Item that ``forget`` has begun to remove from the workspace."""

    testset: str
    item: str


def removable(workspace: Workspace, *, versions: int, days: float) -> list[Removable]:
    """List the files that the retention rule allows ``care admin gc`` to delete.

    Parameters
    ----------
    versions : int
        Number of latest fit versions to keep per test set. The last ten published versions and the current fit are
        always kept.
    days : float
        Number of days for which unused files are kept after they were written.
    """
    before = time.time() - days * _DAY_S
    fits = (_old_fits(workspace, testset, versions, before) for testset in workspace.fits.testsets())
    return [*chain(*fits), *_old_parts(workspace, before)]


def _old_fits(workspace: Workspace, testset: str, versions: int, before: float) -> Iterator[Removable]:
    all_versions = workspace.fits.fit_versions(testset)
    kept = {e.fit_version for e in all_versions[-versions:]}
    kept |= {p.fit_version for p in workspace.fits.publications(testset)[-10:]}
    kept |= {now.fit_version} if (now := latest(workspace, testset)) is not None else set()
    files_of = defaultdict[str, list[Path]](list)
    for path in sorted(workspace.fits.folder(testset).glob("fit=*")):
        files_of[path.name[4:].partition(".")[0]].append(path)
    for version in sorted(all_versions, key=lambda e: e.fit_version not in kept):
        files = [path for name in (version.fit_version, *version.fits.values()) for path in files_of.pop(name, ())]
        if version.fit_version not in kept:
            file = workspace.fits.version_file(testset, version.fit_version)
            yield Removable(f"fit {version.fit_version} of {testset}", f"built {version.made_at[:10]}", (file, *files))
    loose = [path for path in chain(*files_of.values()) if path.stat().st_mtime < before]  # such as after a kill
    if loose:
        yield Removable(f"{counted(len(loose), 'fit file')} of {testset}", "no stored fit uses them", tuple(loose))


def _old_parts(workspace: Workspace, before: float) -> Iterator[Removable]:
    for judge in workspace.parts.judges():
        for testset in workspace.parts.testsets():
            files = sorted(workspace.parts.scores_folder(judge, testset).glob("*.parquet"))
            old = [path for path in files if path.stat().st_mtime < before]
            why = "no longer in the workspace"
            if old and judge in workspace.judges and testset in workspace.testsets_of(judge):
                why = "scored under another specification"
                try:
                    key = judge_key(workspace, judge, testset)
                except CareError:  # a broken judge needs its parts after it is fixed
                    continue
                old = [path for path in old if workspace.parts.key_of(path) not in (key, None)]
            if old:
                yield Removable(f"{counted(len(old), 'part')} of {judge} on {testset}", why, tuple(old))


def scattered(workspace: Workspace) -> dict[tuple[str, str], int]:
    """Count the score files of each (judge, test set) pair whose files should be merged."""
    slices = [(judge, testset) for judge in workspace.parts.judges() for testset in workspace.parts.testsets()]
    return {slice_: count for slice_ in slices if (count := workspace.parts.has_many(*slice_))}


def merge(workspace: Workspace, slices: Collection[tuple[str, str]]) -> int:
    """Merge the score files of each (judge, test set) pair without loss; return the decrease in the number of files."""
    recover(workspace)
    return sum(workspace.parts.compact(judge, testset) for judge, testset in slices)


def remove(workspace: Workspace, doomed: list[Removable]) -> int:
    """Delete files, and the rows loaded from them into the database; return the number of freed bytes."""
    freed = sum(entry.size for entry in doomed)
    for entry in doomed:
        for path in entry.paths:
            delete(path)
        _log.info("deleted %s (%s)", entry.what, entry.why)
    if workspace.warehouse.path.exists():
        for testset in workspace.fits.testsets():
            follow_files(workspace, testset)
    return freed


def forget(workspace: Workspace, testset: str, item_id: str) -> dict[str, int]:
    """Remove an item from everything that CARE stores, and never read the item again.

    A hash of the item's key is stored first, so CARE does not read the item from its source again. If the command is
    killed later, the next ``care run`` (``finish_forgetting``) or the same command completes the removal. The user's
    own files are not changed.

    Returns
    -------
    dict
        Numbers of rows removed from items, scores and fits.

    Raises
    ------
    InputError
        The test set has neither the item nor scores of it, and no earlier call has removed it.
    """
    spec = workspace.testset(testset).name
    under_way = _promised(workspace)
    versions, this = list(_versions_too(workspace, spec, item_id)), UnderWay(spec, item_id)
    known = any(_rows_of(workspace, name, items, remove=False).total() for name, items in versions)
    if not known and under_way != this and forgotten_key(spec, item_id) not in workspace.forgotten_items():
        raise InputError(f"test set {spec!r} has neither an item {item_id!r} nor scores for this id; check the id")
    if under_way is not None and under_way != this:
        finish_forgetting(workspace)
    write_document(_promise(workspace), document_of(this))
    return _keep_promise(workspace, spec, item_id)


def finish_forgetting(workspace: Workspace) -> None:
    """Complete a removal by ``forget`` that was interrupted, if there is one."""
    if (under_way := _promised(workspace)) is not None:
        _keep_promise(workspace, under_way.testset, under_way.item)


def still_held(workspace: Workspace, testset: str) -> list[str]:
    """List the user's files of a test set that may contain a forgotten item; CARE never changes these files."""
    source = workspace.testset(testset).source
    scores = getattr(source, "scores", None)
    named = [getattr(source, "items", None), getattr(scores, "path", None), getattr(source, "path", None)]
    return [str(name) for name in named if isinstance(name, str)]


def sweep(workspace: Workspace) -> None:
    """Remove temporary files of processes that have ended.

    The name of a temporary file contains the id of the process that writes it (``warehouse.storage.replacing``).
    """
    # Only the top of Dagster's folder has files by CARE; the folders below belong to Dagster.
    temporary_files = [*leftovers(workspace.data, deep=False), *leftovers(workspace.data / "dagster", deep=False)]
    for folder in ("parts", "fits", "report", "experiments", "dagster/locks"):
        temporary_files += leftovers(workspace.data / folder)
    for path, process in temporary_files:
        if process == os.getpid() or not _alive(process):
            path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # a living process of another user raises PermissionError
        return not isinstance(error, ProcessLookupError)
    return True


def _keep_promise(workspace: Workspace, testset: str, item_id: str) -> dict[str, int]:
    key, forgotten = forgotten_key(testset, item_id), workspace.forgotten_items()
    recover(workspace)
    if key not in forgotten:
        write_lines(workspace.data / FORGOTTEN, [{"item": other} for other in (*sorted(forgotten), key)])
    removed = Counter(items=0, scores=0, fits=0)
    for name, items in _versions_too(workspace, testset, item_id):
        removed.update(_rows_of(workspace, name, items, remove=True))
        workspace.fits.leave_out(name, items)
        for path in sorted(workspace.fits.folder(name).glob("fit=*.fitfacts.json")):
            delete(path)  # a reason for a verdict may quote the item
        delete_folder(workspace.fit_folder(name).path)  # the next run rebuilds it
        folder = workspace.fits.folder(name).name
        for damaged in [*workspace.data.rglob(DAMAGED)]:  # quarantined files may hold the item
            if damaged.parent.name == folder or damaged.parent == workspace.report_folder:
                delete_folder(damaged)
        leave_out(workspace.report_folder / labels_name(name), items)
    delete_folder(workspace.data / "parts" / "probes")  # texts of earlier releases, which nothing reads
    for page in workspace.report_folder.glob("*.html"):
        delete(page)  # pages quote texts; the next run writes them again
    rebuild_warehouse(workspace)
    delete(_promise(workspace))
    return removed


def _promise(workspace: Workspace) -> Path:
    return workspace.data / "forgetting.json"


def _promised(workspace: Workspace) -> UnderWay | None:
    try:
        return read_record(_promise(workspace), UnderWay)
    except FileNotFoundError:
        return None
    except DamagedError as error:
        raise DamagedError(
            f"{error}. The removal of an item is incomplete: move the damaged file away, and run `care admin forget` "
            "for the item again"
        ) from None


def _versions_too(workspace: Workspace, testset: str, item_id: str) -> Iterator[tuple[str, set[str]]]:
    yield testset, {item_id}
    for name, other in workspace.testsets.items():
        if isinstance(other.source, VersionsSource) and other.source.of == testset:
            yield name, {version_id(item_id, change) for change in (ORIGINAL, *other.source.changes)}


def _rows_of(workspace: Workspace, testset: str, items: Collection[str], *, remove: bool) -> Counter[str]:
    parts = workspace.parts
    files = {
        "items": [parts.items_file(testset)],
        "scores": [path for judge in parts.judges() for path in parts.scores_folder(judge, testset).glob("*.parquet")],
        "fits": workspace.fits.folder(testset).glob("fit=*.parquet"),
    }
    return Counter({kind: sum(_without(p, items, remove=remove) for p in sorted(files[kind])) for kind in files})


def _without(path: Path, items: Collection[str], *, remove: bool) -> int:
    table = find_sound(path, read_table)
    if table is None:  # a damaged file is deleted with the other quarantined files of this test set
        return 0
    rest = table.filter(pa.array([item not in items for item in table.column("item_id").to_pylist()], pa.bool_()))
    gone = table.num_rows - rest.num_rows
    if gone and remove and rest.num_rows:
        write_table(path, rest)
    elif gone and remove:
        delete(path)
    return gone
