"""Fits, editions and publications as rows of the database.

Belongs here: writing, replacing and removing those rows, also from the files that are the record. Belongs elsewhere:
the files (``fits``).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import duckdb
import pyarrow as pa

from care_ops.errors import WarehouseError
from warehouse.database import null_if_nan
from warehouse.documents import document_of
from warehouse.fits import Edition, EvaluationRecord, FitRecord, FitStore, Intervals, Publication

_log = logging.getLogger(__name__)


def load_fits(connection: duckdb.DuckDBPyConnection, store: FitStore, testset: str) -> None:
    """Rebuild a test set's rows of fits, evaluations, intervals, editions and publications from the files.

    What was damaged or is gone is left out. The latest edition is left out as a whole where anything of it is lacking:
    it is then missing, and `care run` makes it again.
    """
    editions = store.editions(testset)
    lacking: set[str] = set()
    for fit_id in sorted({fit_id for e in editions for fit_id in e.fits.values()}):
        try:
            _load_fit(connection, store, testset, fit_id)
        except WarehouseError as error:
            _log.warning("%s", error)
            lacking.add(fit_id)
    if editions and lacking & set(editions[-1].fits.values()):
        editions.pop()
    for edition in editions:
        store_edition(connection, edition)
    load_publications(connection, store, testset)


def load_edition(connection: duckdb.DuckDBPyConnection, store: FitStore, edition: Edition) -> None:
    """Store the rows of an edition, of its fits and of what was found out about them anew, from the files.

    Raises
    ------
    WarehouseError
        A fit is damaged or gone.
    """
    for fit_id in sorted(set(edition.fits.values())):
        _load_fit(connection, store, edition.testset, fit_id)
    store_edition(connection, edition)


def _load_fit(connection: duckdb.DuckDBPyConnection, store: FitStore, testset: str, fit_id: str) -> None:
    store_fit(connection, store.read_fit(testset, fit_id))
    evaluation = store.read_annotation(testset, fit_id, EvaluationRecord)
    if evaluation is not None:
        store_evaluation(connection, fit_id, evaluation)
    intervals = store.read_annotation(testset, fit_id, Intervals)
    if intervals is not None:
        store_intervals(connection, fit_id, intervals)


def store_edition(connection: duckdb.DuckDBPyConnection, edition: Edition) -> None:
    """Store an edition's rows; the same again replaces itself."""
    drop_edition(connection, edition.edition)
    connection.execute(
        "INSERT INTO editions VALUES (?, ?, ?, ?)",
        [edition.edition, edition.testset, edition.made_at, json.dumps(document_of(edition.inputs))],
    )
    for aggregator, fit_id in edition.fits.items():
        connection.execute("INSERT INTO edition_fits VALUES (?, ?, ?)", [edition.edition, aggregator, fit_id])


def drop_edition(connection: duckdb.DuckDBPyConnection, edition: str) -> None:
    """Remove an edition's rows, not its fits'."""
    for table in ("editions", "edition_fits"):
        connection.execute(f"DELETE FROM {table} WHERE edition = ?", [edition])


def drop_loose_fits(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove fits that no edition has."""
    for table in ("fits", "weights", "aggregates", "evaluations"):
        connection.execute(f"DELETE FROM {table} WHERE fit_id NOT IN (SELECT fit_id FROM edition_fits)")


def store_publication(connection: duckdb.DuckDBPyConnection, publication: Publication) -> None:
    """Store a publication's row."""
    connection.execute(
        "INSERT INTO publications VALUES (?, ?, ?, ?, ?, ?)",
        [
            publication.testset,
            publication.edition,
            publication.published_at,
            publication.published_by,
            publication.why,
            publication.pinned,
        ],
    )


def load_publications(connection: duckdb.DuckDBPyConnection, store: FitStore, testset: str) -> None:
    """Make a test set's rows of publications those of the log, which is the record."""
    connection.execute("DELETE FROM publications WHERE testset = ?", [testset])
    for publication in store.publications(testset):
        store_publication(connection, publication)


def store_verdict(connection: duckdb.DuckDBPyConnection, testset: str, verdict: Mapping[str, Any]) -> None:
    """Store the verdict on a test set, as plain values (``care_ops.results.verdict.Verdict``), in place of the last."""
    connection.execute("DELETE FROM verdicts WHERE testset = ?", [testset])
    head = [verdict["state"], verdict["sentence"], verdict["edition"], verdict["made_at"] or None]
    connection.execute("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?)", [testset, *head, json.dumps(verdict)])


def store_fit(connection: duckdb.DuckDBPyConnection, fit: FitRecord) -> None:
    """Store a fit; the same fit again replaces itself and becomes the latest. Its evaluation and intervals stay."""
    known = connection.execute("SELECT count(*) FROM weights WHERE fit_id = ?", [fit.fit_id]).fetchall() != [(0,)]
    for table in ("fits", "aggregates"):
        connection.execute(f"DELETE FROM {table} WHERE fit_id = ?", [fit.fit_id])
    connection.execute(
        "INSERT INTO fits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            fit.fit_id,
            fit.testset,
            fit.aggregator,
            fit.inputs_fingerprint,
            fit.labels_used,
            fit.threshold,
            fit.certificate,
            fit.details,
            fit.code_version,
            fit.fitted_at,
        ],
    )
    for judge, weight, loading in () if known else zip(fit.judges, fit.weights, fit.loadings, strict=True):
        connection.execute(
            "INSERT INTO weights (fit_id, judge, weight, loadings) VALUES (?, ?, ?, ?)",
            [fit.fit_id, judge, weight, loading],
        )
    incoming = pa.table(
        {
            "item_id": pa.array(fit.item_ids, pa.string()),
            "estimate": fit.estimate,
            "sd": fit.sd,
            "p_quality": fit.p_quality,
        }
    )
    connection.register("incoming", incoming)
    try:
        connection.execute(
            """
            INSERT INTO aggregates
            SELECT ?, i.item_ix, n.estimate, n.sd, n.p_quality
            FROM incoming n JOIN items i ON i.item_id = n.item_id AND i.testset = ?
            """,
            [fit.fit_id, fit.testset],
        )
    finally:
        connection.unregister("incoming")


def store_intervals(connection: duckdb.DuckDBPyConnection, fit_id: str, intervals: Intervals) -> None:
    """Put intervals beside the weights and loadings of one fit."""

    def row(values: Sequence[Sequence[float]] | None, j: int) -> list[float | None] | None:
        return None if values is None else [null_if_nan(x) for x in values[j]]

    for j, judge in enumerate(intervals.judges):
        loadings = [row(intervals.loadings_lo, j), row(intervals.loadings_hi, j)]
        connection.execute(
            "UPDATE weights SET lo = ?, hi = ?, loadings_lo = ?, loadings_hi = ? WHERE fit_id = ? AND judge = ?",
            [intervals.lo[j], intervals.hi[j], *loadings, fit_id, judge],
        )


def store_evaluation(connection: duckdb.DuckDBPyConnection, fit_id: str, evaluation: EvaluationRecord) -> None:
    """Replace the evaluation of one fit."""
    names = [column.name for column in fields(EvaluationRecord)]
    connection.execute("DELETE FROM evaluations WHERE fit_id = ?", [fit_id])
    connection.execute(
        f"INSERT INTO evaluations (fit_id, {', '.join(names)}) VALUES (?{', ?' * len(names)})",
        [fit_id, *(getattr(evaluation, name) for name in names)],
    )
