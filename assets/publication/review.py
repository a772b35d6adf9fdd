"""``review``: may tonight's fit be published? Compared with what was published before.

Publication is what people read: the views ``latest_fits`` and ``latest_aggregates``, and the report. Where a
blocking check fails, the edition before stays published until a person accepts the new one
(``care accept``) or the cause is mended.

Belongs here: the checks. Does not: the comparisons (``care_ops.results.drift``), what a person does with editions
(``editions``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.code import code_version
from assets.metadata import bars
from assets.partitions import TESTSETS
from assets.publication.editions import extend, publish, store_log
from assets.workspace import ReviewConfig, Workspace
from care_ops.errors import WarehouseError

if TYPE_CHECKING:
    from care_ops.results.drift import Drift
    from warehouse.fits import Edition, FitRecord

CHECKS: dict[str, tuple[bool, str]] = {
    "panel_shrunk": (True, "Judges that sat on the published panel and are still in the workspace were admitted."),
    "missing_scores": (True, "The panel's scores are there, as far as they were before."),
    "certificate": (True, "The structure was solved to its certificate."),
    "quality": (True, "What the recommended aggregate calls quality points where it pointed before."),
    "drift": (True, "The recommended aggregate is distributed and ordered as before."),
    "gold_leakage": (True, "No judge's scores are the gold label itself, unless care.yaml declares it."),
    "duplicate_items": (True, "Items that repeat another's texts have not multiplied."),
    "quality_factor": (False, "The factor that care_svd takes for quality points where it pointed before."),
    "ambiguous_quality": (False, "The panel's defensible answers agree."),
}
"""Name -> (blocking, what holds where it passes)."""

_OF_THE_FIT = {"certificate", "quality", "drift"}
"""Blocking checks that find fault with tonight's fit alone: a pinned one scores new items all the same."""


@dataclass(frozen=True)
class Finding:
    """One check's answer.

    Attributes
    ----------
    check : str
    passed : bool
    says : str
        What was found and, where it failed, what to do.
    numbers : dict
    """

    check: str
    passed: bool
    says: str
    numbers: dict[str, Any]

    @property
    def blocks(self) -> bool:
        """Whether it holds the edition back."""
        return not self.passed and CHECKS[self.check][0]


@dataclass(frozen=True)
class Night:
    """What the checks look at, of one edition.

    Attributes
    ----------
    admitted : set of str
    refused : dict judge -> reason
    missing : float
        Share of the admitted panel's scores.
    gap : float or None
        Of the structure's certificate; None where there is no structure.
    converged : bool
    weights : dict judge -> weight
        Of the recommended aggregate.
    loadings : dict judge -> loading
        Of the factor that care_svd takes for quality; empty where it gave no answer.
    estimates : dict item_id -> float or None
        Of the recommended aggregate.
    aggregator : str
        The recommended one.
    ambiguous : bool
    duplicates : float
        Share of items that repeat another's texts without sharing its split unit.
    """

    admitted: set[str]
    refused: dict[str, str]
    missing: float
    gap: float | None
    converged: bool
    weights: dict[str, float]
    loadings: dict[str, float]
    estimates: dict[str, float | None]
    aggregator: str
    ambiguous: bool
    duplicates: float


@dg.asset(
    partitions_def=TESTSETS,
    deps=["aggregates", "gold", "review_settings"],
    group_name="publication",
    kinds={"duckdb"},
    pool="warehouse_writer",
    # Last of what follows the aggregates in a run: people read a fit once it has been evaluated.
    op_tags={"dagster/priority": "-1"},
    code_version=code_version(__name__, "care_ops"),
    check_specs=[
        dg.AssetCheckSpec(name, asset="review", description=says, blocking=blocking, partitions_def=TESTSETS)
        for name, (blocking, says) in CHECKS.items()
    ],
    description="Publishes tonight's fit, or holds it back and says why; what was published before stays.",
)
def review(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Run the checks; publish where none blocks."""
    testset = context.partition_key
    state, found = judge_edition(workspace, testset)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{state}-{workspace.fit_folder(testset).read_json('fit')['edition']}"),
        metadata={
            "publication": state,
            "findings": dg.MetadataValue.md("\n".join(f"- **{f.check}**: {f.says}" for f in found)),
            "held_back": bars("checks that failed", {f.check: 1.0 for f in found if not f.passed}),
        },
        check_results=[
            dg.AssetCheckResult(
                check_name=f.check,
                passed=f.passed,
                severity=dg.AssetCheckSeverity.ERROR if CHECKS[f.check][0] else dg.AssetCheckSeverity.WARN,
                description=f.says,
                metadata={"says": f.says, **f.numbers},
            )
            for f in found
        ],
    )


def judge_edition(workspace: Workspace, testset: str) -> tuple[str, list[Finding]]:
    """Check the current edition of a test set and publish it where nothing blocks.

    Returns
    -------
    state : {"published", "held back", "pinned"}
        Pinned where a person promoted an edition: the new one is kept, not published, and the pinned one scores the
        items that are new, also where it is only tonight's fit that is held back.
    findings : list of Finding
    """
    from warehouse.fits import Publication

    folder = workspace.fit_folder(testset)
    made = folder.read_json("fit")["edition"]
    edition = next((e for e in workspace.fits.editions(testset) if e.edition == made), None)
    if edition is None:
        raise WarehouseError(f"edition {made} of {testset!r} is gone, or was damaged; `care run` makes it again")
    latest = workspace.fits.published(testset)
    if latest is not None and latest[1].edition == edition.edition:
        said = "published before" if latest[0].published_by == "review" else f"accepted by hand ({latest[0].why})"
        state, found = "published", _let_pass(checks_of(workspace, testset, edition, _before(workspace, edition)), said)
        store_log(workspace, testset)
    else:
        found = checks_of(workspace, testset, edition, latest[1] if latest else None)
        blocking = {f.check for f in found if f.blocks}
        pinned = latest is not None and latest[0].pinned
        state = "held back" if blocking else "pinned" if pinned else "published"
        if latest is not None and pinned and blocking <= _OF_THE_FIT:
            extend(workspace, latest[1])
        elif state == "published":
            publish(workspace, Publication(testset, edition.edition, "review"))
    folder.write_json(
        "review",
        {"state": state, "edition": edition.edition, "findings": [{**vars(f), "blocks": f.blocks} for f in found]},
    )
    return state, found


def _before(workspace: Workspace, edition: "Edition") -> "Edition | None":
    """What was published before an edition that is published: the same whether it is looked at once or again."""
    kept = {e.edition: e for e in workspace.fits.editions(edition.testset)}
    log = [p.edition for p in workspace.fits.publications(edition.testset)]
    return next((kept[e] for e in reversed(log) if e != edition.edition and e in kept), None)


def _let_pass(found: list[Finding], why: str) -> list[Finding]:
    """The same findings, none of which holds back."""
    return [Finding(f.check, True, f"{why}; {f.says}", f.numbers) if f.blocks else f for f in found]


def checks_of(workspace: Workspace, testset: str, edition: "Edition", before: "Edition | None") -> list[Finding]:
    """Every check of an edition against the one published before."""
    import numpy as np

    from care_ops.results.drift import copies_of_gold
    from warehouse.matrix import read_item_columns

    limits = workspace.review
    tonight = night_of(workspace, testset, edition)
    then = night_of(workspace, testset, before) if before is not None else None
    scores = workspace.fit_folder(testset).read_panel()
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, testset)
    gold = dict(zip(columns.item_ids, columns.gold, strict=True))
    labels = np.array([gold.get(i, np.nan) for i in scores.item_ids], dtype=np.float64)
    leaked = [j for j in copies_of_gold(scores.values, labels, scores.judges) if j not in limits.declared]
    found = [
        _shrunk(tonight, then, set(workspace.judges_of(testset))),
        _missing(tonight, then, limits),
        _certificate(tonight),
        _turned("quality", then.weights if then and _same_kind(then, tonight) else None, tonight.weights, limits),
        _drift(tonight, then, limits),
        _leakage(leaked),
        _duplicates(tonight, then, limits),
        _turned("quality_factor", then.loadings if then else None, tonight.loadings, limits),
        _ambiguous(tonight),
    ]
    return found if limits.hold else _let_pass(found, "let pass by `review.hold: false`")


def night_of(workspace: Workspace, testset: str, edition: "Edition") -> Night:
    """An edition as the checks see it; what its files no longer hold is empty."""
    panel: list[Mapping[str, Any]] = edition.inputs["panel"]
    name = "care" if "care" in edition.fits else next(iter(edition.fits), "")
    fits = {a: workspace.fits.read_fit(testset, f) for a, f in edition.fits.items() if a in (name, "care_svd")}
    recommended, structured = fits.get(name), fits.get("care_svd")
    certificate = _details(structured).get("certificate")
    admitted = {str(row["judge"]) for row in panel if row["admitted"]}
    missing = [float(row["missing_rate"]) for row in panel if row["admitted"]]
    return Night(
        admitted=admitted,
        refused={str(row["judge"]): str(row["reason"]) for row in panel if not row["admitted"]},
        missing=sum(missing) / len(missing) if missing else 0.0,
        gap=None if certificate is None else float(certificate["gap"]),
        converged=certificate is None or bool(certificate["converged"]),
        weights={} if recommended is None else _present(recommended.judges, recommended.weights),
        loadings={}
        if structured is None
        else _present(structured.judges, [x[0] if x else None for x in structured.loadings]),
        estimates={}
        if recommended is None
        else dict(zip(recommended.item_ids, recommended.estimate.to_pylist(), strict=True)),
        aggregator=name,
        ambiguous=bool(_details(fits.get("care")).get("ambiguous", False)),
        duplicates=float(edition.inputs["duplicates"]),
    )


def _details(fit: "FitRecord | None") -> dict[str, Any]:
    return {} if fit is None else json.loads(fit.details)


def _present(judges: Sequence[str], values: Sequence[float | None]) -> dict[str, float]:
    return {judge: value for judge, value in zip(judges, values, strict=True) if value is not None}


def _shrunk(tonight: Night, then: Night | None, roster: set[str]) -> Finding:
    lost = sorted((then.admitted & roster) - tonight.admitted) if then else []
    if not lost:
        return Finding("panel_shrunk", True, f"{len(tonight.admitted)} judges", {"lost": 0})
    why = "; ".join(f"{j}: {tonight.refused.get(j, 'no scores')}" for j in lost)
    return Finding(
        "panel_shrunk",
        False,
        f"{len(lost)} judge(s) of the published panel are no longer admitted ({why}). Mend them and run again, delete "
        "their files, or `care accept` the smaller panel",
        {"lost": len(lost)},
    )


def _missing(tonight: Night, then: Night | None, limits: ReviewConfig) -> Finding:
    rise = tonight.missing - then.missing if then else 0.0
    numbers = {"missing": tonight.missing, "rise": rise}
    if tonight.missing <= limits.max_missing and rise <= limits.max_missing_rise:
        return Finding("missing_scores", True, f"{tonight.missing:.1%} of the panel's scores are missing", numbers)
    return Finding(
        "missing_scores",
        False,
        f"{tonight.missing:.1%} of the panel's scores are missing, {rise:+.1%} against the published fit (limits "
        f"{limits.max_missing:.0%} and {limits.max_missing_rise:+.0%}). See `by_status` of the judges' `scores`, or "
        "`care accept`",
        numbers,
    )


def _certificate(tonight: Night) -> Finding:
    numbers = {} if tonight.gap is None else {"gap": tonight.gap}
    if tonight.converged:
        says = "no structure to certify" if tonight.gap is None else f"relative gap {tonight.gap:.1e}"
        return Finding("certificate", True, says, numbers)
    return Finding(
        "certificate",
        False,
        f"the structure stopped at a relative gap of {tonight.gap:.1e}, short of its certificate. Raise `fit.gamma`, "
        "drop judges that repeat one another, or `care accept`",
        numbers,
    )


def _turned(check: str, before: dict[str, float] | None, after: dict[str, float], limits: ReviewConfig) -> Finding:
    from care_ops.results.drift import same_direction

    cosine = float("nan") if before is None else same_direction(before, after)
    if cosine != cosine:
        return Finding(check, True, "no published fit of the same aggregators to compare with", {})
    numbers = {"cosine": cosine}
    if cosine >= limits.min_quality:
        return Finding(check, True, f"cosine {cosine:.2f} with the published one", numbers)
    which = "care_svd's quality factor" if check == "quality_factor" else "what is called quality"
    return Finding(
        check,
        False,
        f"{which} has turned: cosine {cosine:.2f} with the published fit (limit {limits.min_quality:.2f}). Give "
        "anchors (care.yaml) to say which factor is quality, or `care accept`",
        numbers,
    )


def _drift(tonight: Night, then: Night | None, limits: ReviewConfig) -> Finding:
    from care_ops.results.drift import drift

    if then is None or not _same_kind(then, tonight):
        return Finding("drift", True, "no published fit of the same aggregator to compare with", {})
    found = drift(then.estimates, tonight.estimates)
    numbers = {k: v for k, v in vars(found).items() if v == v}
    wrong = _drifted(found, limits)
    says = (
        f"{tonight.aggregator}: PSI {found.psi:.2f}, mean {found.mean_shift:+.2f} sd, rank correlation "
        f"{found.rank_correlation:.3f} over {found.common} items"
    )
    if not wrong:
        return Finding("drift", True, says, numbers)
    return Finding(
        "drift",
        False,
        f"{says}: {', '.join(wrong)}. `care diff` names the judges and items that moved; accept it if that is right",
        numbers,
    )


def _same_kind(then: Night, tonight: Night) -> bool:
    return then.aggregator == tonight.aggregator


def _drifted(found: "Drift", limits: ReviewConfig) -> list[str]:
    """What is beyond its limit; NaN is never."""
    wrong: list[str] = []
    if found.psi > limits.max_psi + found.psi_by_chance:
        wrong.append(f"PSI above {limits.max_psi:g} beyond chance")
    if abs(found.mean_shift) > limits.max_mean_shift:
        wrong.append(f"mean shift above {limits.max_mean_shift:g} sd")
    if found.rank_correlation < limits.min_rank_correlation:
        wrong.append(f"rank correlation below {limits.min_rank_correlation:g}")
    return wrong


def _leakage(leaked: list[str]) -> Finding:
    if not leaked:
        return Finding("gold_leakage", True, "no judge copies gold", {"judges": 0})
    return Finding(
        "gold_leakage",
        False,
        f"{', '.join(leaked)}: the scores are the gold label itself. Remove the judge or drop its column; if people "
        "sit on the panel on purpose, name them under `review.declared` in care.yaml",
        {"judges": len(leaked)},
    )


def _duplicates(tonight: Night, then: Night | None, limits: ReviewConfig) -> Finding:
    rise = tonight.duplicates - then.duplicates if then else 0.0
    numbers = {"share": tonight.duplicates, "rise": rise}
    says = f"{tonight.duplicates:.1%} of the items repeat another's texts outside their split unit"
    if rise <= limits.max_duplicates_rise:
        return Finding("duplicate_items", True, says, numbers)
    return Finding(
        "duplicate_items",
        False,
        f"{says}, {rise:+.1%} against the published fit. Remove the copies from the source, give them one "
        "`split_unit`, or `care accept`",
        numbers,
    )


def _ambiguous(tonight: Night) -> Finding:
    if not tonight.ambiguous:
        return Finding("ambiguous_quality", True, "the defensible answers agree", {})
    return Finding(
        "ambiguous_quality",
        False,
        "two defensible answers disagree on what quality is; the report's warning says by how much. A dozen anchors "
        "settle it (`anchors` in care.yaml)",
        {},
    )
