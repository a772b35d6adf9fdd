"""Faults that kill or fail a command at its n-th change of a workspace, and comparison of workspaces.

The library ``faults.c`` injects the faults; ``benchmarks.soaks.kills`` chooses the changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

SOURCE = Path(__file__).with_suffix(".c")
_MOMENTS = {"created_at", "made_at", "published_at", "fitted_at", "latency_ms", "sha256"}
"""Columns and keys with a time, a duration, or a checksum that includes a time."""
_LOCKS = "dagster/locks"
"""Folder of notes of processes that hold a workspace or wait for it; a process removes its note at its end."""
_OF_SCORES = ("parts/scores/", "parts/bills")
"""Files whose names and number depend on when judges were asked. Only their rows of scores are compared. Bills are not
compared, because a judge that is asked again costs more (``tests/orchestration/test_bill.py``)."""
_SPOKEN = re.compile(
    rb"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?|(?<=nonce[-=])\"?[0-9a-f]{32}"
)
"""Pattern of a date or a time in a page, and of the key of its scripts, which is a hash of its content."""


@dataclass(frozen=True)
class Fault:
    """Fault, and the change at which it happens; ``faults.c`` documents the fields; ``clock`` is in seconds."""

    mode: Literal["count", "kill", "fail", "readonly"] = "count"
    at: int = 0
    when: Literal["before", "after"] = "before"
    errno: Literal["ENOSPC", "EIO"] = "ENOSPC"
    half: bool = False
    from_then_on: bool = False
    clock: int = 0


@dataclass(frozen=True)
class Point:
    """Call that changed a file; ``path`` is relative to the root."""

    number: int
    call: str
    path: str


@dataclass(frozen=True)
class Ran:
    """Exit code, output and changes of a command."""

    code: int
    output: str
    points: list[Point]


def build(folder: Path) -> Path:
    """Compile the library into a folder."""
    library = folder / "faults.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True, capture_output=True)
    return library


def settings(root: Path, notes: Path, fault: Fault) -> dict[str, str]:
    """Return the library's environment variables; ``notes`` is a folder outside the root, for its count and log."""
    notes.mkdir(parents=True, exist_ok=True)
    (notes / "state").write_bytes(struct.pack("=QQ", 0, fault.at))
    (notes / "log").write_bytes(b"")
    return {
        "FAULTS_ROOT": str(root.resolve()),
        "FAULTS_STATE": str(notes / "state"),
        "FAULTS_LOG": str(notes / "log"),
        "FAULTS_MODE": fault.mode,
        "FAULTS_WHEN": fault.when,
        "FAULTS_ERRNO": fault.errno,
        "FAULTS_HALF": str(int(fault.half)),
        "FAULTS_ON": str(int(fault.from_then_on)),
        "FAULTS_CLOCK": str(fault.clock),
    }


def points(notes: Path) -> list[Point]:
    """Read the changes from the library's log, sorted by number, because two threads may write out of order."""
    lines = [line.split("\t", 2) for line in (notes / "log").read_text(errors="surrogateescape").splitlines()]
    return sorted((Point(int(number), call, path) for number, call, path in lines), key=lambda point: point.number)


def run_under(
    library: Path,
    command: Sequence[str],
    root: Path,
    notes: Path,
    fault: Fault = Fault(),
    more: Mapping[str, str] | None = None,
) -> Ran:
    """Run a command with a fault in a new process group; a kill ends the whole group."""
    environment = {**os.environ, **(more or {}), **settings(root, notes, fault), "LD_PRELOAD": str(library)}
    done = subprocess.run(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return Ran(done.returncode, done.stdout.decode(errors="replace"), points(notes))


@dataclass(frozen=True)
class State:
    """Content of a workspace without times and most of Dagster's storage.

    Attributes
    ----------
    files : dict path -> hash of its content, or "folder"
    rows : list of str
        Rows of the database's tables, of the score parts and of Dagster's records; a repeated row is listed repeatedly.
    temporary : list of str
        Files with names of unfinished files, and notes of running processes.
    double : list of str
        Triples of judge, item and judge's key that have scores in several parts.
    """

    files: dict[str, str] = field(default_factory=dict[str, str])
    rows: list[str] = field(default_factory=list[str])
    temporary: list[str] = field(default_factory=list[str])
    double: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Difference:
    """Differences of a disturbed workspace from an undisturbed one."""

    lost: list[str]
    double: list[str]
    different: list[str]
    left_behind: list[str]

    def __bool__(self) -> bool:
        return any(asdict(self).values())


def state_of(workspace: Path) -> State:
    """Read the data folder of a workspace without running processes."""
    data = workspace / "data"
    inside = sorted(path for path in data.rglob("*") if path.is_file())
    temporary = [str(p.relative_to(data)) for p in inside if _unfinished(p.name) or p.parent.parent == data / _LOCKS]
    files: dict[str, str] = {}
    for path in sorted(data.rglob("*")):
        name = str(path.relative_to(data))
        if name.startswith(("dagster", "care.duckdb", "hashes.json", *_OF_SCORES)) or name in temporary:
            continue
        files[name] = "folder" if path.is_dir() else hashlib.sha256(_content_of(path, workspace)).hexdigest()[:16]
    scores, double = _scores(data / "parts" / "scores")
    rows = [*scores, *_tables(data / "care.duckdb"), *_dagster(data / "dagster" / "history")]
    return State(files, sorted(rows), temporary, double)


def compare(calm: State, rough: State) -> Difference:
    """Compare a disturbed workspace with an undisturbed one."""
    rows, wanted = Counter(rough.rows), Counter(calm.rows)
    both = calm.files.keys() & rough.files.keys()
    return Difference(
        lost=[*sorted(calm.files.keys() - rough.files.keys()), *sorted((wanted - rows).elements())],
        double=sorted(set(rough.double) - set(calm.double)),
        different=[
            *(f"{name} has other content" for name in sorted(both) if calm.files[name] != rough.files[name]),
            *(f"{name} is there" for name in sorted(rough.files.keys() - calm.files.keys())),
            *(f"{row} is there" for row in sorted((rows - wanted).elements())),
        ],
        left_behind=sorted(set(rough.temporary) - set(calm.temporary)),
    )


def _unfinished(name: str) -> bool:
    """Return whether a file has the name of an unfinished file, except SQLite's logs, which SQLite reads again."""
    return name.endswith(".tmp") or (name.startswith(".") and not name.endswith(("-wal", "-shm", "-journal")))


def _timeless(value: Any) -> Any:
    """Return a JSON value without times and durations."""
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in sorted(value.items()) if k not in _MOMENTS}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def _content_of(path: Path, workspace: Path) -> bytes:
    """Return the content of a file in a form that does not depend on times or the workspace's path."""
    content = path.read_bytes()
    if path.suffix in (".parquet", ".arrays"):
        return _parquet(path)
    content = content.replace(str(workspace).encode(), b"WORKSPACE")  # in commands that can be typed as they stand
    if path.suffix in (".json", ".jsonl"):
        documents = [content] if path.suffix == ".json" else content.splitlines()
        return json.dumps([_timeless(json.loads(document)) for document in documents]).encode()
    if path.suffix in (".html", ".js", ".txt"):
        return _SPOKEN.sub(b"MOMENT", content)
    return content


def _parquet(path: Path) -> bytes:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read()
    head = {key.decode(): json.loads(text) for key, text in (table.schema.metadata or {}).items() if key != b"sha256"}
    rows = table.drop_columns([c for c in table.column_names if c in _MOMENTS]).to_pylist()
    return json.dumps([_timeless(head), rows], default=str).encode()


def _scores(folder: Path) -> tuple[list[str], list[str]]:
    """Return all rows of the score parts, and the keys with scores in several parts."""
    import pyarrow.parquet as pq

    rows: list[str] = []
    answered: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.parquet")):
        if path.name.startswith("."):
            continue
        where = str(path.parent.relative_to(folder))
        for row in pq.ParquetFile(path).read().to_pylist():
            rows.append(f"{where} {_text(row.items())}")
            if row["status"] == "ok":
                answered[f"{where} {row['item_key']} {row['judge_key']}"] += 1
    return rows, sorted(key for key, times in answered.items() if times > 1)


def _text(cells: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in cells if name not in _MOMENTS)


def _tables(database: Path) -> list[str]:
    """Return all rows of all tables, with the names of items and judges in place of their numbers."""
    import duckdb

    if not database.exists():
        return ["no database"]
    with duckdb.connect(str(database), read_only=True) as connection:
        names = {"item_ix": {}, "judge_ix": {}}
        for ordinal, testset, item in connection.execute("SELECT item_ix, testset, item_id FROM items").fetchall():
            names["item_ix"][ordinal] = f"{testset}/{item}"
        names["judge_ix"].update(connection.execute("SELECT judge_ix, judge FROM judges").fetchall())
        tables = [
            t
            for (t,) in connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE table_name != 'askings'"
            ).fetchall()
        ]
        return [row for table in tables for row in _rows(connection, table, names, str(database.parents[1]))]


def _dagster(history: Path) -> list[str]:
    """Return Dagster's records that later runs read: materialised partitions, unfinished runs, claimed pool slots."""
    questions = {
        "runs/index.db": (
            "SELECT DISTINCT 'materialised ' || asset_key || ' ' || coalesce(partition, '') FROM event_logs "
            "WHERE dagster_event_type = 'ASSET_MATERIALIZATION'",
            "SELECT 'a place taken in pool ' || concurrency_key FROM concurrency_slots WHERE run_id IS NOT NULL",
        ),
        "runs.db": ("SELECT 'a run is ' || status FROM runs WHERE status NOT IN ('SUCCESS', 'FAILURE', 'CANCELED')",),
    }
    rows: list[str] = []
    for name, asked in questions.items():
        if (history / name).exists():
            with closing(sqlite3.connect(history / name)) as connection:
                rows += [f"dagster: {row[0]}" for question in asked for row in connection.execute(question)]
    return rows


def _rows(connection: Any, table: str, names: Mapping[str, Mapping[int, str]], root: str) -> list[str]:
    cursor = connection.execute(f"SELECT * FROM {table}")
    columns = [column[0] for column in cursor.description]
    rows: list[str] = []
    for row in cursor.fetchall():
        cells = {c: names[c].get(v, v) if c in names else v for c, v in zip(columns, row, strict=True)}
        if table == "verdicts":
            cells["verdict"] = json.dumps(_timeless(json.loads(cells["verdict"])))
        rows.append(f"{table}: {_text(cells.items())}".replace(root, "WORKSPACE"))
    return rows
