"""Journal of paid answers that are not yet in a score part.

Answers of a judge behind an endpoint are appended to JSON-lines files as they arrive; a file is deleted once all
its answers are in score parts. If a process is killed, the next run moves its answers to score parts and records their
costs (``recover``). A locked file belongs to a running process: the system releases the locks of a process that ends.
"""

from __future__ import annotations

import fcntl
import json
import logging
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from warehouse.remote.address import locks_at_once

if TYPE_CHECKING:
    from assets.workspace import Workspace

_LINES = 1024
"""Maximum number of lines of a journal file."""

_log = logging.getLogger(__name__)


class Journal:
    """Journal of the paid answers of one judge in one run.

    Parameters
    ----------
    run_date, asking, judge : str
        Date, id and judge of the cost record to which the answers belong.
    """

    def __init__(self, workspace: Workspace, run_date: str, asking: str, judge: str) -> None:
        self._folder, self._name = _folder(workspace), f"{run_date}.{asking}.{quote(judge, safe='')}"
        self._files: list[tuple[Path, IO[str], set[str]]] = []
        self._lines = self._count = 0
        self._lock = threading.Lock()

    def append(self, line: Mapping[str, Any], items: Iterable[str]) -> None:
        """Append a line of answers; ``items`` are the keys of the answered items."""
        text = json.dumps(line, default=str) + "\n"
        with self._lock:
            if not self._files or self._lines >= _LINES:
                self._open()
            _, file, waiting = self._files[-1]
            waiting.update(items)
            file.write(text)
            file.flush()
            self._lines += 1

    def stored(self, items: Collection[str]) -> None:
        """Record that the answers about ``items`` are in score parts; delete journal files without other answers."""
        with self._lock:
            for entry in self._files[:]:
                path, file, waiting = entry
                waiting.difference_update(items)
                if not waiting:
                    path.unlink(missing_ok=True)
                    file.close()
                    self._files.remove(entry)

    def close(self) -> None:
        """Close the journal's files; the next run stores the remaining answers."""
        with self._lock:
            for _, file, _ in self._files:
                file.close()
            self._files = []

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            self._count += 1
            path = self._folder / f"{self._name}.{self._count}.jsonl"
            file = path.open("x", encoding="utf-8")
            if locks_at_once(file, fcntl.LOCK_EX) and path.exists():
                break
            file.close()  # `recover` in another process took the file for one of a killed process
        self._files.append((path, file, set()))
        self._lines = 0


def recover(workspace: Workspace) -> int:
    """Store the answers and costs from the journals of killed processes; return the number of answers.

    The function is idempotent: it stores no row twice, and replaces each cost record as a whole.
    """
    count = 0
    run_dates = set[str]()
    for path in sorted(_folder(workspace).glob("*.jsonl")):
        with suppress(FileNotFoundError), path.open("r+", encoding="utf-8") as file:
            if not locks_at_once(file, fcntl.LOCK_EX):
                continue
            run_date, asking, rest = path.name.removesuffix(".jsonl").split(".", 2)
            judge, lines = unquote(rest.rpartition(".")[0]), [*_readable(file)]
            _enter(workspace, run_date, asking, judge, lines)
            count += _store(workspace, judge, lines)
            run_dates.add(run_date)
            path.unlink()
    if run_dates and workspace.warehouse.usable():
        with workspace.warehouse.writer() as connection:
            workspace.bills.load(connection, min(run_dates))
    return count


def _folder(workspace: Workspace) -> Path:
    return workspace.data / "journals"


def _readable(file: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in file:
        with suppress(ValueError):  # a kill or a full disk may leave an incomplete line
            yield json.loads(line)


def _store(workspace: Workspace, judge: str, lines: Iterable[Mapping[str, Any]]) -> int:
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for line in lines:
        place = line["testset"], line["key"], line["engine"]
        rows.setdefault(place, {}).update((row["item_key"], row) for row in line["rows"])
    count = 0
    for (testset, key, engine), by_item in rows.items():
        parts = workspace.parts
        done = parts.done(judge, testset, key)
        missing = [row for item, row in by_item.items() if item not in done]
        if missing:
            parts.write_scores(judge, testset, key, engine, missing)
            _log.info("Judge %s on %s: stored %d responses that a killed run received.", judge, testset, len(missing))
        count += len(missing)
    return count


def _enter(workspace: Workspace, run_date: str, asking: str, judge: str, lines: Iterable[Mapping[str, Any]]) -> None:
    rows = {_row_name(row): row for row in workspace.bills.rows_of(run_date, asking, judge)}
    for line in lines:
        began = datetime.fromisoformat(line["bill"]["began"])
        row = {**line["bill"], "run_date": date.fromisoformat(run_date), "began": began}
        kept = rows.get(_row_name(row), {})
        if line["bill"]["requests"] > (kept.get("requests") or 0):
            rows[_row_name(row)] = {**kept, **row}
    if rows:
        workspace.bills.write(run_date, asking, judge, [*rows.values()])


def _row_name(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["testset"], row["what"], row["began"]
