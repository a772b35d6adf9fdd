"""Share of pairwise comparisons that each system wins, estimated from labels of some comparisons.

A high score or label means that the left answer is better. For each system, a pair becomes an item whose label is the
system's share of the win: 1, .5 for a tie, or 0. The judges' position bias is subtracted from the estimates. Then
``rates`` or ``sequential`` computes the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from care_ops.errors import FitError, InputError, counted
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.results.rates import LEVEL, Difference, Labelled, Rate, Rates, Repeats
from care_ops.results.sequential import rates_at_looks
from care_ops.scores import Array

Pairs = Sequence[tuple[str, ...] | None]


@dataclass(frozen=True)
class Duels(Labelled):
    """Pairwise comparisons with estimates and labels; a label is the left system's share of the win, from 0 to 1.

    High estimates favour the left answer. Pairs of a system with itself are excluded. For the settings, such as
    ``level``, see ``rates_of``.
    """

    pairs: Pairs = ()
    level: float = LEVEL
    of_these_items: bool = True
    seed: int = 0

    @property
    def met(self) -> list[str]:
        """Sorted names of the systems that were paired with another system."""
        return sorted({name for pair in self.pairs if pair and pair[0] != pair[1] for name in pair})

    def rates(self) -> Rates:
        """Estimate each system's share of wins, best first; raise ``FitError`` if there are too few labels."""
        rates, left_out = list[Rate](), dict[str, str]()
        names = self.met
        for name in names[:1] if len(names) == 2 else names:
            try:
                rates.append(self._seen_by(name).rates[0])
            except FitError as error:
                left_out[name] = str(error)
        if not rates:
            raise FitError(
                "; ".join(left_out.values()) or "pairs: no pair has two different systems; give both columns of systems"
            )
        if len(names) == 2:  # the shares of two systems must sum to 1 exactly
            rates.append(_turned(rates[0], names[1]))
        best_first = sorted(rates, key=lambda rate: -rate.value)
        return Rates("share of wins", self.level, best_first, left_out, self.difference)

    def difference(self, first: str, second: str) -> Difference:
        """Return the share of wins of ``first`` minus the share of ``second`` in the pairs that compare the two.

        Raises ``InputError`` if there are no such pairs, ``FitError`` if fewer than ``MIN_LABELS`` of them have labels.
        """
        seen = self._seen_by(first, second)
        value, lo, hi = (2.0 * end - 1.0 for end in (seen.rates[0].value, seen.rates[0].lo, seen.rates[0].hi))
        return Difference(first, second, value, lo, hi)

    def _seen_by(self, system: str, opponent: str | None = None) -> Rates:
        seen = [
            (row, 1.0 if pair[0] == system else -1.0)
            for row, pair in enumerate(self.pairs)
            if pair and system in pair and pair[0] != pair[1] and (opponent is None or opponent in pair)
        ]
        if not seen:
            raise InputError(self._never_met(system, opponent))
        rows, side = np.array([row for row, _ in seen], dtype=np.intp), np.array([sign for _, sign in seen])
        labels = 0.5 + side * (self.labels[rows] - 0.5)
        count = int((~np.isnan(labels)).sum())
        if count < MIN_LABELS:
            against = "" if opponent is None else f" against {opponent}"
            lacking = f"the pairs of {system}{against} have {counted(count, 'label')}; {MIN_LABELS} are needed"
            raise FitError(f"{lacking}: label more of these pairs")
        answer, balanced = _turned_answer(self.estimate[rows], side)
        place = {row: k for k, (row, _) in enumerate(seen)}
        items = Labelled(
            answer,
            labels,
            units=None if self.units is None else [self.units[row] for row in place],
            chance=None if self.chance is None else self.chance[rows],
            repeats=None if self.repeats is None else Repeats(self.repeats.counts[rows], self.repeats.shares),
            order=None if self.order is None else [place[row] for row in self.order if row in place],
            bounds=(0.0, 1.0),
        )
        rates = rates_at_looks(items, level=self.level, of_these_items=self.of_these_items, seed=self.seed)
        won = float(np.mean(np.sign(answer[~np.isnan(answer)]))) / 2 + 0.5 if balanced else float("nan")
        return replace(rates, rates=[replace(rates.rates[0], system=system, by_judges=won)])

    def _never_met(self, system: str, opponent: str | None) -> str:
        for name in (system, opponent):
            if name is not None and name not in self.met:
                return f"no pair has the system {name!r}; choose from {', '.join(self.met) or 'no system'}"
        return f"no pair compares {system} with {opponent}; add pairs of these two systems"


def _turned_answer(estimate: Array, side: Array) -> tuple[Array, bool]:
    """Return estimates that are positive for the system on ``side`` (1 left, -1 right), and whether both sides occur.

    If both occur, the judges' position bias (the average of the mean estimates on the two sides) is subtracted.
    """
    known = ~np.isnan(estimate)
    sides = [estimate[known & (side == sign)] for sign in (1.0, -1.0)]
    both = all(len(values) for values in sides)
    bias = sum(float(values.mean()) for values in sides) / 2 if both else 0.0
    return side * (estimate - bias), both


def _turned(rate: Rate, system: str) -> Rate:
    value, lo, hi = 1 - rate.value, 1 - rate.hi, 1 - rate.lo
    return replace(rate, system=system, value=value, lo=lo, hi=hi, by_judges=1 - rate.by_judges)
