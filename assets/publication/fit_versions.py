"""Functions that list, compare, publish and pin stored fit versions, and score new items with a pinned version."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assets.fit.documents import FitDocument
from assets.fit.stages import recommended
from assets.publication.differences import kept_fit, reasons
from assets.publication.documents import OF_THE_FIT, ReviewDocument
from assets.workspace import Workspace
from care_ops.errors import InputError
from care_ops.frozen import FAITHFUL, Frozen
from care_ops.records import Evaluation
from care_ops.results.verdict import minute_of
from warehouse.fits import FitVersion, Publication
from warehouse.matrix import read_scores

_log = logging.getLogger(__name__)


def find(workspace: Workspace, fit_version: str) -> FitVersion:
    """Find a fit version by its id, the beginning of its id, or the id of one of its fits.

    Raises ``InputError`` unless exactly one version matches.
    """
    candidates = {
        kept.fit_version: kept
        for testset in workspace.testsets
        for kept in workspace.fits.fit_versions(testset)
        if kept.fit_version.startswith(fit_version) or fit_version in kept.fits.values()
    }
    if len(candidates) != 1:
        matches = f"{len(candidates)} stored fits" if candidates else "no stored fit"
        raise InputError(f"the id {fit_version!r} matches {matches}; give a full id from `care fits list TESTSET`")
    return next(iter(candidates.values()))


def latest(workspace: Workspace, testset: str) -> FitVersion | None:
    """Return the version of a test set's current fit; None if there is no fit."""
    now = workspace.fit_folder(testset).find(FitDocument)
    found = None if now is None else workspace.fits.find_fit_version(testset, now.fit_version)
    return found or next(reversed(workspace.fits.fit_versions(testset)), None)


@dataclass(frozen=True)
class BlockedFit:
    """Blocked latest fit of a test set, and the fit that is published instead.

    Attributes
    ----------
    messages : tuple of str
        Messages of the checks that block the latest fit.
    published : FitVersion or None
        Published fit version; None if no fit was published yet.
    lacks_scores : bool
        Whether the fit is blocked because more scores are missing than before.
    """

    fit_version: str
    made_at: str
    messages: tuple[str, ...]
    published: FitVersion | None
    lacks_scores: bool

    def reading(self) -> str:
        """Return a sentence that names the published fit."""
        if self.published is None:
            return "Nothing is published yet."
        return f"The published fit is {self.published.fit_version}, built {minute_of(self.published.made_at)}."


def blocked_fit(workspace: Workspace, testset: str) -> BlockedFit | None:
    """Return the latest fit if a check blocks it and nobody has published it; otherwise return None.

    While another fit is pinned, only failed checks of the inputs block the latest fit.
    """
    review = workspace.fit_folder(testset).find(ReviewDocument)
    if review is None or review.state != "held back":
        return None
    published, waiting = workspace.fits.published(testset), workspace.fits.find_fit_version(testset, review.fit_version)
    blocking = [finding for finding in review.findings if finding.blocks]
    aside = published is not None and published[0].pinned and {finding.check for finding in blocking} <= OF_THE_FIT
    if aside or (published is not None and published[1].fit_version == review.fit_version):
        return None
    message = tuple(finding.message for finding in blocking)
    lacks = any(finding.check == "missing_scores" for finding in blocking)
    made_at, read = waiting.made_at if waiting else "", published[1] if published is not None else None
    return BlockedFit(review.fit_version, made_at, message, read, lacks)


def published_before(workspace: Workspace, testset: str, fit_version: str) -> FitVersion | None:
    """Return the version published before ``fit_version``; the last published one if ``fit_version`` is unpublished."""
    log = [publication.fit_version for publication in workspace.fits.publications(testset)]
    if fit_version in log:
        log = log[: len(log) - 1 - log[::-1].index(fit_version)]
    earlier = (workspace.fits.find_fit_version(testset, other) for other in reversed(log) if other != fit_version)
    return next((kept for kept in earlier if kept is not None), None)


def history(workspace: Workspace, testset: str) -> list[dict[str, Any]]:
    """List the stored versions of a test set's fit, newest first, each with the changes since the previous version."""
    rows: list[dict[str, Any]] = []
    before: FitVersion | None = None
    log, waiting = workspace.fits.publications(testset), blocked_fit(workspace, testset)
    states = {publication.fit_version: "was published" for publication in log}
    if log:
        states[log[-1].fit_version] = "pinned" if log[-1].pinned else "published"
    if waiting is not None:
        states[waiting.fit_version] = "held back"
    for version in workspace.fits.fit_versions(workspace.testset(testset).name):
        if version.fit_version not in states:
            reviewed = workspace.fits.find_annotation(testset, version.fit_version, ReviewDocument)
            was_held = reviewed is not None and reviewed.state == "held back"
            states[version.fit_version] = "was held back" if was_held else ""
        name = recommended(version.fits)
        evaluation = workspace.fits.find_annotation(testset, version.fits[name], Evaluation) if name else None
        row = {
            "fit_version": version.fit_version,
            "made at": version.made_at[:19],
            "state": states[version.fit_version],
            "judges": len(version.inputs.admitted),
            "order": None if evaluation is None else evaluation.order,
            "why": "; ".join(reasons(before, version)) if before else "the first fit",
        }
        rows.append(row)
        before = version
    return rows[::-1]


def publish(workspace: Workspace, publication: Publication, rebuilt: Collection[str] = ()) -> None:
    """Record in files and in the database that a fit version is published; reload the fits in ``rebuilt``."""
    workspace.fits.publish(publication)
    _log.info("%s: fit %s was published by %s", publication.testset, publication.fit_version, publication.published_by)
    follow_files(workspace, publication.testset, rebuilt)


def follow_files(workspace: Workspace, testset: str, rebuilt: Collection[str] = ()) -> None:
    """Load a test set's fits from files if the database lacks them; always reload the fits in ``rebuilt``."""
    from warehouse.fit_rows import load_fits

    with workspace.warehouse.writer() as connection:
        load_fits(connection, workspace.fits, testset, rebuilt)


def promote(workspace: Workspace, version: FitVersion, *, by: str, why: str, pinned: bool) -> None:
    """Publish a stored fit version at a person's request, and load the version's rows into the database again.

    Raises ``WarehouseError``, and publishes nothing, if one of the version's fits is damaged or missing.
    """
    for fit_id in version.fits.values():
        workspace.fits.read_fit(version.testset, fit_id)
    publish(workspace, Publication(version.testset, version.fit_version, by, why, pinned), version.fits.values())


def evaluate_first(workspace: Workspace, version: FitVersion) -> None:
    """Evaluate the latest fit version before publication, unless its fits are already evaluated."""
    from assets.results.evaluation import evaluate_latest

    find, testset = workspace.fits.find_annotation, version.testset
    if any(find(testset, fit_id, Evaluation) is None for fit_id in version.fits.values()):
        evaluate_latest(workspace, testset)


def accept(workspace: Workspace, testset: str, why: str) -> FitVersion:
    """Publish the latest fit version at a person's request; raise ``InputError`` if there is no fit."""
    version = latest(workspace, testset)
    if version is None:
        raise InputError(f"test set {testset!r} has no fit yet; run `care run` first")
    evaluate_first(workspace, version)
    promote(workspace, version, by="accept", why=why, pinned=False)
    return version


def rollback(workspace: Workspace, testset: str, why: str) -> FitVersion:
    """Publish and pin the version that was published before the current one; raise ``InputError`` if there is none."""
    log = workspace.fits.publications(testset)
    version = published_before(workspace, testset, log[-1].fit_version) if log else None
    if version is None:
        raise InputError(
            f"test set {testset!r} has no earlier published fit; run `care fits list {testset}`, then "
            "`care fits promote FIT_VERSION`"
        )
    promote(workspace, version, by="rollback", why=why, pinned=True)
    return version


def extend(workspace: Workspace, version: FitVersion) -> int:
    """Score items that were added after a pinned fit, with that fit's aggregators; return the number of items.

    Only items of the latest panel are scored. An aggregator is used only if a function of an item's own scores
    closely reproduces its estimates.
    """
    testset = version.testset
    with workspace.warehouse.reader() as connection:
        read = read_scores(connection, testset, set(workspace.judges_of(testset)))
    judged, added = set(workspace.fit_folder(testset).read_panel().item_ids), 0
    for aggregator in version.fits:
        fit = kept_fit(workspace, version, aggregator)
        frozen = workspace.fits.find_annotation(testset, fit.fit_id, Frozen)
        known = set(fit.item_ids)
        fresh = np.array([item in judged and item not in known for item in read.item_ids])
        if not fresh.any() or frozen is None or frozen.fidelity < FAITHFUL:
            continue
        new = read.select_items(fresh)
        item_ids = (*fit.item_ids, *new.item_ids)
        answer = fit.in_order(item_ids)
        estimate = np.concatenate([fit.answer.estimate, frozen.apply(new)])
        longer = replace(fit, item_ids=item_ids, answer=replace(answer, estimate=estimate))
        workspace.fits.write_fit(longer)
        follow_files(workspace, testset, [fit.fit_id])
        added = max(added, len(new.item_ids))
    return added
