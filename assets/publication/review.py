"""Dagster asset ``review``: checks of the latest fit against the published fit, and publication of the latest fit.

The views ``latest_fits`` and ``latest_aggregates`` and the report show the published fit. If a blocking check fails,
Dagster skips ``report``, and the earlier fit stays published until a person accepts the latest fit
(``care fits accept``) or fixes the cause.
"""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.metadata import bullets, checked
from assets.partitions import TESTSETS
from assets.publication.checks import CHECKS, check_inputs, compare_estimates, read_best, result
from assets.publication.documents import OF_THE_FIT, CheckResult, PublicationState, ReviewDocument
from assets.workspace import Workspace
from care_ops.errors import WarehouseError

if TYPE_CHECKING:
    from warehouse.fits import FitRecord, FitVersion

_log = logging.getLogger(__name__)


@asset_of_testsets(
    deps=["aggregates", "gold"],
    kinds={"duckdb"},
    pool="warehouse_writer",
    # Other results of a run come first, because a published fit must be evaluated.
    op_tags={"dagster/priority": "-1"},
    check_specs=[
        dg.AssetCheckSpec(name, asset="review", description=description, partitions_def=TESTSETS, blocking=True)
        for name, description in CHECKS.items()
    ],
    description="Publishes the latest fit. If a blocking check fails, the earlier fit stays published.",
)
def review(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Check the latest fit of a test set, and publish the fit unless a check blocks it."""
    from assets.publication.fit_versions import blocked_fit

    testset = context.partition_key
    reviewed = (review_latest if context.selected_asset_keys else look)(workspace, testset)
    is_held = blocked_fit(workspace, testset) is not None
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{reviewed.state}-{reviewed.fit_version}"),
        metadata={
            "publication": reviewed.state,
            "findings": bullets(f"{f.check}: {f.message}" for f in reviewed.findings),
            "held_back": ", ".join(f.check for f in reviewed.findings if not f.passed) or "none",
        },
        check_results=[
            checked(f.check, f.message, passed=f.passed, blocks=f.blocks and is_held, **f.numbers)
            for f in reviewed.findings
        ],
    )


def review_latest(workspace: Workspace, testset: str) -> ReviewDocument:
    """Check the latest fit version and store the result; publish the version unless a check fails or another is pinned.

    A pinned version stays published. CARE scores new items with it, unless checks of the inputs fail.
    """
    from assets.publication.fit_versions import evaluate_first, extend, follow_files, publish
    from warehouse.fits import Publication

    document, version = look(workspace, testset), latest_fit_version(workspace, testset)
    published = workspace.fits.published(testset)
    blocking = {finding.check for finding in document.findings if finding.blocks}
    if published is not None and published[1].fit_version == version.fit_version:
        follow_files(workspace, testset)
    elif published is not None and published[0].pinned and blocking <= OF_THE_FIT:
        extend(workspace, published[1])
    elif document.state == "published":
        evaluate_first(workspace, version)
        publish(workspace, Publication(testset, version.fit_version, "review"))
    _log.info("%s: the review of fit %s: %s", testset, version.fit_version, document.state)
    workspace.fit_folder(testset).write(document)
    workspace.fits.annotate(testset, version.fit_version, document)  # for the list of versions
    return document


def look(workspace: Workspace, testset: str) -> ReviewDocument:
    """Run the checks on the latest fit version, without publishing or storing anything."""
    from assets.publication.fit_versions import published_before

    version, published = latest_fit_version(workspace, testset), workspace.fits.published(testset)
    if published is not None and published[1].fit_version == version.fit_version:
        publication = published[0]
        by_hand = publication.published_by != "review"
        reason = f"accepted by a person ({publication.why})" if by_hand else "published before"
        before = published_before(workspace, testset, version.fit_version)
        passed = _let_pass(checks_of(workspace, testset, version, before), reason)
        return ReviewDocument("published", version.fit_version, tuple(passed))
    findings = checks_of(workspace, testset, version, published[1] if published else None)
    pinned = published is not None and published[0].pinned
    is_held = any(finding.blocks for finding in findings)
    state: PublicationState = "held back" if is_held else "pinned" if pinned else "published"
    return ReviewDocument(state, version.fit_version, tuple(findings))


def latest_fit_version(workspace: Workspace, testset: str) -> "FitVersion":
    """Return the version of a test set's latest fit; raise ``WarehouseError`` if the version is missing."""
    from assets.fit.documents import FitDocument

    version_id = workspace.fit_folder(testset).read(FitDocument).fit_version
    version = workspace.fits.find_fit_version(testset, version_id)
    if version is None:
        raise WarehouseError(f"fit {version_id} of {testset!r} is missing or damaged; run `care run` to rebuild it")
    return version


def checks_of(
    workspace: Workspace, testset: str, version: "FitVersion", before: "FitVersion | None"
) -> list[CheckResult]:
    """Run all checks of a fit version against ``before``, the previously published version."""
    from assets.fit.kept import read_fitted
    from assets.publication.differences import changed_labels
    from care_ops.results.drift import copies_of_gold

    latest, published = read_best(workspace, version), before and read_best(workspace, before, earlier=True)
    scores, _ = read_fitted(workspace.fit_folder(testset))
    gold = workspace.parts.read_items_of(testset, scores.item_ids, ("gold",))[0].to_numpy()
    leaked = [j for j in copies_of_gold(scores.values, gold, scores.judges) if j not in workspace.review.declared]
    compared = compare_estimates(latest, published, workspace.review)
    if before is not None and latest is not None and not all(finding.passed for finding in compared):
        label_changes = changed_labels(before, version)
        if label_changes and (relabelled := _with_labels_of(workspace, before, latest)) is not None:
            compared = _by_labels(compared, compare_estimates(relabelled, published, workspace.review), label_changes)
    findings = [*check_inputs(workspace, version, before, leaked), *compared]
    findings.sort(key=lambda finding: [*CHECKS].index(finding.check))
    return findings if workspace.review.hold else _let_pass(findings, "not blocked, because `review.hold` is false")


def _let_pass(findings: list[CheckResult], why: str) -> list[CheckResult]:
    return [
        result(finding.check, True, f"{why}; {finding.message}", finding.numbers) if finding.blocks else finding
        for finding in findings
    ]


def _by_labels(findings: list[CheckResult], unchanged: list[CheckResult], label_changes: str) -> list[CheckResult]:
    # `unchanged` compares the published estimate with that from the latest scores and the earlier labels. If these
    # agree, the labels caused the change.
    if all(same.passed for same in unchanged):
        why = f"the labels caused the change ({label_changes}): with the published fit's labels, the latest scores"
        return [
            finding if finding.passed else replace(same, message=f"{why} give {same.message}", numbers=finding.numbers)
            for finding, same in zip(findings, unchanged, strict=True)
        ]
    return [
        finding
        if finding.passed or same.passed
        else replace(finding, message=f"{finding.message}. New labels do not explain the change ({label_changes})")
        for finding, same in zip(findings, unchanged, strict=True)
    ]


def _with_labels_of(workspace: Workspace, before: "FitVersion", latest: "FitRecord") -> "FitRecord | None":
    """Fit an aggregator to the latest panel with the labels of an earlier version; return None if this fails."""
    from assets.fit.kept import read_moments, read_structure
    from care_ops.fit import run_aggregators

    name, folder = latest.answer.name, workspace.fit_folder(before.testset)
    scores, config = folder.read_panel(), replace(workspace.fit_config(before.testset), aggregators=(name,))
    scored = set(scores.item_ids)
    labels = {item: label for item, label in before.inputs.labels.items() if item in scored}
    given = replace(workspace.labels_of(before.testset), labels=labels)
    answers, _ = run_aggregators(scores, read_moments(folder), read_structure(folder)[0], config, given)
    answer = answers.get(name)
    return None if answer is None else replace(latest, item_ids=scores.item_ids, judges=scores.judges, answer=answer)
