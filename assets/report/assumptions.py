"""What a page's numbers rest on, and which of it the panel was seen to violate."""

from dataclasses import dataclass
from typing import Literal

from assets.report.data import ReportData

State = Literal["holds", "violated", "not checked"]


@dataclass(frozen=True)
class Assumption:
    """One assumption, whether it was seen to hold, and what that rests on."""

    name: str
    state: State
    says: str


def assumptions(data: ReportData) -> list[Assumption]:
    """The assumptions behind a page, those that were violated first."""
    made = [_one_answer(data), _solved(data), _aligned(data), _independent(data), _families(data)]
    made += [_missing(data), _scale(data)]
    order = ("violated", "not checked", "holds")
    return sorted((each for each in made if each is not None), key=lambda each: order.index(each.state))


def _one_answer(data: ReportData) -> Assumption | None:
    care = data.care
    if care is None:
        return None
    name = "The judges follow one thing, and that is quality"
    if "several answers" in care.doubts:
        return Assumption(
            name, "violated", "One factor does not explain how they agree; the verdict says what does not fit."
        )
    if care.doubts:
        return Assumption(name, "not checked", "The scores alone cannot say it; the verdict says what is in doubt.")
    return Assumption(
        name,
        "holds",
        f"The two answers that need no labels correlate at {care.agreement:+.2f}. A bias that all judges share would "
        "look the same; labels or probes show it.",
    )


def _solved(data: ReportData) -> Assumption | None:
    name, failing = "The structure of the panel was solved", data.unconverged()
    if failing is not None:
        return Assumption(name, "violated", failing)
    if data.care_svd is None:
        return None
    return Assumption(name, "holds", "Its certificate is below the tolerance.")


def _aligned(data: ReportData) -> Assumption:
    left_out = sum(not check.admitted for check in data.checks)
    name = "Every judge scored the right items, and varies"
    if left_out:
        return Assumption(
            name, "violated", f"{left_out} of {len(data.checks)} judges were left out for it; see their cards."
        )
    return Assumption(name, "holds", f"All {len(data.checks)} judges were admitted.")


def _independent(data: ReportData) -> Assumption | None:
    if data.links is None:
        return None
    name = "Beyond what all share, no two judges err together"
    if data.links:
        return Assumption(
            name,
            "violated",
            f"{len(data.links)} pairs of judges are linked directly (see the graph). uws and care_tensor take them as "
            "independent; care_svd sets the links apart.",
        )
    return Assumption(name, "holds", "The structure has no direct link between two judges.")


def _families(data: ReportData) -> Assumption:
    declared = sum(judge in data.scores.families for judge in data.scores.judges)
    return Assumption(
        "Judges of one origin share a declared family",
        "not checked",
        f"{declared} of {data.scores.shape[1]} judges have a declared family; families are never guessed.",
    )


def _missing(data: ReportData) -> Assumption | None:
    if data.missing_share == 0:
        return None
    return Assumption(
        "Scores are missing for reasons that have nothing to do with quality",
        "not checked",
        f"{100 * data.missing_share:.1f} % of the scores are missing.",
    )


def _scale(data: ReportData) -> Assumption:
    return Assumption(
        "The panel's mean has the right location and spread",
        "not checked",
        "Estimates are placed on the scale of the panel's mean. Their order does not depend on it.",
    )
