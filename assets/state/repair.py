"""Functions that detect damaged files in a workspace and, on request, quarantine these files."""

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from assets.workspace import FORGOTTEN, Workspace
from care_ops.errors import WarehouseError
from warehouse.artifacts import arrays_of, panel_of
from warehouse.fits import fit_of
from warehouse.panel_rows import drop_slice
from warehouse.parts import read_scores_part
from warehouse.refusals import refusal
from warehouse.storage import (
    DamagedError,
    delete,
    find_sound,
    noted,
    notes_below,
    quarantine,
    read_document,
    read_lines,
    read_table,
    write_document,
)

State = Literal["fails", "warns", "ok"]
Read = Callable[[Path], object]
_FROM_A_BACKUP = "`care run` rebuilds a file of the latest fit version; restore an older version's file from a backup"
_AGAIN = "`care run` rebuilds it"
_SHARES, _BYTES_AT_ONCE = 20, 32 * 2**20
"""Number of runs that together read all parts once, and maximum number of bytes that each run reads."""


@dataclass(frozen=True)
class Finding:
    """Damaged or quarantined file of a workspace.

    Attributes
    ----------
    state : {"fails", "warns", "ok"}
        "fails" if a person must act, "ok" if the file was just repaired or quarantined, otherwise "warns".
    message : str
        Description of the damage, and the remedy.
    """

    path: Path
    state: State
    message: str


def findings(workspace: Workspace, *, repair: bool) -> list[Finding]:
    """Check every file that CARE stores for a workspace, and return the damaged and quarantined files.

    With ``repair``, damaged files are quarantined, and the next run requests the scores in quarantined files again,
    even if that costs money. No other process may then use the workspace.
    """
    quarantined_before = list(_quarantined(workspace, repair=repair))
    damaged = [
        finding for path, read, then in _files(workspace) for finding in _checked(workspace, path, read, then, repair)
    ]
    damaged += [*_database(workspace, repair=repair), *_dagster(workspace, repair=repair)]
    if repair:  # deletes the notes on the files that were quarantined just now
        list(_quarantined(workspace, repair=True))
    return [*quarantined_before, *damaged]


def verify_some(workspace: Workspace) -> None:
    """Verify the next few files of items and scores; quarantine damaged files.

    Each call reads the next twentieth of the files, at most 32 MiB, so damage to an unused file is detected within
    weeks. CARE then requests the lost scores again, unless that costs money; in that case, the judge fails until a
    person runs ``care doctor --repair``.
    """
    root, cursor = workspace.parts.root, workspace.data / "dagster" / "verified.json"
    parts = sorted((str(path.relative_to(root)), path, read) for path, read, _ in _parts(root))
    last = str((find_sound(cursor, read_document) or {}).get("last", ""))
    start = bisect_right([name for name, *_ in parts], last)
    left = _BYTES_AT_ONCE
    for name, path, read in [*parts[start:], *parts[:start]][: ceil(len(parts) / _SHARES)]:
        if left <= 0:
            break
        with suppress(FileNotFoundError):
            left -= path.stat().st_size
            last = name
            is_damaged = find_sound(path, read) is None and not path.exists()
            if is_damaged and not _costs_money(workspace, path.parent):
                _have_asked_again(workspace, path.parent)
    if parts:
        write_document(cursor, {"last": last})


def _parts(root: Path) -> Iterator[tuple[Path, Read, str]]:
    for pattern, read, then in (
        ("items/testset=*/items.parquet", read_table, "`care run` reads the items from their source again"),
        ("scores/judge=*/testset=*/*.parquet", read_scores_part, "`care run` requests its scores again"),
    ):
        for path in sorted(root.glob(pattern)):
            yield path, read, then


def _quarantined(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    for note in notes_below(workspace.data):
        message = f"{note.read_text(encoding='utf-8', errors='replace').strip()}; it was quarantined as {noted(note)}"
        costs = _costs_money(workspace, note.parent.parent)
        if repair:
            delete(note)
            _have_asked_again(workspace, note.parent.parent)
            then = "the next `care run` requests these scores again, which costs money" if costs else _AGAIN
            yield Finding(noted(note), "ok", f"{message}; {then}")
        elif costs:
            yield Finding(
                noted(note),
                "fails",
                f"{message}. CARE has not requested these scores again, because that costs money: restore the file if "
                "you have a backup, then run `care doctor --repair`; `care run` then requests the scores still missing",
            )
        else:
            yield Finding(noted(note), "warns", f"{message}. `care doctor --repair` clears this warning")


def _costs_money(workspace: Workspace, folder: Path) -> bool:
    judge = workspace.judges.get(_owner_of(folder, "judge"))
    return judge is not None and judge.engine.needs.endpoint


def _have_asked_again(workspace: Workspace, folder: Path) -> None:
    """Delete a judge's scores of a test set from the database; the next run requests the missing scores again."""
    judge, testset = _owner_of(folder, "judge"), _owner_of(folder, "testset")
    if judge and testset and workspace.warehouse.usable():
        with workspace.warehouse.writer() as connection:
            drop_slice(connection, judge, testset)


def _owner_of(folder: Path, kind: str) -> str:
    names = [part.removeprefix(f"{kind}=") for part in folder.parts if part.startswith(f"{kind}=")]
    return unquote(names[-1]) if names else ""


def _files(workspace: Workspace) -> Iterator[tuple[Path, Read, str]]:
    yield from _parts(workspace.parts.root)
    fits = workspace.fit_folder("").path.parent
    for folder, pattern, read, then in (
        (fits, "testset=*/*.parquet", panel_of, _AGAIN),
        (fits, "testset=*/*.arrays", arrays_of, _AGAIN),
        (fits, "testset=*/*.json", read_document, _AGAIN),
        (workspace.fits.root, "testset=*/fit=*.parquet", fit_of, _FROM_A_BACKUP),
        (workspace.fits.root, "testset=*/*.json", read_document, _FROM_A_BACKUP),
        (workspace.fits.root, "testset=*/publications.jsonl", read_lines, "its readable lines are kept"),
        (workspace.data / "experiments", "*.json", read_document, "`care run --select key:NAME` rebuilds it"),
        (workspace.report_folder, "*.html", _read_page, _AGAIN),
        (workspace.data / "parts" / "bills", "*.parquet", read_table, "its costs are lost without a backup"),
        (workspace.data, FORGOTTEN, lambda _: workspace.forgotten_items(), ""),
    ):
        for path in sorted(folder.glob(pattern)):
            yield path, read, then


def _read_page(path: Path) -> None:
    if path.is_dir():
        raise DamagedError(f"{path} is a folder, but should be an HTML page")
    if not path.read_bytes().rstrip().endswith(b"</html>"):
        raise DamagedError(f"{path} is damaged (the closing </html> tag is missing)")


def _checked(workspace: Workspace, path: Path, read: Read, then: str, repair: bool) -> Iterator[Finding]:
    try:
        read(path)
    except FileNotFoundError:
        return
    except DamagedError as error:
        if path.name == FORGOTTEN:
            yield Finding(path, "fails", str(error))
        elif not repair:
            costs = ", which costs money: first restore the file from a backup" if _costs_money(workspace, path) else ""
            yield Finding(path, "fails", f"{error}. `care doctor --repair` quarantines it, and {then}{costs}")
        elif path.name == "publications.jsonl":
            workspace.fits.publications(unquote(path.parent.name.removeprefix("testset=")))
            yield Finding(path, "ok", f"{error}; it was quarantined, and {then}")
        else:
            yield Finding(path, "ok", f"{error}; it was quarantined as {quarantine(path, str(error))}, and {then}")
    except WarehouseError as error:  # an error of the system, not damage to the file
        yield Finding(path, "fails", str(error))


def _database(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    path = workspace.warehouse.path
    if not path.exists():
        return
    try:
        workspace.warehouse.check()
    except DamagedError as error:
        if repair:
            workspace.warehouse.remove()  # the next run rebuilds the database
        yield Finding(path, "ok" if repair else "fails", str(error))
    except WarehouseError as error:
        yield Finding(path, "fails", str(error))


def _dagster(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    home = workspace.data / "dagster"
    reasons: list[str] = []
    for path in sorted(home.rglob("*.db")):
        try:
            reasons += filter(None, [_broken_sqlite(path)])
        except WarehouseError as error:  # an error of the system, not damage to the file
            yield Finding(path, "fails", str(error))
    message = "; ".join(reasons)
    if reasons and repair:
        target = home.with_name(f"dagster.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        home.rename(target)
        yield Finding(home, "ok", f"{message}; the folder was moved to {target}, and `care run` creates a new one")
    elif reasons:
        remedy = "`care doctor --repair` moves Dagster's storage away; no score is lost"
        yield Finding(home, "fails", f"{message}. {remedy}")


def _broken_sqlite(path: Path) -> str | None:
    if path.is_dir():
        return f"{path} is a folder, but should be a database"
    log = path.with_name(f"{path.name}-wal")
    # Without a log, `immutable` keeps SQLite from creating another file, which fails on a full or read-only disk.
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{path}?{how}", uri=True)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not tables:
                verdict = "it is empty"
            elif "alembic_version" in tables and connection.execute("SELECT 1 FROM alembic_version").fetchmany(2)[1:]:
                verdict = "two processes created the database at the same time"
    except sqlite3.DatabaseError as error:
        if (refused := refusal(error, path)) is not None:
            raise WarehouseError(refused) from error
        verdict = str(error)
    return None if verdict == "ok" else f"{path} is damaged ({verdict})"
