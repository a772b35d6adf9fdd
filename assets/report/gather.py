"""The record of a page, read back from what the stages of a night stored.

Belongs here: from files and warehouse to what ``assemble`` is given. Belongs elsewhere: the record itself (``data``),
HTML.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from assets.code import code_version
from assets.fit.kept import read_fitted, read_moments, read_responses, read_structure
from assets.fit.stages import fit_code, recommended
from assets.publication.editions import difference, order_of, reasons
from assets.report.assemble import FittedPanel, PanelResults, assemble, panel_items
from assets.report.data import NOT_LEFT_OUT, Changes, EditionShown, ItemMove, ReportData, WeightMove
from assets.report.verdict_facts import fit_facts
from assets.results.documents import DroppingDocument, FactorsDocument, SystemsDocument
from assets.results.gold import aligned
from assets.versions import settings_version, source_version
from care_ops.admission import JudgeCheck
from care_ops.aggregators.base import Aggregate
from care_ops.errors import WarehouseError
from care_ops.metrics import Evaluation
from care_ops.results.verdict import minute_of
from warehouse.matrix import read_admission, read_fit, read_item_columns

if TYPE_CHECKING:
    import duckdb

    from assets.workspace import Workspace
    from care_ops.results.fit_facts import FitFacts
    from care_ops.scores import Array, ScoreMatrix

_log = logging.getLogger(__name__)


def gather(workspace: Workspace, testset: str) -> ReportData:
    """All that a page shows, read back from what the stages stored; raises as ``read_fitted`` does."""
    folder, anchors = workspace.fit_folder(testset), workspace.anchors_of(testset)
    scores, fit = read_fitted(folder)
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, testset)
        checks = _checks(connection, testset)
        aggregates = {name: _aggregate(connection, fit_id, name, scores) for name, fit_id in fit.fit_ids}
        evaluations = {name: _evaluation(connection, fit_id) for name, fit_id in fit.fit_ids}
        intervals = {name: _intervals(connection, fit_id, scores) for name, fit_id in fit.fit_ids}
    structure, structure_document = read_structure(folder)
    config, not_asked = workspace.fit_config(testset), workspace.admission.absent == "not_asked"
    edition, made_at = _edition(workspace, testset, fit.edition)
    left_out = DroppingDocument.find(folder)
    return assemble(
        title=testset,
        description=workspace.testset(testset).description,
        fitted=FittedPanel(
            scores, read_moments(folder), aggregates, fit.failures, checks, structure, config, not_asked
        ),
        items=panel_items(scores, columns, anchors),
        results=PanelResults(
            FactorsDocument.read(folder),
            SystemsDocument.read(folder),
            {name: evaluation for name, evaluation in evaluations.items() if evaluation is not None},
            {name: bounds for name, bounds in intervals.items() if bounds is not None},
            _changes(workspace, testset, edition),
            read_responses(folder),
            NOT_LEFT_OUT if left_out is None else left_out.dropping,
        ),
        anchors=anchors,
        provenance={
            "testset": testset,
            "source": source_version(workspace, testset),
            "settings": settings_version(workspace, testset),
            "panel": scores.fingerprint(),
            "code": {"fit": fit_code(), "report": code_version("assets.report.report", "care_ops")},
            "seed": workspace.fit.seed,
            "structure": asdict(structure_document),
            "fit_ids": fit.by_aggregator,
            "edition": edition.edition,
            "published": edition.published,
        },
        edition=edition,
        made_at=made_at,
    )


def gather_facts(workspace: Workspace, testset: str, data: ReportData) -> FitFacts:
    """What the fit of a page says of itself."""
    edition = "" if data.edition is None else data.edition.edition
    made_at = next((kept.made_at for kept in workspace.fits.editions(testset) if kept.edition == edition), "")
    return fit_facts(
        data,
        workspace.fit_config(testset),
        workspace.anchors_of(testset),
        edition=edition,
        made_at=made_at,
        declared=workspace.review.declared,
    )


def _edition(workspace: Workspace, testset: str, edition: str) -> tuple[EditionShown, str]:
    """The edition that the page is of, what is published, what was published before, and when the edition was made."""
    log = workspace.fits.publications(testset)
    places = [place for place, publication in enumerate(log) if publication.edition == edition]
    earlier = log[: places[-1]] if places else log
    before = [publication.edition for publication in earlier if publication.edition != edition]
    made_at = next((kept.made_at for kept in workspace.fits.editions(testset) if kept.edition == edition), "")
    shown = EditionShown(edition, log[-1].edition if log else None, before[-1] if before else None)
    return shown, minute_of(made_at)


def _changes(workspace: Workspace, testset: str, shown: EditionShown) -> Changes | None:
    """How the edition of a page differs from the one that was published before it; None where that is not kept."""
    kept = {edition.edition: edition for edition in workspace.fits.editions(testset)}
    before, after = kept.get(shown.previous or ""), kept.get(shown.edition)
    if before is None or after is None:
        return None
    changes = Changes(before.edition, minute_of(before.made_at), reasons(before, after))
    name = recommended(after.fits)
    if name not in before.fits:
        return changes
    try:
        moved = difference(workspace, before, after, name)
    except WarehouseError as error:
        _log.warning("%s: the page does not say what has moved: %s", testset, error)
        return changes
    return replace(
        changes,
        judges=[WeightMove(**row) for row in moved.judges],
        items=[ItemMove(**row) for row in moved.items],
        order=moved.order,
        gold_before=order_of(workspace, before, name),
        gold_after=order_of(workspace, after, name),
    )


def _aggregate(connection: duckdb.DuckDBPyConnection, fit_id: str, name: str, scores: ScoreMatrix) -> Aggregate:
    """A stored fit in the order of the panel's items and judges."""
    stored = read_fit(connection, fit_id)
    weights = {
        judge: (weight, loadings)
        for judge, weight, loadings in connection.execute(
            "SELECT judge, weight, loadings FROM weights WHERE fit_id = ?", [fit_id]
        ).fetchall()
    }
    per_judge = [weights[judge] for judge in scores.judges]
    return Aggregate(
        name,
        aligned(scores.item_ids, stored.estimates),
        stored.threshold,
        sd=_if_any(aligned(scores.item_ids, stored.sds)),
        p_quality=_if_any(aligned(scores.item_ids, stored.p_quality)),
        weights=None if per_judge[0][0] is None else np.array([w for w, _ in per_judge]),
        loadings=None if per_judge[0][1] is None else np.array([list(x) for _, x in per_judge]),
        labels_used=stored.labels_used,
        details=json.loads(stored.details),
    )


def _if_any(values: Array) -> Array | None:
    """The values, or None where none of them is known."""
    return None if np.isnan(values).all() else values


def _intervals(connection: duckdb.DuckDBPyConnection, fit_id: str, scores: ScoreMatrix) -> tuple[Array, Array] | None:
    """Intervals of a fit's weights in the order of the judges; None where it has none."""
    rows = connection.execute("SELECT judge, lo, hi FROM weights WHERE fit_id = ?", [fit_id]).fetchall()
    if all(lo is None for _, lo, _ in rows):
        return None
    lowest, highest = {judge: lo for judge, lo, _ in rows}, {judge: hi for judge, _, hi in rows}
    return aligned(scores.judges, lowest), aligned(scores.judges, highest)


def _checks(connection: duckdb.DuckDBPyConnection, testset: str) -> list[JudgeCheck]:
    """What admission found about every judge of a test set."""
    checks: list[JudgeCheck] = []
    for record in read_admission(connection, testset):
        agreement = float("nan") if record.agreement is None else record.agreement
        checks.append(JudgeCheck(**asdict(replace(record, agreement=agreement))))
    return checks


def _evaluation(connection: duckdb.DuckDBPyConnection, fit_id: str) -> Evaluation | None:
    """The stored evaluation of a fit, or None."""
    metrics = ", ".join(field.name for field in fields(Evaluation))
    row = connection.execute(f"SELECT {metrics} FROM evaluations WHERE fit_id = ?", [fit_id]).fetchone()
    return None if row is None else Evaluation(*row)
