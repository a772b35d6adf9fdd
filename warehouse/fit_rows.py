"""Fits, editions and publications as rows of the database, each made anew from the files, which are the record."""

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb

from care_ops.errors import WarehouseError
from care_ops.records import Array, Evaluation, Intervals
from warehouse.database import null_if_nan
from warehouse.documents import document_of
from warehouse.fits import Edition, FitStore, table_of

_log = logging.getLogger(__name__)


def load_fits(connection: duckdb.DuckDBPyConnection, store: FitStore, testset: str) -> None:
    """Load a test set's fits with what was found out about them, its editions and its publications.

    What was damaged or is gone is left out. The latest edition is left out as a whole where anything of it is lacking:
    it is then missing, and `care run` makes it again.
    """
    editions = store.editions(testset)
    lacking: set[str] = set()
    for fit_id in sorted({fit_id for e in editions for fit_id in e.fits.values()}):
        try:
            load_fit(connection, store, testset, fit_id)
        except WarehouseError as error:
            _log.warning("%s", error)
            lacking.add(fit_id)
    if editions and lacking & set(editions[-1].fits.values()):
        editions.pop()
    for edition in editions:
        _load_edition(connection, edition)
    load_publications(connection, store, testset)


def load_edition(connection: duckdb.DuckDBPyConnection, store: FitStore, edition: Edition) -> None:
    """Load an edition and its fits.

    Raises ``WarehouseError`` where a fit is damaged or gone.
    """
    for fit_id in sorted(set(edition.fits.values())):
        load_fit(connection, store, edition.testset, fit_id)
    _load_edition(connection, edition)


def _load_edition(connection: duckdb.DuckDBPyConnection, edition: Edition) -> None:
    drop_edition(connection, edition.edition)
    inputs = json.dumps(document_of(edition.inputs))
    _insert(connection, "editions", [[edition.edition, edition.testset, edition.made_at, inputs]])
    _insert(connection, "edition_fits", [[edition.edition, *fit] for fit in edition.fits.items()])


def drop_edition(connection: duckdb.DuckDBPyConnection, edition: str) -> None:
    """Remove an edition's rows, not its fits'."""
    for table in ("editions", "edition_fits"):
        connection.execute(f"DELETE FROM {table} WHERE edition = ?", [edition])


def drop_loose_fits(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove fits that no edition has."""
    for table in ("fits", "weights", "aggregates", "evaluations"):
        connection.execute(f"DELETE FROM {table} WHERE fit_id NOT IN (SELECT fit_id FROM edition_fits)")


def load_publications(connection: duckdb.DuckDBPyConnection, store: FitStore, testset: str) -> None:
    """Make a test set's rows of publications those of the log."""
    connection.execute("DELETE FROM publications WHERE testset = ?", [testset])
    rows = [
        [p.testset, p.edition, p.published_at, p.published_by, p.why, p.pinned] for p in store.publications(testset)
    ]
    _insert(connection, "publications", rows)


def store_verdict(connection: duckdb.DuckDBPyConnection, testset: str, verdict: Mapping[str, Any]) -> None:
    """Store the verdict on a test set, as plain values (``care_ops.results.verdict.Verdict``), in place of the last."""
    connection.execute("DELETE FROM verdicts WHERE testset = ?", [testset])
    head = [verdict["state"], verdict["sentence"], verdict["edition"], verdict["made_at"] or None]
    _insert(connection, "verdicts", [[testset, *head, json.dumps(verdict)]])


def load_fit(connection: duckdb.DuckDBPyConnection, store: FitStore, testset: str, fit_id: str) -> None:
    """Load a fit with what was found out about it.

    Raises ``WarehouseError`` where a file of it is damaged, or it is gone.
    """
    fit = store.read_fit(testset, fit_id)
    for table in ("fits", "aggregates"):
        connection.execute(f"DELETE FROM {table} WHERE fit_id = ?", [fit_id])
    answer, certificate = fit.answer, fit.answer.details.get("certificate")
    head = [fit_id, testset, answer.name, fit.inputs_fingerprint, answer.labels_used, answer.threshold]
    said = [None if certificate is None else json.dumps(certificate), json.dumps(answer.details)]
    _insert(connection, "fits", [[*head, *said, fit.code_version, fit.fitted_at]])
    connection.register("incoming", table_of(fit.item_ids, answer))
    try:
        connection.execute(
            """
            INSERT INTO aggregates
            SELECT ?, i.item_ix, n.estimate, n.sd, n.p_quality
            FROM incoming n JOIN items i ON i.item_id = n.item_id AND i.testset = ?
            """,
            [fit_id, testset],
        )
    finally:
        connection.unregister("incoming")
    load_findings(connection, store, testset, [fit_id])


def load_findings(
    connection: duckdb.DuckDBPyConnection, store: FitStore, testset: str, fit_ids: Collection[str]
) -> None:
    """Load the weights of fits with their intervals, and their evaluations; raises as ``load_fit`` does."""
    for fit_id in fit_ids:
        fit, found = store.read_fit(testset, fit_id), store.read_annotation(testset, fit_id, Intervals)
        evaluation = store.read_annotation(testset, fit_id, Evaluation)
        for table in ("weights", "evaluations"):
            connection.execute(f"DELETE FROM {table} WHERE fit_id = ?", [fit_id])
        ends = (None,) * 4 if found is None else (found.lo, found.hi, found.loadings_lo, found.loadings_hi)
        rows: list[list[Any]] = []
        for j, judge in enumerate(fit.judges):
            lo, hi, *of_loadings = (_of_judge(values, j) for values in ends)
            weight, loadings = _of_judge(fit.answer.weights, j), _of_judge(fit.answer.loadings, j)
            rows.append([fit_id, judge, weight, lo, hi, loadings, *of_loadings])
        _insert(connection, "weights", rows)
        if evaluation is not None:
            row = {"fit_id": fit_id, "labels_used": fit.answer.labels_used, **vars(evaluation)}
            _insert(connection, f"evaluations ({', '.join(row)})", [list(row.values())])


def _of_judge(values: Array | None, j: int) -> Any:
    """What an array says of the judge at place ``j``: a number or a list of some, null where it is not known."""
    if values is None:
        return None
    if values.ndim > 1:
        return [null_if_nan(number) for number in values[j].tolist()]
    return null_if_nan(float(values[j]))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    for row in rows:
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
