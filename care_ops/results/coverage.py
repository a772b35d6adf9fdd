"""Which items were scored by how many judges, and what an absent score was taken for, in numbers and in sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import counted, listed
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import MIN_ITEMS_TO_COMPARE, MIN_SCORES
from care_ops.scores import Array, ScoreMatrix, mean_of_present
from care_ops.sparsity import components, is_sparse

_BY_CHANCE, _PLAIN = 4.0, 0.2
"""Standard errors of a rank correlation that chance does not reach, and the least one that is worth saying."""

_NEARLY_ALL = 0.95
"""Least share of scores that judges have given of the items that they have scored, where a file was cut off."""

_NAMED = 3
"""Most judges, and most groups, that a sentence names."""


@dataclass(frozen=True)
class Group:
    """Judges that share items with one another and with no other judge, and how many items these are."""

    judges: tuple[str, ...]
    items: int


@dataclass(frozen=True)
class Coverage:
    """Who scored what.

    Attributes
    ----------
    missing : int
        Scores that are absent, of items times judges.
    few : int
        Items with at least one score and fewer than three.
    unscored : int
        Items without a score.
    not_asked : bool
        Whether an absent score was taken for one that was not asked, and not for a failure of its judge.
    sparse : bool
        Whether most judges scored less than half of the items.
    groups : tuple of Group
        Groups of judges that share no item; one where all are connected.
    lost : str
        Which of these had one in the fit before, in words; empty where none had.
    absent_by_score : float
        Rank correlation, over items with a score, of how many scores are absent with how high the others are; 0 where
        chance explains it.
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
        """Whether half of the scored items or more have fewer than three scores."""
        return self.few > 0 and 2 * self.few >= self.items - self.unscored

    def on_groups(self) -> str | None:
        """That some judges share no item with the others; None where all are connected."""
        if len(self.groups) < 2:
            return None
        return (
            f"{self.falls_into()}. Items of different groups are compared as if quality were distributed alike in all "
            "of them, which no score shows."
        )

    def falls_into(self) -> str:
        """The groups of judges that share no item, as a sentence."""
        named = [
            f"{listed(group.judges, _NAMED)} ({counted(len(group.judges), 'judge')}, {counted(group.items, 'item')})"
            for group in self.groups[:_NAMED]
        ]
        rest = len(self.groups) - _NAMED
        return (
            f"The judges fall into {len(self.groups):,} groups that share no item: {'; '.join(named)}"
            f"{f'; and {rest:,} more' if rest > 0 else ''}"
        )

    def on_few_scores(self) -> str | None:
        """That items have fewer than three scores; None where none has."""
        if not self.few:
            return None
        return (
            f"{self.few:,} of {counted(self.items, 'item')} {'has' if self.few == 1 else 'have'} fewer than "
            f"{MIN_SCORES} scores: where two judges differ, nothing says which is wrong, so the estimates of such "
            "items are little more than guesses drawn towards the mean."
        )

    def on_missing_scores(self) -> str | None:
        """What absent scores were taken for; None where there are none."""
        if not self.missing:
            return None
        absent = f"{self.missing:,} of {self.items * self.judges:,} scores are absent or outside the scale"
        if not self.not_asked:
            return (
                f"{absent}; they count as failures of their judges. Where judges were not asked, say so: "
                "`--absent not_asked`; where numbers outside are grades, declare them: `--scale LOW:HIGH`."
            )
        counts = f"{absent}, and count as not asked (where they are failures, `absent: failed` says so)."
        few = "Of so few scores a judge, a mistake that several judges share cannot be told from quality."
        return f"{counts} {few}" if self.sparse else counts

    def on_absent_by_score(self) -> str | None:
        """That scores are absent where the others are low, or high; None where that is not so."""
        if not self.absent_by_score:
            return None
        low = self.absent_by_score < 0
        return (
            f"Scores are absent mostly where the others are {'low' if low else 'high'} (rank correlation "
            f"{self.absent_by_score:+.2f}): items that lack some may be {'worse' if low else 'better'} than they seem."
        )

    def on_unscored(self) -> str | None:
        """That items have no score, and so no answer; None where all have one."""
        if not self.unscored:
            return None
        have = "has" if self.unscored == 1 else "have"
        return f"{counted(self.unscored, 'item')} {have} no score, and no answer{self.lost and f'; {self.lost}'}."


def cut_off(scores: ScoreMatrix, judges: Sequence[str]) -> str:
    """That these judges have no score of the same items, as where a file was cut off; empty where that is not so."""
    given = ~np.isnan(scores.values[:, [scores.judges.index(judge) for judge in judges]])
    none = np.flatnonzero(~given.any(axis=1))
    if len(judges) < 2 or not 0 < len(none) < len(given) or np.delete(given, none, axis=0).mean() < _NEARLY_ALL:
        return ""
    where = f"the first is {scores.item_ids[none[0]]!r}: see whether the file of scores is whole"
    if none[0] == len(given) - len(none):
        where = f"all after item {scores.item_ids[none[0] - 1]!r}: the file of scores ends there, so give the whole one"
    return f"{len(judges):,} judges have no score of {len(none):,} of {counted(len(given), 'item')}, {where}."


def coverage_of(scores: ScoreMatrix, *, not_asked: bool) -> Coverage:
    """The coverage of a panel's scores."""
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
