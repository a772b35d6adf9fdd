"""``review``: check the latest fit against the published one, and publish it.

The published fit is shown in the views ``latest_fits`` and ``latest_aggregates``, and in the report. If a
blocking check fails, Dagster skips ``report``, and the earlier fit stays published until a person accepts the new one
(``care fits accept``) or fixes the cause.
"""

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.fit.stages import recommended
from assets.metadata import bars, bullets, checked
from assets.partitions import TESTSETS
from assets.publication.documents import OF_THE_FIT, CheckResult, PublicationState, ReviewDocument
from assets.workspace import ReviewConfig, Workspace
from care_ops.errors import WarehouseError

if TYPE_CHECKING:
    from care_ops.records import Certificate
    from warehouse.fits import FitRecord, FitVersion, FitVersionInputs

_log = logging.getLogger(__name__)

CHECKS: dict[str, tuple[bool, str]] = {
    "panel_shrunk": (True, "Judges that sat on the published panel and are still in the workspace were admitted."),
    "missing_scores": (True, "The panel's scores are there, as far as they were before."),
    "certificate": (True, "The structure was solved to its certificate."),
    "quality": (True, "What the recommended aggregate calls quality points where it pointed before."),
    "drift": (True, "The recommended aggregate is distributed and ordered as before."),
    "gold_leakage": (True, "No judge's scores are the gold label itself, unless care.yaml declares it."),
    "duplicate_items": (True, "Items that repeat another's texts have not multiplied."),
    "quality_factor": (False, "The factor that care_svd takes for quality points where it pointed before."),
    "ambiguous_quality": (False, "Nothing that can be seen in the scores casts doubt on the answer."),
    "states": (False, "care_tensor's states do not depend on its random starts, and labels confirm them."),
}
"""Name -> (whether it blocks, description)."""

_MOST_MEAN_SHIFT = 0.5
"""Standard deviations of an answer's mean beyond which something has broken."""

_MOST_MISSING_RISE, _MOST_DUPLICATES_RISE = 0.05, 0.01
"""By how much the share of missing scores, and of items that repeat another's texts, may rise between two fits that are
published: a judge in twenty, or an item in a hundred, may come and go without anything being wrong."""

_MIN_COSINE = 0.70
"""Minimum cosine between loadings or weights of two fits: 45 degrees, beyond which quality is more another thing."""

_SAME_ANSWER = 0.99
"""Share of the items that two ends of ``care_tensor`` decide alike, from which on it does not matter which is kept."""


@dataclass(frozen=True)
class ReviewedFit:
    """The parts of a fit version that the checks read.

    Attributes
    ----------
    best : FitRecord or None
        Fit of the recommended aggregator; None if no aggregator gave an estimate.
    certificate : Certificate or None
        Certificate of the structure; None without a structure.
    loadings : dict judge -> loading
        Loadings on the factor that care_svd takes for quality; empty if it gave no estimate.
    ambiguous : bool
        Whether the estimate has concerns.
    """

    inputs: "FitVersionInputs"
    best: "FitRecord | None"
    certificate: "Certificate | None"
    loadings: dict[str, float]
    ambiguous: bool

    @property
    def aggregator(self) -> str:
        """Return the recommended aggregator."""
        return "" if self.best is None else self.best.answer.name

    @property
    def weights(self) -> dict[str, float]:
        """Return the judges' weights in the recommended aggregate."""
        return {} if self.best is None else self.best.weights

    @property
    def estimates(self) -> dict[str, float | None]:
        """Return the items' estimates by the recommended aggregate."""
        return {} if self.best is None else self.best.estimates

    @property
    def missing(self) -> float:
        """Return the share of the panel's scores that are missing."""
        rates = [row.missing_rate for row in self.inputs.panel if row.admitted]
        return sum(rates) / len(rates) if rates else 0.0


@asset_of_testsets(
    deps=["aggregates", "gold"],
    kinds={"duckdb"},
    pool="warehouse_writer",
    # After the other results in a run, because a published fit must be evaluated.
    op_tags={"dagster/priority": "-1"},
    check_specs=[
        dg.AssetCheckSpec(name, asset="review", description=message, partitions_def=TESTSETS, blocking=blocking)
        for name, (blocking, message) in CHECKS.items()
    ],
    description="Publishes the latest fit. If a blocking check fails, the earlier fit stays published.",
)
def review(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Run the checks, and publish the fit unless a check blocks it."""
    from assets.publication.fit_versions import blocked_fit

    testset = context.partition_key
    reviewed = (review_latest if context.selected_asset_keys else look)(workspace, testset)
    is_held = blocked_fit(workspace, testset) is not None
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{reviewed.state}-{reviewed.fit_version}"),
        metadata={
            "publication": reviewed.state,
            "findings": bullets(f"{f.check}: {f.message}" for f in reviewed.findings),
            "held_back": bars("checks that failed", {f.check: 1.0 for f in reviewed.findings if not f.passed}),
        },
        check_results=[
            checked(f.check, f.message, passed=f.passed, blocks=f.blocks and is_held, **f.numbers)
            for f in reviewed.findings
        ],
    )


def review_latest(workspace: Workspace, testset: str) -> ReviewDocument:
    """Check the latest fit version, publish it unless a check blocks it, and store the result.

    If a person pinned another version, the pinned version stays published and scores the new items, unless checks of
    the inputs fail.
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
    workspace.fits.annotate(testset, version.fit_version, document)  # it is read when another version is the latest
    return document


def look(workspace: Workspace, testset: str) -> ReviewDocument:
    """Run the checks on the latest fit version, without publishing or storing anything."""
    from assets.publication.fit_versions import published_before

    version, published = latest_fit_version(workspace, testset), workspace.fits.published(testset)
    if published is not None and published[1].fit_version == version.fit_version:
        publication = published[0]
        by_hand = publication.published_by != "review"
        reason = f"accepted by hand ({publication.why})" if by_hand else "published before"
        before = published_before(workspace, testset, version.fit_version)
        passed = _let_pass(checks_of(workspace, testset, version, before), reason)
        return ReviewDocument("published", version.fit_version, tuple(passed))
    findings = checks_of(workspace, testset, version, published[1] if published else None)
    pinned = published is not None and published[0].pinned
    is_held = any(finding.blocks for finding in findings)
    state: PublicationState = "held back" if is_held else "pinned" if pinned else "published"
    return ReviewDocument(state, version.fit_version, tuple(findings))


def latest_fit_version(workspace: Workspace, testset: str) -> "FitVersion":
    """Return the version of a test set's last fit; ``WarehouseError`` if it is gone."""
    from assets.fit.documents import FitDocument

    version_id = workspace.fit_folder(testset).read(FitDocument).fit_version
    version = workspace.fits.find_fit_version(testset, version_id)
    if version is None:
        raise WarehouseError(f"fit {version_id} of {testset!r} is missing or damaged; run `care run` to rebuild it")
    return version


def _let_pass(findings: list[CheckResult], why: str) -> list[CheckResult]:
    """Return the findings as passed, with the reason."""
    return [
        _result(finding.check, True, f"{why}; {finding.message}", finding.numbers) if finding.blocks else finding
        for finding in findings
    ]


def _result(check: str, passed: bool, message: str, numbers: dict[str, Any]) -> CheckResult:
    """Return a check's result; it blocks if it failed and the check is a blocking one."""
    return CheckResult(check, passed, message, numbers, blocks=not passed and CHECKS[check][0])


def checks_of(
    workspace: Workspace, testset: str, version: "FitVersion", before: "FitVersion | None"
) -> list[CheckResult]:
    """Run every check of a fit version against the published one."""
    from assets.fit.kept import read_fitted
    from assets.results.gold import aligned
    from care_ops.results.drift import copies_of_gold

    latest = read_reviewed(workspace, testset, version)
    previous = read_reviewed(workspace, testset, before, earlier=True) if before is not None else None
    scores, _ = read_fitted(workspace.fit_folder(testset))
    columns = workspace.parts.read_gold(testset)
    gold = aligned(scores.item_ids, dict(zip(columns.item_ids, columns.gold.tolist(), strict=True)))
    leaked = [j for j in copies_of_gold(scores.values, gold, scores.judges) if j not in workspace.review.declared]
    findings = [
        _shrunk(latest, previous, set(workspace.judges_of(testset))),
        _missing(latest, previous),
        _certificate(latest.certificate),
        *_changed(workspace, version, before, latest, previous),
        _leakage(leaked),
        _duplicates(latest, previous),
        _turned("quality_factor", previous.loadings if previous else None, latest.loadings),
        _ambiguous(is_doubtful=latest.ambiguous),
        _states(workspace, testset, version),
    ]
    return findings if workspace.review.hold else _let_pass(findings, "let pass by `review.hold: false`")


def _changed(
    workspace: Workspace,
    version: "FitVersion",
    before: "FitVersion | None",
    latest: ReviewedFit,
    previous: ReviewedFit | None,
) -> list[CheckResult]:
    """Check that the recommended estimate did not flip or drift, unless new labels explain the change.

    If the labels differ, the latest scores are also fitted with the earlier labels. If that estimate agrees with the
    published one, the labels caused the change and the checks pass. Otherwise the scores changed as well.
    """
    from assets.publication.fit_versions import changed_labels

    findings = _compared(latest, previous, workspace.review)
    label_changes = None if before is None else changed_labels(before, version)
    if before is None or label_changes is None or all(finding.passed for finding in findings):
        return findings
    relabelled = _with_labels_of(workspace, before, latest)
    if relabelled is None:
        return findings
    unchanged = _compared(relabelled, previous, workspace.review)
    by_labels = all(same.passed for same in unchanged)
    why = f"the labels made the change ({label_changes}): with the labels of the published fit, the latest scores give"
    return [
        finding
        if finding.passed or (same.passed and not by_labels)
        else _result(
            finding.check,
            by_labels,
            f"{why} {same.message}"
            if by_labels
            else f"{finding.message}. The labels do not explain it ({label_changes})",
            finding.numbers,
        )
        for finding, same in zip(findings, unchanged, strict=True)
    ]


def _compared(latest: ReviewedFit, previous: ReviewedFit | None, limits: ReviewConfig) -> list[CheckResult]:
    """Compare the recommended estimate with the previous one of the same aggregator."""
    previous = previous if previous is not None and previous.aggregator == latest.aggregator else None
    return [
        _turned("quality", previous.weights if previous else None, latest.weights),
        _drift(latest, previous, limits),
    ]


def _with_labels_of(workspace: Workspace, before: "FitVersion", latest: ReviewedFit) -> ReviewedFit | None:
    """Fit the recommended aggregator to the latest panel with the labels of an earlier version.

    Return None if the aggregator gives no estimate.
    """
    from assets.fit.kept import read_moments, read_structure
    from care_ops.fit import run_aggregators
    from warehouse.fits import FitRecord

    testset, folder = before.testset, workspace.fit_folder(before.testset)
    scores, config = folder.read_panel(), workspace.fit_config(before.testset)
    scored = set(scores.item_ids)
    labels = {item: label for item, label in before.inputs.labels.items() if item in scored}
    given = replace(workspace.labels_of(testset), labels=labels)
    answers, _ = run_aggregators(
        scores,
        read_moments(folder),
        read_structure(folder)[0],
        replace(config, aggregators=(latest.aggregator,)),
        given,
    )
    answer = answers.get(latest.aggregator)
    if answer is None:
        return None
    return replace(latest, best=FitRecord("", testset, "", "", scores.item_ids, scores.judges, answer))


def read_reviewed(workspace: Workspace, testset: str, version: "FitVersion", *, earlier: bool = False) -> ReviewedFit:
    """Read the parts of a fit version that the checks need; parts of lost ``earlier`` fits are empty."""
    from assets.fit.details import CareDetails, StructuredDetails, read_details

    name = recommended(version.fits)
    read = workspace.fits.find_fit if earlier else workspace.fits.read_fit  # an earlier fit cannot be rebuilt
    fits = {each: read(testset, version.fits[each]) for each in {name, "care_svd"} & {*version.fits}}
    best, structured = fits.get(name), fits.get("care_svd")
    loadings = None if structured is None else structured.answer.loadings
    return ReviewedFit(
        version.inputs,
        best,
        None if structured is None else read_details(structured.answer, StructuredDetails).certificate,
        {}
        if structured is None or loadings is None
        else dict(zip(structured.judges, loadings[:, 0].tolist(), strict=True)),
        ambiguous=best is not None and name == "care" and bool(read_details(best.answer, CareDetails).concerns),
    )


def _shrunk(latest: ReviewedFit, previous: ReviewedFit | None, judges: set[str]) -> CheckResult:
    admitted = latest.inputs.admitted
    lost = sorted((previous.inputs.admitted & judges) - admitted) if previous else []
    refused = {row.judge: row.reason for row in latest.inputs.panel if not row.admitted}
    why = "; ".join(f"{judge}: {refused.get(judge, 'no scores')}" for judge in lost)
    message = (
        f"{len(lost)} judge(s) of the published panel are no longer admitted ({why}). Mend them and run again, delete "
        "their files, or `care fits accept` the smaller panel"
        if lost
        else f"{len(admitted)} judges"
    )
    return _result("panel_shrunk", not lost, message, {"lost": len(lost)})


def _missing(latest: ReviewedFit, previous: ReviewedFit | None) -> CheckResult:
    rise = latest.missing - previous.missing if previous else 0.0
    passed, message = rise <= _MOST_MISSING_RISE, "of the panel's scores are missing"
    if not passed:
        message += (
            f", {rise:+.1%} against the published fit (limit {_MOST_MISSING_RISE:+.0%}). See "
            "`by_status` of the judges' `scores`, or `care fits accept`"
        )
    return _result(
        "missing_scores", passed, f"{latest.missing:.1%} {message}", {"missing": latest.missing, "rise": rise}
    )


def _certificate(certificate: "Certificate | None") -> CheckResult:
    if certificate is None:
        return _result("certificate", True, "no structure to certify", {})
    message = (
        f"relative gap {certificate.gap:.1e}"
        if certificate.converged
        else f"the structure stopped at a relative gap of {certificate.gap:.1e}, short of its certificate. Raise "
        "`fit.gamma`, drop judges that repeat one another, or `care fits accept`"
    )
    return _result("certificate", certificate.converged, message, {"gap": certificate.gap})


def _turned(check: str, before: dict[str, float] | None, after: dict[str, float]) -> CheckResult:
    from care_ops.results.drift import same_direction

    cosine = float("nan") if before is None else same_direction(before, after)
    if cosine != cosine:
        return _result(check, True, "no published fit of the same aggregators to compare with", {})
    which = "care_svd's quality factor" if check == "quality_factor" else "what is called quality"
    message = (
        f"cosine {cosine:.2f} with the published one"
        if cosine >= _MIN_COSINE
        else f"{which} has turned: cosine {cosine:.2f} with the published fit (limit {_MIN_COSINE:.2f}). Give "
        "labels (`labels` in care.yaml) to say which factor is quality, or `care fits accept`"
    )
    return _result(check, cosine >= _MIN_COSINE, message, {"cosine": cosine})


def _drift(latest: ReviewedFit, previous: ReviewedFit | None, limits: ReviewConfig) -> CheckResult:
    """Check the drift of the estimates against its limits; an undefined number passes."""
    from care_ops.results.drift import drift

    if previous is None:
        return _result("drift", True, "no published fit of the same aggregator to compare with", {})
    moved = drift(previous.estimates, latest.estimates)
    beyond = {
        f"PSI above {limits.max_psi:g} beyond chance": moved.psi > limits.max_psi + moved.psi_by_chance,
        f"mean shift above {_MOST_MEAN_SHIFT:g} sd": abs(moved.mean_shift) > _MOST_MEAN_SHIFT,
        f"rank correlation below {limits.min_rank_correlation:g}": moved.rank_correlation < limits.min_rank_correlation,
    }
    message = (
        f"{latest.aggregator}: PSI {moved.psi:.2f}, mean {moved.mean_shift:+.2f} sd, rank correlation "
        f"{moved.rank_correlation:.3f} over {moved.common} items"
    )
    if any(beyond.values()):
        message += (
            f": {', '.join(words for words, is_so in beyond.items() if is_so)}. `care fits diff` names the judges and "
            "items that moved; accept it if they should"
        )
    numbers = {name: number for name, number in vars(moved).items() if number == number}
    return _result("drift", not any(beyond.values()), message, numbers)


def _leakage(leaked: list[str]) -> CheckResult:
    message = (
        f"{', '.join(leaked)}: the scores are the gold label itself. Remove the judge or drop its column; if people "
        "sit on the panel on purpose, name them under `review.declared` in care.yaml"
    )
    return _result("gold_leakage", not leaked, message if leaked else "no judge copies gold", {"judges": len(leaked)})


def _duplicates(latest: ReviewedFit, previous: ReviewedFit | None) -> CheckResult:
    share = latest.inputs.duplicates
    rise = share - previous.inputs.duplicates if previous else 0.0
    message = f"{share:.1%} of the items repeat another's texts outside their split unit"
    if rise > _MOST_DUPLICATES_RISE:
        message += (
            f", {rise:+.1%} against the published fit. Remove the copies from the source, give them one `split_unit`, "
            "or `care fits accept`"
        )
    return _result("duplicate_items", rise <= _MOST_DUPLICATES_RISE, message, {"share": share, "rise": rise})


def _ambiguous(*, is_doubtful: bool) -> CheckResult:
    message = (
        "without labels the answer is in doubt; the verdict says why. A dozen labels settle it (`labels` in care.yaml)"
        if is_doubtful
        else "nothing that can be seen in the scores casts doubt on the answer"
    )
    return _result("ambiguous_quality", not is_doubtful, message, {})


def _states(workspace: Workspace, testset: str, version: "FitVersion") -> CheckResult:
    from assets.fit.details import CareTensorDetails, read_details

    fit_id = version.fits.get("care_tensor")
    if fit_id is None:
        return _result("states", True, "care_tensor gave no answer", {})
    details = read_details(workspace.fits.read_fit(testset, fit_id).answer, CareTensorDetails)
    concerns: list[str] = []
    if details.starts_agree is False and (details.starts_alike is None or details.starts_alike < _SAME_ANSWER):
        otherwise = (
            ""
            if details.starts_alike is None
            else f", and decide {1 - details.starts_alike:.0%} of the items otherwise"
        )
        concerns.append(
            f"random starts ended in different states{otherwise}, so that care_tensor's answer may be another one "
            "tomorrow: rely on another aggregator"
        )
    if details.labels_confirm is False:
        concerns.append(
            "labels contradict the scores, and care_tensor's states predict labels "
            "that were left out no better than their commoner label does: label more items, or rely on another "
            "aggregator"
        )
    return _result("states", not concerns, "; ".join(concerns) or "no doubt about care_tensor's states", {})
