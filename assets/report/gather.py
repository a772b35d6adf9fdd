"""Function that collects a page's data from the stored results."""

import logging
from dataclasses import asdict, replace

from assets.fit.documents import StructureDocument
from assets.fit.kept import read_answers, read_fitted, read_moments
from assets.fit.stages import fit_code, recommended, result_code
from assets.publication.differences import difference, reasons
from assets.publication.fit_versions import published_before
from assets.report.assemble import completed
from assets.report.data import Changes, FitVersionShown, ReportData
from assets.results.documents import FactorsDocument, SystemsDocument
from assets.results.gold import panel_items
from assets.versions import settings_version, source_version
from assets.workspace import Workspace
from care_ops.admission import means_not_asked
from care_ops.errors import WarehouseError
from care_ops.records import Evaluation, Intervals
from care_ops.results.verdict import minute_of
from warehouse.fits import FitVersion
from warehouse.matrix import read_admission

_log = logging.getLogger(__name__)


def gather(workspace: Workspace, testset: str) -> ReportData:
    """Read the data of a test set's page from stored results; raise ``FitError`` if the panel is newer than the fit."""
    folder, labels = workspace.fit_folder(testset), workspace.labels_of(testset)
    scores, fit = read_fitted(folder)
    with workspace.warehouse.reader() as connection:
        checks = read_admission(connection, testset)
    aggregates = read_answers(workspace, testset, scores, fit, recommended(fit.by_aggregator))
    log, kept = workspace.fits.publications(testset), workspace.fits.find_fit_version(testset, fit.fit_version)
    shown = FitVersionShown(fit.fit_version, log[-1].fit_version if log else None, kept.made_at if kept else "")
    items = panel_items(scores, workspace.parts.read_gold(testset), labels)
    data = ReportData(
        title=testset,
        description=workspace.testset(testset).description,
        scores=scores,
        aggregates=aggregates,
        failures=fit.failures,
        checks=checks,
        evaluations=workspace.fits.find_annotations(testset, fit.by_aggregator, Evaluation),
        gold=items.gold,
        responses=items.responses,
        factors=folder.read(FactorsDocument),
        systems=folder.read(SystemsDocument),
        labels_seen=len(labels),
        intervals=workspace.fits.find_annotations(testset, fit.by_aggregator, Intervals),
        fit_version=shown,
        made_at=minute_of(shown.made_at),
        changes=None if kept is None else _changes(workspace, kept),
        not_asked=means_not_asked(workspace.admission_of(testset), scores.values),
    )
    return completed(
        data,
        read_moments(folder),
        workspace.fit_config(testset),
        {
            "testset": testset,
            "source": source_version(workspace, testset),
            "settings": settings_version(workspace, testset),
            "panel": scores.fingerprint(),
            "code": {"fit": fit_code(), "report": result_code()},
            "seed": workspace.fit.seed,
            "structure": asdict(folder.read(StructureDocument)),
            "fit_ids": fit.by_aggregator,
            "fit_version": shown.id,
            "published": shown.published,
        },
    )


def _changes(workspace: Workspace, after: FitVersion) -> Changes | None:
    testset = after.testset
    before = published_before(workspace, testset, after.fit_version)
    if before is None:
        return None
    changes = Changes(before.fit_version, minute_of(before.made_at), reasons(before, after))
    name = recommended(after.fits)
    if name not in before.fits:
        return changes
    try:
        moved = difference(workspace, before, after, name)
    except WarehouseError as error:
        _log.warning("%s: the page omits the changes since the last fit (%s)", testset, error)
        return changes
    return replace(changes, why=moved.why, moved=moved, moves=moved.moves())
