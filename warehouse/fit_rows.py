"""Functions that load fits, fit versions and publications from files into the database."""

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from care_ops.errors import WarehouseError
from care_ops.records import Evaluation, Intervals
from warehouse.documents import document_of, plain
from warehouse.fits import FitRecord, FitStore, table_of

_log = logging.getLogger(__name__)
_Lookup = Callable[[tuple[str, ...]], pa.Table]


def load_fits(
    connection: duckdb.DuckDBPyConnection,
    store: FitStore,
    testset: str,
    again: Collection[str] = (),
    fits: Mapping[str, FitRecord] = MappingProxyType({}),
) -> None:
    """Update a test set's fits, fit versions and publications in the database from the files of ``store``.

    Damaged and missing files are left out. If a fit of the latest fit version is damaged or missing, the whole version
    is left out, and `care run` builds it again. A fit that the database already contains is reloaded only if its id is
    in ``again`` or ``fits``. ``fits`` maps ids to fits in memory, whose files are not read.
    """
    versions = store.fit_versions(testset)
    wanted, known = {fit_id for e in versions for fit_id in e.fits.values()}, _known(connection, "fit_id", testset)
    rebuilt = {*again, *fits}
    for fit_id in known - wanted | known & rebuilt:
        _drop(connection, ("fits", "weights", "aggregates", "evaluations"), "fit_id", fit_id)
    lacking: set[str] = set()
    numbers = lru_cache(maxsize=1)(partial(_item_numbers, connection, testset))  # most fits have the same items
    for fit_id in sorted(wanted - known | wanted & rebuilt):
        try:
            _load_fit(connection, store, fits.get(fit_id) or store.read_fit(testset, fit_id), numbers)
        except WarehouseError as error:
            _log.warning("%s", error)
            lacking.add(fit_id)
    written = {e.fit_version for e in versions if e is versions[-1] or set(again) & set(e.fits.values())}
    if versions and lacking & set(versions[-1].fits.values()):
        versions.pop()
    stored, kept = _known(connection, "fit_version", testset), {version.fit_version: version for version in versions}
    for version in stored - kept.keys() | stored & written:
        _drop(connection, ("fit_versions", "fit_version_fits"), "fit_version", version)
    for version in (kept[name] for name in kept if name not in stored or name in written):
        inputs = json.dumps(document_of(version.inputs))
        _insert(connection, "fit_versions", [[version.fit_version, version.testset, version.made_at, inputs]])
        _insert(connection, "fit_version_fits", [[version.fit_version, *fit] for fit in version.fits.items()])
    _drop(connection, ("publications",), "testset", testset)
    log = store.publications(testset)
    rows = [[p.testset, p.fit_version, p.published_at, p.published_by, p.why, p.pinned] for p in log]
    _insert(connection, "publications", rows)


def _known(connection: duckdb.DuckDBPyConnection, name: str, testset: str) -> set[str]:
    rows = connection.execute(f"SELECT {name} FROM {name.removesuffix('_id')}s WHERE testset = ?", [testset])
    return {found for (found,) in rows.fetchall()}


def _drop(connection: duckdb.DuckDBPyConnection, tables: Collection[str], name: str, value: str) -> None:
    for table in tables:
        connection.execute(f"DELETE FROM {table} WHERE {name} = ?", [value])


def leave_to(connection: duckdb.DuckDBPyConnection, testsets: Collection[str]) -> None:
    """Hide all test sets of the database except ``testsets``; loading the items of a test set shows it again."""
    for table in ("verdicts", "testsets"):
        connection.execute(f"DELETE FROM {table} WHERE NOT list_contains(?, testset)", [list(testsets)])


def store_verdict(connection: duckdb.DuckDBPyConnection, testset: str, verdict: Mapping[str, Any]) -> None:
    """Replace the stored verdict of a test set; ``verdict`` has the fields of ``care_ops.results.verdict.Verdict``."""
    _drop(connection, ("verdicts",), "testset", testset)
    head = [verdict["state"], verdict["sentence"], verdict["fit_version"], verdict["made_at"] or None]
    _insert(connection, "verdicts", [[testset, *head, json.dumps(verdict)]])


def _item_numbers(connection: duckdb.DuckDBPyConnection, testset: str, item_ids: tuple[str, ...]) -> pa.Table:
    """Look up items in the database; return the columns ``row`` (position in ``item_ids``) and ``item_ix``."""
    ids = pa.table({"item_id": pa.array(item_ids, pa.string()), "row": np.arange(len(item_ids))})
    sql = "SELECT n.row, i.item_ix FROM ids n JOIN items i USING (item_id) WHERE i.testset = ? ORDER BY n.row"
    connection.register("ids", ids)
    joined = connection.sql(sql, params=[testset]).to_arrow_table()
    connection.unregister("ids")
    return joined


def _load_fit(connection: duckdb.DuckDBPyConnection, store: FitStore, fit: FitRecord, numbers: _Lookup) -> None:
    fit_id, testset = fit.fit_id, fit.testset
    intervals = store.find_annotation(testset, fit_id, Intervals)
    evaluation = store.find_annotation(testset, fit_id, Evaluation)
    answer, certificate = fit.answer, fit.answer.details.get("certificate")
    head = [fit_id, testset, answer.name, fit.inputs_fingerprint, answer.labels_used, answer.threshold]
    details = [None if certificate is None else json.dumps(certificate), json.dumps(answer.details)]
    _insert(connection, "fits", [[*head, *details, fit.code_version, fit.fitted_at]])
    joined, table = numbers(fit.item_ids), table_of(fit.item_ids, answer).drop_columns("item_id")
    connection.register("incoming", table.take(joined["row"]).append_column("item_ix", joined["item_ix"]))
    connection.execute("INSERT INTO aggregates SELECT ?, item_ix, estimate, sd, p_quality FROM incoming", [fit_id])
    connection.unregister("incoming")
    columns = [plain(values) or [None] * len(fit.judges) for values in (answer.weights, answer.loadings)]
    rows = [[fit_id, *row] for row in zip(fit.judges, *columns, strict=True)]
    _insert(connection, "weights (fit_id, judge, weight, loadings)", rows)
    if intervals is not None:
        load_intervals(connection, fit_id, intervals)
    if evaluation is not None:
        load_evaluation(connection, fit_id, evaluation)


def load_intervals(connection: duckdb.DuckDBPyConnection, fit_id: str, intervals: Intervals) -> None:
    """Store the confidence intervals of a fit's weights and loadings in the database."""
    ends = (intervals.lo, intervals.hi, intervals.loadings_lo, intervals.loadings_hi)
    columns = [plain(values) or [None] * len(intervals.judges) for values in ends]
    connection.executemany(
        "UPDATE weights SET lo = ?, hi = ?, loadings_lo = ?, loadings_hi = ? WHERE fit_id = ? AND judge = ?",
        [[*row, fit_id, judge] for judge, *row in zip(intervals.judges, *columns, strict=True)],
    )


def load_evaluation(connection: duckdb.DuckDBPyConnection, fit_id: str, evaluation: Evaluation) -> None:
    """Replace the evaluation of a fit in the database."""
    _drop(connection, ("evaluations",), "fit_id", fit_id)
    columns = list(vars(evaluation))
    connection.execute(
        f"INSERT INTO evaluations (fit_id, labels_used, {', '.join(columns)}) "
        f"SELECT fit_id, labels_used{', ?' * len(columns)} FROM fits WHERE fit_id = ?",
        [*vars(evaluation).values(), fit_id],
    )


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    for row in rows:
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
