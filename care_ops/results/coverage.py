"""Coverage of items by judges, and the meaning of missing scores, in numbers and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import counted, listed
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import MIN_ITEMS_TO_COMPARE, MIN_SCORES
from care_ops.results.verdict import Reason
from care_ops.scores import Array, ScoreMatrix, mean_of_present
from care_ops.sparsity import components, is_sparse

_BY_CHANCE, _PLAIN = 4.0, 0.2
"""Standard errors of a rank correlation beyond chance, and the smallest one that is reported."""

_NEARLY_ALL = 0.95
"""Minimum share of scores before the end of a file that was cut off."""

_NAMED = 3
"""Most judges, and most groups, that a sentence names."""


@dataclass(frozen=True)
class Group:
    """Judges that share items only with one another, and the number of these items."""

    judges: tuple[str, ...]
    items: int


@dataclass(frozen=True)
class Coverage:
    """Coverage of a panel.

    Attributes
    ----------
    missing : int
        Number of missing scores among items times judges.
    few, unscored : int
        Items with one or two scores, and with none.
    not_asked : bool
        Whether a missing score was not requested, rather than a failure of its judge.
    sparse : bool
        Whether most judges scored less than half of the items.
    groups : tuple of Group
        Groups of judges that share no item.
    lost : str
        The unscored items that had scores in the previous fit, in words.
    absent_by_score : float
        Rank correlation over items of the number of missing scores with the mean of the others; 0 if by chance.
    """

    items: int
    judges: int
    missing: int
    few: int
    unscored: int
    not_asked: bool
    sparse: bool
    groups: tuple[Group, ...]
    absent_by_score: float = 0.0
    lost: str = ""

    @property
    def mostly_few(self) -> bool:
        """Whether half of the scored items have fewer than three scores."""
        return self.few > 0 and 2 * self.few >= self.items - self.unscored

    def falls_into(self) -> str:
        """Name the groups of judges that share no item."""
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
    """Return reasons about missing scores, items with few scores, and judges that share no item."""
    reasons: list[Reason] = []
    if coverage.few:
        message = (
            f"{coverage.few:,} of {counted(coverage.items, 'item')} {'has' if coverage.few == 1 else 'have'} fewer "
            f"than {MIN_SCORES} scores: where two judges differ, nothing shows which is wrong, so the estimates of "
            "such items are little more than the mean."
        )
        reasons.append(Reason("few scores" if coverage.mostly_few else "missing scores", message))
    if len(coverage.groups) > 1:
        message = (
            f"{coverage.falls_into()}. Items of different groups are compared as if quality were distributed alike in "
            "all of them, which no score shows."
        )
        reasons.append(Reason("not connected", message))
    if coverage.unscored:
        message = f"{counted(coverage.unscored, 'item')} {'has' if coverage.unscored == 1 else 'have'} no score, and no"
        lost = coverage.lost and f"; {coverage.lost}"
        reasons.append(Reason("lost scores" if lost else "no answer", f"{message} estimate{lost}."))
    if coverage.absent_by_score:
        where, worth = ("low", "worse") if coverage.absent_by_score < 0 else ("high", "better")
        message = (
            f"Scores are absent mostly where the others are {where} (rank correlation "
            f"{coverage.absent_by_score:+.2f}): items that lack some may be {worth} than they seem."
        )
        reasons.append(Reason("no answer", message))
    if coverage.missing:
        message = f"{coverage.missing:,} of {coverage.items * coverage.judges:,} scores are absent or outside the scale"
        if not coverage.not_asked:
            message += (
                "; they count as failures of their judges. Where judges were not asked, say so: `--absent not_asked`; "
                "where numbers outside are grades, declare them: `--scale LOW:HIGH`."
            )
        else:
            message += ", and count as not asked (if they are failures, declare `absent: failed`)."
            if coverage.sparse:
                message += " Of so few scores a judge, a mistake that several judges share cannot be told from quality."
        reasons.append(Reason("condition" if coverage.sparse else "missing scores", message))
    return reasons


def cut_off(scores: ScoreMatrix, judges: Sequence[str]) -> str:
    """Describe items that these judges all lack, as in a file that was cut off; empty otherwise."""
    given = ~np.isnan(scores.values[:, [scores.judges.index(judge) for judge in judges]])
    none = np.flatnonzero(~given.any(axis=1))
    if len(judges) < 2 or not 0 < len(none) < len(given) or np.delete(given, none, axis=0).mean() < _NEARLY_ALL:
        return ""
    where = f"the first is {scores.item_ids[none[0]]!r}: see whether the file of scores is whole"
    if none[0] == len(given) - len(none):
        where = f"all after item {scores.item_ids[none[0] - 1]!r}: the file of scores ends there, so give the whole one"
    return f"{len(judges):,} judges have no score of {len(none):,} of {counted(len(given), 'item')}, {where}."


def coverage_of(scores: ScoreMatrix, *, not_asked: bool) -> Coverage:
    """Compute the coverage of a panel."""
    present = ~np.isnan(scores.values)
    by_item = present.sum(axis=1)
    groups = tuple(
        Group(tuple(scores.judges[int(j)] for j in group.judges), len(group.items))
        for group in components(scores.values)
    )
    return Coverage(
        items=scores.shape[0],
        judges=scores.shape[1],
        missing=int((~present).sum()),
        few=int(((by_item > 0) & (by_item < MIN_SCORES)).sum()),
        unscored=int((by_item == 0).sum()),
        not_asked=not_asked,
        sparse=is_sparse(scores.values),
        groups=groups,
        absent_by_score=_absent_by_score(scores.values, by_item),
    )


def _absent_by_score(values: Array, present: NDArray[np.integer]) -> float:
    scored = int((present > 0).sum())
    if scored < MIN_ITEMS_TO_COMPARE or present.min() == present.max():
        return 0.0
    centred = values - mean_of_present(values)
    spread = np.sqrt(mean_of_present(centred**2))
    level = mean_of_present(centred / np.where(spread > 0, spread, 1.0), axis=1)
    found = rank_correlation(-present.astype(np.float64), level)
    return found if abs(found) > max(_BY_CHANCE / np.sqrt(scored), _PLAIN) else 0.0
