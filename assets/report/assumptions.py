"""What a page's numbers rest on, and which of it the panel was seen to violate."""

from collections.abc import Iterator
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
    made = [*_one_answer(data), *_solved(data), _aligned(data), *_independent(data)]
    declared = sum(judge in data.scores.families for judge in data.scores.judges)
    made.append(
        Assumption(
            "Judges of one origin share a declared family",
            "not checked",
            f"{declared} of {data.scores.shape[1]} judges have a declared family; families are never guessed.",
        )
    )
    if data.missing_share > 0:
        name = "Scores are missing for reasons that have nothing to do with quality"
        made.append(Assumption(name, "not checked", f"{100 * data.missing_share:.1f} % of the scores are missing."))
    made.append(
        Assumption(
            "The panel's mean has the right location and spread",
            "not checked",
            "Estimates are placed on the scale of the panel's mean. Their order does not depend on it.",
        )
    )
    order = ("violated", "not checked", "holds")
    return sorted(made, key=lambda each: order.index(each.state))


def _one_answer(data: ReportData) -> Iterator[Assumption]:
    care, name = data.care, "The judges follow one thing, and that is quality"
    if care is None:
        return
    if "several answers" in care.doubts:
        says = "One factor does not explain how they agree; the verdict says what does not fit."
        yield Assumption(name, "violated", says)
    elif care.doubts:
        yield Assumption(name, "not checked", "The scores alone cannot say it; the verdict says what is in doubt.")
    else:
        says = (
            f"The two answers that need no labels correlate at {care.agreement:+.2f}. A bias that all judges share "
            "would look the same; labels or probes show it."
        )
        yield Assumption(name, "holds", says)


def _solved(data: ReportData) -> Iterator[Assumption]:
    name, failing = "The structure of the panel was solved", data.unconverged()
    if failing is not None:
        yield Assumption(name, "violated", failing)
    elif data.care_svd is not None:
        yield Assumption(name, "holds", "Its certificate is below the tolerance.")


def _aligned(data: ReportData) -> Assumption:
    name, count = "Every judge scored the right items, and varies", len(data.checks)
    if left_out := sum(not check.admitted for check in data.checks):
        return Assumption(name, "violated", f"{left_out} of {count} judges were left out for it; see their cards.")
    return Assumption(name, "holds", f"All {count} judges were admitted.")


def _independent(data: ReportData) -> Iterator[Assumption]:
    name = "Beyond what all share, no two judges err together"
    if data.links:
        says = (
            f"{len(data.links)} pairs of judges are linked directly (see the graph). uws and care_tensor take them as "
            "independent; care_svd sets the links apart."
        )
        yield Assumption(name, "violated", says)
    elif data.links is not None:
        yield Assumption(name, "holds", "The structure has no direct link between two judges.")
