"""Mean label of each system, estimated from a few labels and the scores of all items.

The mean of the estimates over a system's items has the bias of the judges. Labels of a random sample correct this bias
if the estimates were fitted without these labels.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import FitError, InputError, counted
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.models.factor_analysis import normal_scores
from care_ops.models.label_means import draw_means, variance_within
from care_ops.models.passing import System, draw_shares
from care_ops.scores import Array, rows_of, varies

DRAWS = 4_000

LEVEL = 0.9
"""Default coverage of intervals."""

KINDS = {
    "share": "share that people pass",
    "mean": "mean label",
    "share of wins": "win rate against other systems; a tie counts as half a win",
}
"""Description of each kind of rate."""

ALL = "all items"
"""Name of the system of all items if no systems are given."""


@dataclass(frozen=True)
class Rate:
    """Estimated rate of one system, with intervals.

    Attributes
    ----------
    value, lo, hi : float
        Posterior mean and equal-tailed interval of the mean label. For labels 0 and 1, the mean is the share of passes.
    by_judges : float
        Mean of the estimates without correction by labels, in the unit of the estimates.
    """

    system: str
    value: float
    lo: float
    hi: float
    items: int
    labels: int
    by_judges: float


@dataclass(frozen=True)
class Repeats:
    """Weight of each item's mean label relative to a single label, and whether all single labels are 0 or 1."""

    counts: Array
    shares: bool


@dataclass(frozen=True)
class Labelled:
    """Estimates of n items, and labels of some of these items.

    Attributes
    ----------
    estimate : (n,) array
        Estimate fitted without the labels, or NaN; for labels of 0 and 1, only the order of the estimates is used.
    labels : (n,) array
        Label of each item; NaN marks a missing label.
    systems : sequence of n str or None, optional
        System of each item; None for an item without a system. By default, all items belong to one system.
    units : sequence of n str, optional
        Split unit of each item, for a design effect.
    chance : (n,) array, optional
        Probability with which each labelled item was drawn; equal by default.
    repeats : Repeats, optional
        Weights of the labels, if some items have several labels.
    order : sequence of int, optional
        Labelled rows in the order of labelling, for ``sequential``; ``chance`` and ``repeats`` are then unused.
    bounds : (lo, hi), optional
        Range of a label for ``sequential``; 0 and 1 by default.
    """

    estimate: Array
    labels: Array
    systems: Sequence[str | None] | None = None
    units: Sequence[str] | None = None
    chance: Array | None = None
    repeats: Repeats | None = None
    order: Sequence[int] | None = None
    bounds: tuple[float, float] | None = None

    def rows_by_system(self) -> dict[str, NDArray[np.intp]]:
        """Return the rows of each system, sorted by name."""
        names = [ALL] * len(self.labels) if self.systems is None else self.systems
        named = np.flatnonzero([name is not None for name in names])
        rows = rows_of(str(names[int(row)]) for row in named)
        return {name: named[rows[name]] for name in sorted(rows)}


def labels_needed(rate: Rate, half_width: float) -> int:
    """Compute the number of labels needed for an interval of +- ``half_width``.

    The variance with m labels of N items is proportional to 1/m - 1/N. Raises ``InputError`` unless ``half_width`` > 0.
    """
    if half_width <= 0:
        raise InputError(f"rates: the half width of an interval must be above 0, got {half_width:g}; try 0.05")
    open_share = 1.0 / rate.labels - 1.0 / rate.items
    if open_share <= 0:
        return rate.labels
    unit = ((rate.hi - rate.lo) / 2) ** 2 / open_share
    return math.ceil(1.0 / (half_width**2 / unit + 1.0 / rate.items) - 1e-9) if unit > 0 else rate.labels


@dataclass(frozen=True)
class Difference:
    """Difference between two rates, ``first`` minus ``second``, with an interval."""

    first: str
    second: str
    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Rates:
    """Rates of one ``kind`` (share, mean or share of wins), best first, and reasons why other systems have no rate."""

    kind: str
    level: float
    rates: list[Rate]
    left_out: dict[str, str]
    _compare: Callable[[str, str], Difference] = field(repr=False, compare=False)

    def difference(self, first: str, second: str) -> Difference:
        """Return the difference between the rates of two systems; shares of wins come from the pairs that compare them.

        Raises ``InputError`` if a rate or such pairs are missing, ``FitError`` if too few of these pairs have labels.
        """
        known = {rate.system for rate in self.rates}
        if missing := [name for name in (first, second) if name not in known]:
            choices = ", ".join(sorted(known)) or "none"
            raise InputError(f"rates: there is no rate for {', '.join(missing)}; choose from {choices}")
        return self._compare(first, second)


def rates_of(given: Labelled, *, level: float = LEVEL, of_these_items: bool = True, seed: int = 0) -> Rates:
    """Estimate the mean label of each system, by regressing labels on estimates to predict the unlabelled items.

    Parameters
    ----------
    of_these_items : bool
        Whether to estimate the mean over these items; otherwise, over the population from which they were drawn.

    Raises
    ------
    InputError
        The level or a probability lies outside (0, 1].
    FitError
        No system has ``MIN_LABELS`` labels.
    """
    by_name, labels = given.rows_by_system(), given.labels
    chance = _checked(labels, given.chance, level)
    repeats = given.repeats
    if repeats is None:
        repeats = Repeats(np.ones(len(labels)), bool(np.isin(labels[~np.isnan(labels)], (0.0, 1.0)).all()))
    binary = repeats.shares
    score = item_scores(given.estimate, shares=binary)
    systems, left_out = _with_labels(by_name, score, labels, chance, repeats.counts)
    systems = systems if given.units is None else _discounted(systems, by_name, given.units)
    rng = np.random.default_rng(seed)
    within = None if binary else variance_within([*systems.values()])
    draws: dict[str, Array] = {}
    for name, system in systems.items():
        if binary:
            draws[name] = draw_shares(_for_parameters(system), DRAWS, rng, of_these_items=of_these_items)
        else:
            draws[name] = draw_means(system, DRAWS, rng, of_these_items=of_these_items, within=within)
    rates = [_rate(name, s, draws[name], given.estimate[by_name[name]], level) for name, s in systems.items()]
    kind, best_first = "share" if binary else "mean", sorted(rates, key=lambda rate: -rate.value)
    return Rates(
        kind, level, best_first, left_out, lambda a, b: Difference(a, b, *_summary(draws[a] - draws[b], level))
    )


def _rate(name: str, system: System, draws: Array, estimate: Array, level: float) -> Rate:
    known = estimate[~np.isnan(estimate)]
    by_judges = float(known.mean()) if len(known) else float("nan")
    return Rate(name, *_summary(draws, level), len(system.scores), len(system.labels), by_judges)


def _with_labels(
    by_name: dict[str, NDArray[np.intp]], score: Array, labels: Array, chance: Array, counts: Array
) -> tuple[dict[str, System], dict[str, str]]:
    """Return systems with enough labels, and messages about other systems; raise ``FitError`` if all have too few."""
    systems: dict[str, System] = {}
    left_out: dict[str, str] = {}
    for name, rows in by_name.items():
        labelled = np.flatnonzero(~np.isnan(labels[rows]))
        if len(labelled) < MIN_LABELS:
            left_out[name] = f"{counted(len(labelled), 'label')}; {MIN_LABELS} are needed"
            continue
        seen = rows[labelled]
        weights = _weights(chance[seen]) * counts[seen]
        systems[name] = System(score[rows], labelled, labels[seen], weights, chosen=bool(np.ptp(chance[seen]) > 0))
    if not systems:
        message = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise FitError(f"rates: no system has {MIN_LABELS} labels ({message}); label more items")
    return systems, left_out


def _checked(labels: Array, chance: Array | None, level: float) -> Array:
    if not 0 < level < 1:
        raise InputError(f"rates: the level of intervals must be above 0 and below 1, got {level:g}; try 0.9")
    chance = np.ones(len(labels)) if chance is None else chance
    drawn = chance[~np.isnan(labels)]
    if np.isnan(drawn).any() or (drawn <= 0).any() or (drawn > 1).any():
        raise InputError("rates: a sampling probability is missing or not in (0, 1]; give one for each labelled item")
    return chance


def _weights(chance: Array) -> Array:
    """Scale inverse probabilities to sum to the effective number of labels (Kish, Survey Sampling, 1965)."""
    inverse = 1.0 / chance
    return inverse * inverse.sum() / np.sum(inverse**2)


def item_scores(estimate: Array, *, shares: bool) -> Array:
    """Standardise estimates, with 0 for a missing one; if labels are shares, use the normal scores of the estimates."""
    if shares:
        estimate = normal_scores(estimate[:, None])[:, 0]
    known = ~np.isnan(estimate)
    spread = float(estimate[known].std()) if varies(estimate) else 0.0
    return np.where(known, (estimate - estimate[known].mean()) / spread, 0.0) if spread > 0 else np.zeros(len(estimate))


def _discounted(
    systems: dict[str, System], rows_by_name: dict[str, NDArray[np.intp]], units: Sequence[str]
) -> dict[str, System]:
    """Reduce label weights by the design effect of split units, estimated from residual correlations within units."""
    products, squares, pairs, members = 0.0, 0.0, 0, 0
    sizes: dict[str, float] = {}
    for name, system in systems.items():
        x, y = system.scores[system.labelled], system.labels
        slope = float(np.cov(x, y)[0, 1] / np.var(x, ddof=1)) if np.ptp(x) > 0 else 0.0
        residual = y - y.mean() - slope * (x - x.mean())
        groups = rows_of(units[int(row)] for row in rows_by_name[name][system.labelled]).values()
        sizes[name] = sum(len(group) ** 2 for group in groups) / len(y)
        squares, members = squares + float(residual @ residual), members + len(y)
        for group in groups:
            total, own = float(residual[group].sum()), float(residual[group] @ residual[group])
            products, pairs = products + total**2 - own, pairs + len(group) * (len(group) - 1)
    alike = max(0.0, (products / pairs) / (squares / members)) if pairs and squares > 0 else 0.0
    return {
        name: replace(
            s,
            weights=s.weights / (1.0 + alike * (sizes[name] - 1.0)),
            alike=_of_units(s.scores, [units[int(row)] for row in rows_by_name[name]]),
        )
        for name, s in systems.items()
    }


def _of_units(scores: Array, units: Sequence[str]) -> float:
    """Compute the design effect of split units on the mean of scores, at least 1."""
    deviation = scores - scores.mean()
    sums = np.array([deviation[group].sum() for group in rows_of(units).values()])
    by_items, count = float(deviation @ deviation), len(sums)
    return max(1.0, float(sums @ sums) / by_items * count / max(count - 3, 0.5)) if by_items > 0 else 1.0


def _for_parameters(system: System) -> System:
    """Multiply label weights by 1 - k / m, or by one half if this is larger, for k regression parameters and m labels.

    Without this reduction, 90 % intervals from 20 labels have a coverage of .88.
    """
    parameters = 1.0 + (np.ptp(system.scores[system.labelled]) > 0)
    return replace(system, weights=system.weights * max(1.0 - parameters / len(system.labels), 0.5))


def _summary(draws: Array, level: float) -> tuple[float, float, float]:
    lo, hi = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(draws.mean()), float(lo), float(hi)
