"""Functions that write test sets, scores and panels to the database."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from care_ops.records import JudgeCheck
from care_ops.scores import canonical_order
from warehouse.compute import pc
from warehouse.items import ITEM_TEXTS, ItemRecord
from warehouse.storage import digest

ROWS_A_TRANSACTION = 1_000_000
"""Number of score rows after which a writer commits, because DuckDB needs memory for each uncommitted row."""


@dataclass(frozen=True)
class Slice:
    """Summary of the scores of one judge on one test set.

    ``content_hash`` does not depend on the order or age of the scores. ``n_missing`` is the number of items without a
    score row for the current keys of judge and item.
    """

    content_hash: str
    n_items: int
    n_ok: int
    n_missing: int
    statuses: dict[str, int]


class LongWrite:
    """Counter of score rows; after every ``ROWS_A_TRANSACTION`` rows, it commits the database transaction.

    ``Warehouse.writer`` commits the last rows. No other process can read between two commits, because the writer locks
    the file. If the process is killed, the committed rows remain.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection, self._rows = connection, 0

    def wrote(self, written: Slice | None) -> None:
        """Count the rows of written scores, and commit after every ``ROWS_A_TRANSACTION`` rows."""
        self._rows += written.n_items if written is not None else 0
        if self._rows >= ROWS_A_TRANSACTION:
            self._connection.commit()
            self._connection.begin()
            self._rows = 0


def replace_testset(
    connection: duckdb.DuckDBPyConnection,
    testset: str,
    records: Sequence[ItemRecord],
    item_keys: Sequence[str],
    *,
    description: str = "",
    scale: tuple[float, float] | None = None,
    cut: float | None = None,
    source_version: str | None = None,
) -> None:
    """Replace the items of a test set; an item that already exists keeps its number in the database.

    ``records`` are in source order. ``item_keys`` are the content keys of the items (``judges.items.Item.key``); the
    hash of the items is computed from these keys. ``source_version`` is the version of the source, if it is known.
    """
    low, high = scale or (None, None)
    connection.execute("DELETE FROM testsets WHERE testset = ?", [testset])
    item_ids = [record.item_id for record in records]
    hashes = digest(sorted(item_keys)), digest(sorted(item_ids))
    connection.execute(
        "INSERT INTO testsets VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [testset, description, low, high, cut, *hashes, source_version],
    )
    ordinals = _item_ordinals(connection, testset, item_ids)
    present = set(item_ids)
    removed = [ordinal for item_id, ordinal in ordinals.items() if item_id not in present]
    if removed:
        connection.execute("DELETE FROM scores WHERE list_contains(?, item_ix)", [removed])
    connection.execute("DELETE FROM items WHERE testset = ?", [testset])
    to_json = json.JSONEncoder(default=str).encode
    columns = {
        "item_ix": pa.array([ordinals[item_id] for item_id in item_ids], pa.int32()),
        "testset": pa.array([testset] * len(records), pa.string()),
        "id_rank": pa.array(np.argsort(canonical_order(item_ids)), pa.int32()),
        "row_ix": pa.array(range(len(records)), pa.int32()),
        "item_key": pa.array(item_keys, pa.string()),
        "gold": pa.array([r.gold for r in records], pa.float64()),
        "metadata": pa.array([to_json(r.metadata) if r.metadata else "{}" for r in records], pa.string()),
    }
    for name in ("item_id", *ITEM_TEXTS, "split_unit"):
        columns[name] = pa.array([getattr(record, name) for record in records], pa.string())
    _insert(connection, "items", pa.table(columns))


def _item_ordinals(connection: duckdb.DuckDBPyConnection, testset: str, item_ids: Sequence[str]) -> dict[str, int]:
    ordinals = dict(connection.execute("SELECT item_id, item_ix FROM items WHERE testset = ?", [testset]).fetchall())
    ((unused,),) = connection.execute(
        "SELECT coalesce(max(ix), -1) + 1 FROM "
        "(SELECT max(item_ix) AS ix FROM items UNION ALL SELECT max(item_ix) FROM aggregates)"
    ).fetchall()
    for item_id in item_ids:
        if item_id not in ordinals:
            ordinals[item_id], unused = unused, unused + 1
    return ordinals


def replace_slice(
    connection: duckdb.DuckDBPyConnection,
    judge: str,
    testset: str,
    judge_key: str,
    parts: pa.Table,
    *,
    family: str | None,
    spec_json: str,
) -> Slice:
    """Replace the database's scores of a judge on a test set by the judge's current scores.

    Parameters
    ----------
    judge_key : str
        Current key (content hash) of the judge; rows with other keys are ignored.
    parts : pyarrow.Table
        All stored score rows of the judge on the test set (``PartStore.read_scores``). If an item has several rows, the
        latest row with status ``ok`` is used or, if there is none, the latest row.
    spec_json : str
        Specification of the judge as JSON, for users who query the database.
    """
    judge_ix = _judge_ordinal(connection, judge, family, spec_json)
    rows = _current_rows(connection, testset, judge_key, parts)
    head = connection.execute(
        "SELECT (SELECT count(*) FROM items WHERE testset = $1), item_ids_hash FROM testsets WHERE testset = $1",
        [testset],
    ).fetchone()
    n_items, item_ids_hash = head or (0, "")
    drop_slice(connection, judge, testset)
    _insert(
        connection,
        "scores",
        rows.select(["item_ix", "value", "status", "text_mismatch"]).append_column(
            "judge_ix", pa.array(np.full(rows.num_rows, judge_ix, dtype=np.int32))
        ),
    )
    content_hash = _hash_of_slice(item_ids_hash, n_items, rows)
    statuses = {count["values"]: count["counts"] for count in pc.value_counts(rows.column("status")).to_pylist()}
    connection.execute(
        "INSERT INTO slices SELECT ?, ?, ?, ?, ?, ?, ?, items_hash FROM testsets WHERE testset = ?",
        [testset, judge, judge_key, content_hash, n_items, statuses.get("ok", 0), rows.num_rows, testset],
    )
    return Slice(content_hash, n_items, statuses.get("ok", 0), n_items - rows.num_rows, statuses)


def _current_rows(connection: duckdb.DuckDBPyConnection, testset: str, judge_key: str, parts: pa.Table) -> pa.Table:
    """Return the judge's valid score row of each item, sorted by item number; ``id_rank`` is the item's rank by id."""
    is_current = pc.equal(parts.column("judge_key"), judge_key)  # DuckDB would copy all columns to choose among rows
    current = parts if pc.all(is_current).as_py() else parts.filter(is_current)
    connection.register("parts", current.drop_columns(["judge_key"]))
    rows = connection.sql(
        """
        SELECT i.item_ix, i.id_rank, p.score AS value, p.status,
               coalesce(p.text_mismatch, false) AS text_mismatch, p.created_at
        FROM parts p JOIN items i USING (item_key)  -- the item key also depends on the item id
        WHERE i.testset = $testset
        """,
        params={"testset": testset},
    ).to_arrow_table()
    connection.unregister("parts")
    item_ix = rows.column("item_ix").to_numpy()
    is_ok = pc.equal(rows.column("status"), "ok").to_numpy()
    created_at = rows.column("created_at").cast(pa.int64()).fill_null(0).to_numpy()
    ascending = np.lexsort((created_at, is_ok, item_ix))  # the valid row comes last among those of its item
    return rows.take(ascending[np.diff(item_ix[ascending], append=-1) != 0])


def _hash_of_slice(item_ids_hash: str, n_items: int, rows: pa.Table) -> str:
    """Hash the scores of a judge; the hash does not depend on the order of rows or on item numbers."""
    ranks = rows.column("id_rank").to_numpy()
    values = np.full(n_items, np.nan)
    values[ranks] = rows.column("value").fill_null(np.nan).to_numpy()
    statuses = rows.column("status").combine_chunks().dictionary_encode()
    names = statuses.dictionary.to_pylist()
    codes = np.full(n_items, -1, dtype=np.int64)
    codes[ranks] = np.argsort(np.argsort(names))[statuses.indices.to_numpy()]
    mismatches = np.zeros(n_items, dtype=np.bool_)
    mismatches[ranks] = rows.column("text_mismatch").to_numpy()
    hashed = hashlib.sha256(json.dumps([item_ids_hash, sorted(names)]).encode())
    for column in (values, codes, mismatches):
        hashed.update(column.tobytes())
    return hashed.hexdigest()[:32]


def drop_slice(connection: duckdb.DuckDBPyConnection, judge: str, testset: str) -> None:
    """Delete a judge's scores on a test set from the database, but keep the Parquet files."""
    if not connection.execute("SELECT 1 FROM slices WHERE judge = ? AND testset = ?", [judge, testset]).fetchall():
        return  # the usual case: a judge scores few test sets
    connection.execute(
        """
        DELETE FROM scores WHERE judge_ix IN (SELECT judge_ix FROM judges WHERE judge = ?)
        AND item_ix IN (SELECT item_ix FROM items WHERE testset = ?)
        """,
        [judge, testset],
    )
    connection.execute("DELETE FROM slices WHERE judge = ? AND testset = ?", [judge, testset])


def slice_versions(connection: duckdb.DuckDBPyConnection, testset: str) -> dict[str, str]:
    """Return the content hash of each judge's scores on a test set, by judge."""
    sql = "SELECT judge, content_hash FROM slices WHERE testset = ? ORDER BY judge"
    return dict(connection.execute(sql, [testset]).fetchall())


def replace_panel(connection: duckdb.DuckDBPyConnection, testset: str, checks: Sequence[JudgeCheck]) -> None:
    """Replace the admission results of a test set's judges in the database."""
    connection.execute("DELETE FROM panels WHERE testset = ?", [testset])
    for check in checks:
        row = {"testset": testset, **vars(check)}
        connection.execute(
            f"INSERT INTO panels ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
        )


def declare_families(connection: duckdb.DuckDBPyConnection, families: Mapping[str, str | None]) -> None:
    """Update the declared family of each judge in the database, without loading scores again."""
    for judge, family in families.items():
        connection.execute(
            "UPDATE judges SET family = $family WHERE judge = $judge AND family IS DISTINCT FROM $family",
            {"family": family, "judge": judge},
        )


def _judge_ordinal(connection: duckdb.DuckDBPyConnection, judge: str, family: str | None, spec_json: str) -> int:
    """Add or update the row of a judge in the database; return the judge's number."""
    # All rows are fetched: DuckDB refuses other work on the connection while a result is unfinished.
    rows = connection.execute("SELECT judge_ix, family, spec_json FROM judges WHERE judge = ?", [judge]).fetchall()
    if rows:
        ((ordinal, *known),) = rows
        if known != [family, spec_json]:
            connection.execute(
                "UPDATE judges SET family = ?, spec_json = ? WHERE judge = ?", [family, spec_json, judge]
            )
        return int(ordinal)
    ((ordinal,),) = connection.execute("SELECT coalesce(max(judge_ix), -1) + 1 FROM judges").fetchall()
    connection.execute("INSERT INTO judges VALUES (?, ?, ?, ?)", [ordinal, judge, family, spec_json])
    return int(ordinal)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    connection.register("incoming", rows)
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")
    connection.unregister("incoming")
