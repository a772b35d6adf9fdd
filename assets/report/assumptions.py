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
    order = ("violated", "not checked", "holds")
    return sorted((Assumption(*made) for made in _made(data)), key=lambda each: order.index(each.state))


def _made(data: ReportData) -> Iterator[tuple[str, State, str]]:
    """Each assumption that the page makes."""
    if (care := data.care) is not None:
        name = "The judges follow one thing, and that is quality"
        if "several answers" in care.doubts:
            yield name, "violated", "One factor does not explain how they agree; the verdict says what does not fit."
        elif care.doubts:
            yield name, "not checked", "The scores alone cannot say it; the verdict says what is in doubt."
        else:
            says = (
                f"The two answers that need no labels correlate at {care.agreement:+.2f}. A bias that all judges share "
                "would look the same; labels or probes show it."
            )
            yield name, "holds", says
    name = "The structure of the panel was solved"
    if (failing := data.unconverged()) is not None:
        yield name, "violated", failing
    elif data.care_svd is not None:
        yield name, "holds", "Its certificate is below the tolerance."
    name, count = "Every judge scored the right items, and varies", len(data.checks)
    if left_out := sum(not check.admitted for check in data.checks):
        yield name, "violated", f"{left_out} of {count} judges were left out for it; see their cards."
    else:
        yield name, "holds", f"All {count} judges were admitted."
    name = "Beyond what all share, no two judges err together"
    if data.links:
        says = (
            f"{len(data.links)} pairs of judges are linked directly (see the graph). uws and care_tensor take them as "
            "independent; care_svd sets the links apart."
        )
        yield name, "violated", says
    elif data.links is not None:
        yield name, "holds", "The structure has no direct link between two judges."
    name, declared = "Judges of one origin share a declared family", sum(j in data.scores.families for j in data.judges)
    says = f"{declared} of {data.scores.shape[1]} judges have a declared family; families are never guessed."
    yield name, "not checked", says
    if data.missing_share > 0:
        name = "Scores are missing for reasons that have nothing to do with quality"
        yield name, "not checked", f"{100 * data.missing_share:.1f} % of the scores are missing."
    name = "The panel's mean has the right location and spread"
    says = "Estimates are placed on the scale of the panel's mean. Their order does not depend on it."
    yield name, "not checked", says
