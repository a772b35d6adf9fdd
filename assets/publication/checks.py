"""Checks of a fit version against the published version, with reasons and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assets.fit.stages import recommended
from assets.publication.documents import CheckResult
from assets.workspace import ReviewConfig, Workspace
from care_ops.errors import counted

if TYPE_CHECKING:
    from care_ops.records import Certificate
    from warehouse.fits import FitRecord, FitVersion, FitVersionInputs

CHECKS = {
    "panel_shrunk": "All judges of the published panel that are still in the workspace are admitted to the new fit.",
    "missing_scores": "The share of missing scores in the panel has not risen.",
    "certificate": "The optimisation of the structure has converged.",
    "quality": "The weights of the recommended aggregate have the same direction as in the published fit.",
    "drift": "The distribution and ranking of the estimates are close to those of the published fit.",
    "gold_leakage": "No judge's scores equal the gold labels, except for judges in `review.declared` of care.yaml.",
    "duplicate_items": "The share of items that repeat another item's texts has not risen.",
}
"""Description of each check, by name."""

_MOST_MEAN_SHIFT = 0.5
"""Largest permitted shift of the mean estimate, in standard deviations."""

_MOST_MISSING_RISE, _MOST_DUPLICATES_RISE = 0.05, 0.01
"""Largest permitted rises since the published fit: share of missing scores, and share of duplicate items."""

_MIN_COSINE = 0.70
"""Minimum cosine between the weights of two fits (an angle of about 45 degrees)."""


def read_best(workspace: Workspace, version: FitVersion, *, earlier: bool = False) -> FitRecord | None:
    """Read the recommended aggregator's fit; None if there is no fit, or the file of an ``earlier`` fit is lost."""
    fit_id = version.fits.get(recommended(version.fits))
    read = workspace.fits.find_fit if earlier else workspace.fits.read_fit  # an earlier fit cannot be rebuilt
    return None if fit_id is None else read(version.testset, fit_id)


def result(check: str, passed: bool, message: str, numbers: dict[str, Any]) -> CheckResult:
    """Build the result of a check; a failed check blocks the fit."""
    return CheckResult(check, passed, message, numbers, blocks=not passed)


def check_inputs(
    workspace: Workspace, version: FitVersion, before: FitVersion | None, leaked: list[str]
) -> list[CheckResult]:
    """Check the inputs and the convergence of a fit version; ``leaked`` are judges whose scores equal gold."""
    from assets.fit.details import StructuredDetails, read_details

    svd, previous = version.fits.get("care_svd"), None if before is None else before.inputs
    solved = None if svd is None else workspace.fits.read_fit(version.testset, svd, with_items=False).answer
    return [
        _shrunk(version.inputs, previous, set(workspace.judges_of(version.testset))),
        _missing(version.inputs, previous),
        _certificate(None if solved is None else read_details(solved, StructuredDetails).certificate),
        _leakage(leaked),
        _duplicates(version.inputs, previous),
    ]


def compare_estimates(latest: FitRecord | None, previous: FitRecord | None, limits: ReviewConfig) -> list[CheckResult]:
    """Check whether the recommended aggregate has changed direction or drifted since the previous fit."""
    if latest is None or previous is None or latest.answer.name != previous.answer.name:
        message = "not compared: there is no published fit of the same aggregator"
        return [result(check, True, message, {}) for check in ("quality", "drift")]
    return [_turned(latest, previous), _drift(latest, previous, limits)]


def _shrunk(latest: FitVersionInputs, previous: FitVersionInputs | None, judges: set[str]) -> CheckResult:
    lost = sorted((previous.admitted & judges) - latest.admitted) if previous else []
    refused = {row.judge: row.reason for row in latest.panel if not row.admitted}
    why = "; ".join(f"{judge}: {refused.get(judge, 'no scores')}" for judge in lost)
    message = (
        f"{counted(len(lost), 'judge')} of the published panel no longer admitted ({why}). Fix these judges and run "
        "`care run`, delete their files, or accept the smaller panel with `care fits accept`"
        if lost
        else f"{counted(len(latest.admitted), 'judge')} admitted"
    )
    return result("panel_shrunk", not lost, message, {"lost": len(lost)})


def _missing(latest: FitVersionInputs, previous: FitVersionInputs | None) -> CheckResult:
    missing = latest.missing_rate
    rise = missing - previous.missing_rate if previous else 0.0
    message = f"{missing:.1%} of the panel's scores are missing"
    if rise > _MOST_MISSING_RISE:
        message += (
            f", {rise:+.1%} since the published fit (limit {_MOST_MISSING_RISE:+.0%}). Find the reasons in "
            "`by_status` of the judges' `scores`, or accept the missing scores with `care fits accept`"
        )
    return result("missing_scores", rise <= _MOST_MISSING_RISE, message, {"missing": missing, "rise": rise})


def _certificate(certificate: Certificate | None) -> CheckResult:
    if certificate is None:
        return result("certificate", True, "not checked: the fit has no structure", {})
    message = (
        f"the structure has converged: relative gap {certificate.gap:.1e}"
        if certificate.converged
        else f"the structure has not converged: its relative gap is {certificate.gap:.1e}. Raise `fit.gamma`, remove "
        "duplicate judges, or accept the fit with `care fits accept`"
    )
    return result("certificate", certificate.converged, message, {"gap": certificate.gap})


def _leakage(leaked: list[str]) -> CheckResult:
    message = (
        f"{', '.join(leaked)}: the scores equal the gold label. Remove the judge. If this judge is the person who "
        "gave the labels, name the judge under `review.declared` in care.yaml"
    )
    return result("gold_leakage", not leaked, message if leaked else "no judge copies gold", {"judges": len(leaked)})


def _duplicates(latest: FitVersionInputs, previous: FitVersionInputs | None) -> CheckResult:
    share = latest.duplicates
    rise = share - previous.duplicates if previous else 0.0
    message = f"{share:.1%} of the items repeat the texts of an item in another split unit"
    if rise > _MOST_DUPLICATES_RISE:
        message += (
            f", {rise:+.1%} since the published fit. Remove the copies from the source, give them one `split_unit`, "
            "or accept them with `care fits accept`"
        )
    return result("duplicate_items", rise <= _MOST_DUPLICATES_RISE, message, {"share": share, "rise": rise})


def _turned(latest: FitRecord, previous: FitRecord) -> CheckResult:
    from care_ops.results.drift import same_direction

    cosine = same_direction(previous.weights, latest.weights)
    if cosine != cosine:
        return result("quality", True, "not compared: the two fits have too few weights in common", {})
    message = (
        f"cosine {cosine:.2f} with the published fit"
        if cosine >= _MIN_COSINE
        else f"the weights point in another direction: cosine {cosine:.2f} with the published fit (limit "
        f"{_MIN_COSINE:.2f}). Add labels (`labels` in care.yaml), or accept the new fit with `care fits accept`"
    )
    return result("quality", cosine >= _MIN_COSINE, message, {"cosine": cosine})


def _drift(latest: FitRecord, previous: FitRecord, limits: ReviewConfig) -> CheckResult:
    from care_ops.results.drift import drift

    again = latest.in_order(previous.item_ids).estimate
    moved = drift(previous.answer.estimate, latest.answer.estimate, again)
    beyond = {  # an undefined number passes
        f"PSI more than {limits.max_psi:g} above the chance level": moved.psi > limits.max_psi + moved.psi_by_chance,
        f"mean shift above {_MOST_MEAN_SHIFT:g} sd": abs(moved.mean_shift) > _MOST_MEAN_SHIFT,
        f"rank correlation below {limits.min_rank_correlation:g}": moved.rank_correlation < limits.min_rank_correlation,
    }
    message = (
        f"{latest.answer.name}: PSI {moved.psi:.2f}, mean {moved.mean_shift:+.2f} sd, rank correlation "
        f"{moved.rank_correlation:.3f} over {moved.common} items"
    )
    if any(beyond.values()):
        message += (
            f": {', '.join(words for words, is_so in beyond.items() if is_so)}. `care fits diff` names the judges and "
            "items that moved; if the change is right, run `care fits accept`"
        )
    numbers = {name: number for name, number in vars(moved).items() if number == number}
    return result("drift", not any(beyond.values()), message, numbers)
