"""What of a workspace's files is damaged, found by reading all of them, and what is done about it.

Belongs here: which reader tells whether a file is whole, and what becomes of one that is not. Does not: making anything
again (the next `care run` does), the readers (``warehouse``), the command line.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from assets.workspace import FORGOTTEN, Workspace
from care_ops.errors import WarehouseError

State = Literal["fails", "warns", "ok"]


@dataclass(frozen=True)
class Finding:
    """Something that cannot be read, or that was set aside.

    Attributes
    ----------
    where : Path
    state : {"fails", "warns", "ok"}
        Fails where a person must do something; ok once it is repaired.
    what : str
        What is wrong and what was done, or what to do.
    """

    where: Path
    state: State
    what: str


def damages(workspace: Workspace, *, repair: bool) -> list[Finding]:
    """Read every file of a workspace.

    Parameters
    ----------
    repair : bool
        Set aside what is damaged, and take back the notes on what was set aside before. Nobody else may be at work on
        the workspace.
    """
    before = list(_notes(workspace, repair=repair))
    found = [*_parts(workspace, repair=repair), *_fits(workspace, repair=repair), *_pages(workspace, repair=repair)]
    found += [*_database(workspace, repair=repair), *_forgotten(workspace), *_dagster(workspace, repair=repair)]
    if repair:  # what was set aside just now is told above, and needs no second `--repair`
        list(_notes(workspace, repair=True))
    return [*before, *found]


def _notes(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    """What was set aside when it was read, and what of it costs money to make again."""
    from warehouse.parts import DAMAGED, WHY, notes_below

    for root in (workspace.parts.root, workspace.data / "fits"):
        for note in notes_below(root / DAMAGED):
            why, aside = note.read_text(errors="replace").strip(), note.with_name(note.name.removesuffix(WHY))
            says = f"{why}; it was set aside as {aside}"
            costs = root == workspace.parts.root and _costs(workspace, aside.relative_to(root / DAMAGED))
            if repair:
                note.unlink(missing_ok=True)
                then = (
                    "is asked again by the next `care run`, which costs money"
                    if costs
                    else "is made again where needed"
                )
                yield Finding(aside, "ok", f"{says}; what was in it {then}")
            elif costs:
                yield Finding(
                    aside,
                    "fails",
                    f"{says}. Asking again costs money, hence only on request: put it back from a backup, or leave it; "
                    "then `care doctor --repair`, and the next `care run` asks for what is missing",
                )
            else:
                yield Finding(aside, "warns", f"{says}. `care doctor --repair` takes this note back")


def _costs(workspace: Workspace, part: Path) -> bool:
    """Whether a part, by its path below the parts, is of a judge that costs money."""
    if part.parts[0] != "scores":
        return False
    spec = workspace.judges.get(unquote(part.parts[1].removeprefix("judge=")))
    return spec is not None and spec.engine.needs.endpoint


def _parts(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    from warehouse.parts import items_of, scores_of

    root = workspace.parts.root
    for path in sorted((root / "items").glob("testset=*/items.parquet")):
        yield from _check(path, root, items_of, "`care run` reads the items again from their source", repair)
    for path in sorted((root / "scores").glob("judge=*/testset=*/*.parquet")):
        then = "`care run` asks for its items again"
        if _costs(workspace, path.relative_to(root)):
            then += ", which costs money; put a backup in its place first if you have one"
        yield from _check(path, root, scores_of, then, repair)


def _fits(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    from warehouse.artifacts import arrays_of, json_of, panel_of
    from warehouse.fits import document_of, edition_of, fit_of, log_of

    again = "`care run` makes it again"
    for ending, read in ((".parquet", panel_of), (".npz", arrays_of), (".json", json_of)):
        for path in sorted((workspace.data / "fits").glob(f"testset=*/*{ending}")):
            yield from _check(path, workspace.data / "fits", read, again, repair)
    kept = f"of the latest edition {again}; an older one comes back from a backup only"
    for pattern, read, then in (
        ("fit=*.parquet", fit_of, kept),
        ("fit=*.json", document_of, kept),
        ("edition=*.json", edition_of, kept),
        ("publications.jsonl", log_of, "its readable lines stay; see `care history` for what is published now"),
    ):
        for path in sorted(workspace.fits.root.glob(f"testset=*/{pattern}")):
            if read is log_of and repair and _damage(path, log_of) is not None:
                testset = unquote(path.parent.name.removeprefix("testset="))
                says = _damage(path, log_of)
                workspace.fits.publications(testset)  # sets the log aside and keeps the lines that can be read
                yield Finding(path, "ok", f"{says}; it was set aside, {then}")
            else:
                yield from _check(path, workspace.parts.root, read, then, repair)


def _pages(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    def read(path: Path) -> None:
        if not path.read_text(encoding="utf-8").rstrip().endswith("</html>"):
            raise ValueError("the page has no end")

    for path in sorted(workspace.report_folder.glob("*.html")):
        yield from _check(path, workspace.data, _of(read), "`care run` writes the page again", repair)


def _database(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    from warehouse.parts import DamagedError

    path = workspace.warehouse.path
    if not path.exists():
        return
    try:
        workspace.warehouse.read_all()
    except DamagedError as error:
        if not repair:
            yield Finding(path, "fails", str(error))
            return
        workspace.warehouse.remove()
        yield Finding(path, "ok", f"{error}; what was left of it was removed")
    except WarehouseError as error:
        yield Finding(path, "fails", str(error))


def _forgotten(workspace: Workspace) -> Iterator[Finding]:
    """The record of what must never be read again: nobody but a person can mend it."""
    path = workspace.data / FORGOTTEN

    def read(path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines():
            json.loads(line)["item"]

    says = _damage(path, _of(read)) if path.exists() else None
    if says is not None:
        yield Finding(
            path, "fails", f"{says}. Put it back from a backup, or `care forget` each item again once it is moved away"
        )


def _dagster(workspace: Workspace, *, repair: bool) -> Iterator[Finding]:
    """Dagster's storage is a record of runs, not of results: as a whole it can be let go of."""
    home = workspace.data / "dagster"
    says: list[str] = []
    for path in sorted(home.rglob("*.db")):
        found = _damage(path, _of(_check_sqlite))
        says += [] if found is None else [found]
    cursor = home / "care_run_cursor.json"
    if cursor.exists():
        found = _damage(cursor, _of(lambda path: json.loads(path.read_text(encoding="utf-8"))))
        says += [] if found is None else [found]
    for what in says if not repair else ():
        yield Finding(home, "fails", f"{what}. `care doctor --repair` moves Dagster's storage away; no score is lost")
    if says and repair:
        target = home.with_name(f"dagster.damaged-{_stamp()}")
        home.rename(target)
        yield Finding(home, "ok", f"{'; '.join(says)}; the folder was moved to {target}, `care run` makes a new one")


def _check_sqlite(path: Path) -> None:
    if path.is_dir():
        raise ValueError("it is a folder")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            found = connection.execute("PRAGMA quick_check").fetchone()
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            raise ValueError(str(error)) from error
    if found != ("ok",):
        raise ValueError(str(found[0]))
    if tables == (0,):
        raise ValueError("it is empty")


def _check(path: Path, root: Path, read: Callable[[Path], object], then: str, repair: bool) -> Iterator[Finding]:
    """Nothing where a file can be read; else what was done, or that it can be done."""
    from warehouse.parts import DamagedError, set_aside

    error = _error(path, read)
    if error is None:
        return
    if not isinstance(error, DamagedError):  # of the system, not of the file, which may be whole
        yield Finding(path, "fails", str(error))
        return
    if not repair:
        yield Finding(path, "fails", f"{error}. `care doctor --repair` sets it aside, and {then}")
        return
    try:
        aside = set_aside(path, root, str(error))
    except WarehouseError as refused:
        yield Finding(path, "fails", str(refused))
        return
    yield Finding(path, "ok", f"{error}; it was set aside as {aside}, and {then}")


def _error(path: Path, read: Callable[[Path], object]) -> WarehouseError | None:
    """Why a file cannot be read; None where it can, or is gone meanwhile."""
    try:
        read(path)
    except FileNotFoundError:
        return None
    except WarehouseError as error:
        return error
    return None


def _damage(path: Path, read: Callable[[Path], object]) -> str | None:
    error = _error(path, read)
    return None if error is None else str(error)


def _of(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """A reader of ours as those of ``warehouse`` are: it says in a sentence what is wrong."""
    from warehouse.parts import reading

    def speaking(path: Path) -> None:
        with reading(path):
            read(path)

    return speaking


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
