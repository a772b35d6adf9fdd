"""Coverage of items by judges, and messages about missing scores."""

from dataclasses import dataclass

import numpy as np

from care_ops.errors import counted, listed
from care_ops.minimum_sizes import MIN_SCORES
from care_ops.results.verdict import Reason
from care_ops.scores import ScoreMatrix
from care_ops.sparsity import FIT_GROUPS_REMEDY, components, is_sparse

_NAMED = 3


@dataclass(frozen=True)
class Group:
    """Group of judges that share no item with other judges, and the number of items that the group scored."""

    judges: tuple[str, ...]
    items: int


@dataclass(frozen=True)
class Coverage:
    """Coverage of a panel: missing scores, items with few scores, and groups of judges.

    Attributes
    ----------
    missing : int
        Number of item-judge pairs that have no score.
    few, unscored : int
        Number of items with one or two scores, and number of items without scores.
    not_asked : bool
        Whether a missing score means that the judge was not asked, and not that the judge failed.
    sparse : bool
        Whether most judges scored less than half of the items.
    groups : tuple of Group
        Groups of judges; judges of different groups share no item.
    lost : str
        Message about unscored items that had scores in the previous fit.
    """

    items: int
    judges: int
    missing: int
    few: int
    unscored: int
    not_asked: bool
    sparse: bool
    groups: tuple[Group, ...]
    lost: str = ""

    @property
    def mostly_few(self) -> bool:
        """Whether at least half of the scored items have fewer than three scores."""
        return self.few > 0 and 2 * self.few >= self.items - self.unscored

    def falls_into(self) -> str:
        """Return a sentence that lists groups of judges that share no item with the other groups."""
        named = [
            f"{listed(group.judges, _NAMED)} ({counted(len(group.judges), 'judge')}, {counted(group.items, 'item')})"
            for group in self.groups[:_NAMED]
        ]
        rest = len(self.groups) - _NAMED
        return (
            f"The judges fall into {len(self.groups):,} groups that share no item: {'; '.join(named)}"
            f"{f'; and {rest:,} more' if rest > 0 else ''}"
        )


def coverage_reasons(coverage: Coverage) -> list[Reason]:
    """Return reasons for a verdict: missing scores, items with few scores, and judges without common items."""
    reasons: list[Reason] = []
    if coverage.few:
        message = (
            f"{coverage.few:,} of {counted(coverage.items, 'item')} {'has' if coverage.few == 1 else 'have'} fewer "
            f"than {MIN_SCORES} scores, and with so few scores an estimate is little more than their mean. Add more "
            "judges."
        )
        reasons.append(Reason("few scores" if coverage.mostly_few else "missing scores", message))
    if len(coverage.groups) > 1:
        message = (
            f"{coverage.falls_into()}. The ranking is right only if quality has the same distribution in every group. "
            f"If this is uncertain, {FIT_GROUPS_REMEDY}."
        )
        reasons.append(Reason("not connected", message))
    if coverage.unscored:
        has, lost = "has" if coverage.unscored == 1 else "have", coverage.lost and f"; {coverage.lost}"
        message = f"{counted(coverage.unscored, 'item')} {has} no score and therefore no estimate"
        reasons.append(Reason("lost scores" if lost else "no answer", f"{message}{lost}. Add the missing scores."))
    if coverage.missing:
        assumed, otherwise, setting = "failed to give them", "were not asked", "not_asked"
        if coverage.not_asked:
            assumed, otherwise, setting = "were not asked", "failed", "failed"
        message = (
            f"{coverage.missing:,} of {coverage.items * coverage.judges:,} scores are missing. CARE assumes that the "
            f"judges {assumed}. If they {otherwise}, declare this: `--absent {setting}` (`absent` in Python, "
            f"`panel: {{absent: {setting}}}` in care.yaml)."
        )
        if coverage.not_asked and coverage.sparse:
            message += " With so few scores per judge, CARE cannot separate shared mistakes of judges from quality."
        reasons.append(Reason("condition" if coverage.sparse else "missing scores", message))
    return reasons


def coverage_of(scores: ScoreMatrix, *, not_asked: bool) -> Coverage:
    """Compute the coverage of a panel from its scores."""
    present = ~np.isnan(scores.values)
    by_item = present.sum(axis=1)
    return Coverage(
        items=scores.shape[0],
        judges=scores.shape[1],
        missing=int((~present).sum()),
        few=int(((by_item > 0) & (by_item < MIN_SCORES)).sum()),
        unscored=int((by_item == 0).sum()),
        not_asked=not_asked,
        sparse=is_sparse(scores.values),
        groups=tuple(
            Group(tuple(scores.judges[int(j)] for j in group.judges), len(group.items))
            for group in components(scores.values)
        ),
    )
