"""Whether labels say that an answer is better without one of its judges.

To disagree with the others is no reason to drop a judge: where most judges share a bias, the one that disagrees may be
right. Only labels tell, and only enough of them.

The answer without a judge is that of a fit without it. Split units are dealt into two halves, and the items of each
half are answered by fits of the other half (cross-fitting), so that neither answer has been fitted to the items on
which the two are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from care_ops.config import Calibration, FitConfig
from care_ops.errors import FitError
from care_ops.fit import Watch, fit_panel, unwatched
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.frozen import FAITHFUL, Frozen, freeze, with_features
from care_ops.minimum_sizes import LABELS_TO_ADVISE, MIN_JUDGES
from care_ops.records import NO_REFITS, DropEvidence, Dropping
from care_ops.results.uncertainty import Spread, rows_by_unit
from care_ops.scores import Array, ScoreMatrix, content_seed

Rows = NDArray[np.intp]

MOST_JUDGES = 40
"""Most judges of a panel on which each is left out in turn: the cost grows with the cube of their number."""

MOST_ITEMS = 2_000
"""Most items of a refit; of more, so many are drawn."""

_MOST_LABELS = 1_000
"""Labels that are compared pair by pair; more are thinned evenly, because the pairs grow with their square."""

_HALVES = 2

_FALSE_ADVICE = 0.05
"""Share of panels, at most, in which chance advises to drop a judge that should stay."""


@dataclass(frozen=True)
class Refit:
    """What the fit of half of the items, without a judge, rests on."""

    scores: ScoreMatrix
    config: FitConfig
    anchors: FitLabels


def leave_each_out(
    scores: ScoreMatrix,
    config: FitConfig,
    aggregator: str,
    labels: Array,
    units: Sequence[str] | None = None,
    anchors: FitLabels = NO_LABELS,
    *,
    watch: Watch = unwatched,
    spread: Spread = map,
) -> Dropping:
    """Fit a panel without each of its judges in turn, and compare the answers by labels.

    Twice as many fits are made as there are judges, and two more, each of at most ``MOST_ITEMS`` items and of those
    whose label the fit has seen. None is made where the labels are too few, or the judges too many.

    Parameters
    ----------
    config, anchors : of the fit
    aggregator : str
        Whose answer is compared.
    labels : (n,) array
        Labels that the fit has not seen, of split units of which it has seen none; NaN where there is none.
    units : sequence of n str, optional
        Split unit of each item; by default each item is one of its own.
    spread : callable
        As in ``uncertainty.weight_intervals``.
    """
    names = units or scores.item_ids
    refused = _refused(scores, labels, names) if config.resamples else NO_REFITS
    if refused:
        return Dropping(refused=refused)
    rng = np.random.default_rng([content_seed(scores), config.seed])
    half_of = _halves(scores.item_ids, names, ~np.isnan(labels), rng)
    single = replace(config, aggregators=(aggregator,), calibration=Calibration())
    left_out: list[str | None] = [None, *scores.judges]
    answers = np.full((len(left_out), len(names)), np.nan)
    seen = np.flatnonzero([item in anchors.labels for item in scores.item_ids])
    most = 0
    try:
        for half in range(_HALVES):
            rows = np.union1d(drawn(scores.item_ids, np.flatnonzero(half_of != half), rng), seen)
            most = max(most, len(rows))
            answered = half_of == half
            fitted = scores.select_items(np.isin(np.arange(len(names)), rows))
            panels = (Refit(_without(fitted, judge), single, anchors) for judge in left_out)
            for k, frozen in enumerate(spread(frozen_refit, panels)):
                watch("the answer without each judge", half * len(left_out) + k, _HALVES * len(left_out))
                panel = _without(scores, left_out[k])
                answers[k, answered] = frozen.apply(with_features(panel.select_items(answered)))
    except FitError as error:
        return Dropping(refused=f"a fit on half of the items gave no answer that can be compared: {error}")
    evidence = {
        judge: evidence_by_labels(answers[0], answers[k + 1], labels, len(scores.judges), units=names, halves=half_of)
        for k, judge in enumerate(scores.judges)
    }
    known = {judge: each for judge, each in evidence.items() if each is not None}
    return Dropping(known, refits=_HALVES * len(left_out), items=most)


def _refused(scores: ScoreMatrix, labels: Array, names: Sequence[str]) -> str:
    """Why no refit is made, as the rest of a sentence; empty where nothing speaks against it."""
    known, judges = ~np.isnan(labels), len(scores.judges)
    units = len({name for name, labelled in zip(names, known, strict=True) if labelled})
    if units < LABELS_TO_ADVISE:
        return (
            f"only labels can say that a judge should go, and those of {units} split units that the fit has not seen "
            f"are too few. Label at least {LABELS_TO_ADVISE} items drawn at random"
        )
    if np.ptp(labels[known]) == 0:
        return "only labels can say that a judge should go, and all of them are alike"
    if judges <= MIN_JUDGES:
        return (
            f"the panel has {judges} judges, and without one of them nothing says which of the others is wrong where "
            "they differ"
        )
    if judges > MOST_JUDGES:
        return (
            f"to leave each of {judges} judges out takes {_HALVES * (judges + 1)} fits, which is done for up to "
            f"{MOST_JUDGES} judges only"
        )
    return ""


def _halves(
    item_ids: Sequence[str], names: Sequence[str], labelled: NDArray[np.bool_], rng: np.random.Generator
) -> Rows:
    """The half (0 or 1) of each item: split units in random order, dealt in turn, those with labels first."""
    members = rows_by_unit(item_ids, names)
    drawn = [members[k] for k in rng.permutation(len(members))]
    dealt = sorted(drawn, key=lambda rows: not labelled[rows].any())
    half_of = np.zeros(len(item_ids), dtype=np.intp)
    for turn, rows in enumerate(dealt):
        half_of[rows] = turn % _HALVES
    return half_of


def drawn(item_ids: Sequence[str], rows: Rows, rng: np.random.Generator, most: int = MOST_ITEMS) -> Rows:
    """At most so many of the rows; which ones does not depend on the order of the items."""
    if len(rows) <= most:
        return rows
    in_order = np.array(sorted(rows.tolist(), key=item_ids.__getitem__), dtype=np.intp)
    return np.sort(rng.choice(in_order, most, replace=False))


def _without(scores: ScoreMatrix, judge: str | None) -> ScoreMatrix:
    """The scores of the other judges."""
    return scores.select_judges([name for name in scores.judges if name != judge])


def frozen_refit(refit: Refit) -> Frozen:
    """The answer of a fit, as a function of one item; ``FitError`` where it is none."""
    (name,) = refit.config.aggregators
    solve = "roughly" if name == "care_svd" else "not"
    aggregates = fit_panel(refit.scores, refit.config, refit.anchors, solve=solve).aggregates
    frozen = freeze(with_features(refit.scores), aggregates[name].estimate)
    if frozen.fidelity < FAITHFUL:
        raise FitError(
            f"{name} does not follow from the scores of one item there (they explain {frozen.fidelity:.2f} of its "
            f"variance, {FAITHFUL} is asked); more items, or fewer missing scores, would help"
        )
    return frozen


def evidence_by_labels(
    whole: Array,
    without: Array,
    labels: Array,
    judges: int,
    *,
    units: Sequence[str] | None = None,
    halves: Rows | None = None,
) -> DropEvidence | None:
    """Compare an answer with the answer without one judge, by the pairs of labelled items.

    The interval is Student's t over the influence of each split unit, as of any ratio of two U-statistics; items of one
    unit may resemble one another as they like. Its level is adjusted for the number of judges (Bonferroni), see
    ``_FALSE_ADVICE``.

    Parameters
    ----------
    whole, without : (n,) array
        The two answers.
    labels : (n,) array
        NaN where there is none.
    judges : int
        How many judges are compared so.
    units : sequence of n str, optional
        Split unit of each item; by default each item is one of its own.
    halves : (n,) array of int, optional
        Items are compared with items of the same half only, as answers of different fits have scales of their own.

    Returns
    -------
    DropEvidence or None
        None where fewer than three split units are labelled, or all labels that are compared are alike.
    """
    rows = np.flatnonzero(~np.isnan(labels) & ~np.isnan(whole) & ~np.isnan(without))
    if len(rows) > _MOST_LABELS:
        rows = rows[np.linspace(0, len(rows) - 1, _MOST_LABELS).astype(np.intp)]
    unit_of = np.unique([units[int(row)] for row in rows], return_inverse=True)[1] if units else np.arange(len(rows))
    count = len(np.unique(unit_of))
    order = _signs(labels[rows])
    if halves is not None:
        order *= halves[rows][:, None] == halves[rows][None, :]
    if count < 3 or not order.any():
        return None
    better = (_signs(whole[rows]) - _signs(without[rows])) * order / 2
    pairs = np.abs(order).mean(axis=1)
    gain = float(better.mean() / pairs.mean())
    influence = np.bincount(unit_of, 2 * (better.mean(axis=1) - gain * pairs) / pairs.mean())
    error = float(np.sqrt(count / (count - 1) * (influence**2).sum())) / len(rows)
    half = float(student.ppf(1 - _FALSE_ADVICE / judges, count - 1)) * error
    needed = max(LABELS_TO_ADVISE, ceil(len(rows) * (half / gain) ** 2)) if gain != 0 else None
    return DropEvidence(len(rows), count, gain, gain - half, gain + half, needed)


def _signs(values: Array) -> Array:
    """The sign of every pair's difference, (n, n)."""
    return np.sign(values[:, None] - values[None, :])
