"""What responses to probes say: of each judge, and of each answer that a panel allows.

A version that spoils quality makes an order that is known: the original is better. A version that keeps it makes a tie
that is known. Both are evidence for or against a hypothesis about quality, as paired comparisons are in Thurstone's
model with ties (Glenn and David, Biometrika 1960), with the slope and the noise that labels have
(``models.label_model``). Items count once however many versions they have, and all of them together count as at most
``WORTH`` labelled items: the versions differ far more than answers do, so that their number says little about the finer
grades.

Weights of their own are those of a linear discriminant with a diagonal nuisance: how far a judge falls when quality is
spoilt, over how far it moves when quality is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import t

from care_ops.least import LEAST_ITEMS
from care_ops.models.label_model import NOISES, SLOPE
from care_ops.probes import ProbeResponses
from care_ops.scores import Array, mean_of_present

WORTH = 10.0
"""Labelled items that all probes together may count as."""

ORDINARY_NUISANCE = 0.3
"""Variance of a judge beside quality that no dress shows, in that of its scores."""

OWN_PRIOR = 0.25
"""Prior probability of the hypothesis that quality follows the probes' own weights; the others share the rest."""

OWN = "probes"
"""Name of that hypothesis."""

_LEVEL = 0.95
_FOLDS = 5
_SIGNS = 999
_NOISE = NOISES[len(NOISES) // 2]


@dataclass(frozen=True)
class Hypothesis:
    """The hypothesis that quality follows ``score``, (n,), of mean 0 and variance 1, and its probability."""

    name: str
    score: Array
    prior: float


@dataclass(frozen=True)
class KindResponse:
    """How judges respond to one kind of version, in their standard deviations.

    Attributes
    ----------
    items : (p,) array of int
        Items of which both the original and a version have a score.
    mean : (p,) array
        Mean change; below zero where versions score lower. NaN where fewer than two items are scored.
    low, high : (p,) arrays
        Interval of 95 % for the mean, by items.
    moved : (p,) array
        Root mean square of the change.
    """

    kind: str
    spoils: bool
    items: NDArray[np.intp]
    mean: Array
    low: Array
    high: Array
    moved: Array

    def rows(self) -> list[dict[str, float | int | None]]:
        """Plain numbers of each judge, None where there is none."""
        columns = {"items": self.items, "mean": self.mean, "low": self.low, "high": self.high, "moved": self.moved}
        return [
            {name: None if column[j] != column[j] else column[j].item() for name, column in columns.items()}
            for j in range(len(self.mean))
        ]


def responses_by_kind(probes: ProbeResponses, sd: Array) -> list[KindResponse]:
    """How each judge responds to each kind, kinds that keep quality first.

    Parameters
    ----------
    sd : (p,) array
        Standard deviation of each judge over the items of the panel.
    """
    return [
        _response(kind, spoil, probes.by_item(kind)[1] / sd)
        for spoil in (False, True)
        for kind in probes.names(spoil=spoil)
    ]


def response_a_fact(probes: ProbeResponses, sd: Array, facts: Mapping[str, int]) -> KindResponse | None:
    """How judges respond to each fact that is exchanged: the slope, by item, of the change over the number of facts.

    The line goes through the original, at which nothing is exchanged. None where there are no versions of these kinds.

    Parameters
    ----------
    probes, sd : as in ``responses_by_kind``
    facts : mapping kind -> number
        Facts that are exchanged in a version of each graded kind, at least one.
    """
    graded = [kind for kind in sorted(facts) if kind in set(probes.kinds)]
    if not graded:
        return None
    items = tuple(sorted(set(probes.item_ids)))
    changes = _stacked(probes, items, graded) / sd
    number = np.array([facts[kind] for kind in graded], dtype=np.float64)[:, None]
    present = ~np.isnan(changes)
    squares = np.sum(present * number**2, axis=1)
    slopes = np.sum(np.where(present, number * changes, 0.0), axis=1) / np.where(squares > 0, squares, np.nan)
    return _response("a fact", True, slopes)


def _response(kind: str, spoils: bool, changes: Array) -> KindResponse:
    mean, error, count = _mean_and_error(changes)
    half = t.ppf((1 + _LEVEL) / 2, np.maximum(count - 1, 1)) * error
    moved = np.sqrt(mean_of_present(changes**2))
    return KindResponse(kind, spoils, count, mean, mean - half, mean + half, moved)


@dataclass(frozen=True)
class FallsAndMoves:
    """Responses of a panel, ready to weigh hypotheses.

    Attributes
    ----------
    asked : (p,) array of bool
        Judges that have responses; the others were recorded, or are new.
    falls : (items, spoiling kinds, asked judges) array
        Score of the original less that of the version, in the judge's standard deviations; NaN where there is none.
    moves : (items, keeping kinds, asked judges) array
        Score of the version less that of the original.
    """

    asked: NDArray[np.bool_]
    falls: Array
    moves: Array

    @property
    def worth(self) -> float:
        """Labelled items that the probes count as."""
        return min(WORTH, float((~np.isnan(self.falls).all(axis=(1, 2))).sum()))

    @cached_property
    def signal(self) -> float:
        """Share of the judges' falls that chance does not explain, 0 to 1; 0 says that probes tell nothing.

        The size of the falls is the sum of the squared mean falls of the judges that fall. What chance may make of it
        is the 95 % quantile of the same sum where each item's change has a random sign, as it has where nobody
        responds: this keeps what judges share and how heavy their tails are. Falls are in standard deviations and not
        in their errors, so that a judge that falls by next to nothing, but always, tells next to nothing.
        """
        by_item = mean_of_present(self.falls, 1)
        count = (~np.isnan(by_item)).sum(axis=0)
        by_item, count = np.nan_to_num(by_item[:, count >= LEAST_ITEMS]), count[count >= LEAST_ITEMS]
        size = float(_size_of_falls(by_item.sum(axis=0) / count))
        if size == 0:
            return 0.0
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (_SIGNS, len(by_item)))
        by_chance = _size_of_falls(signs @ by_item / count)
        return max(0.0, 1.0 - float(np.quantile(by_chance, _LEVEL)) / size)

    def by_chance(self, covariance: Array) -> float:
        """How often falls that say nothing of how judges agree would fit that as well as these do, above 0 to 1.

        Judges that fall as closely as they follow quality fall along what they share over the items, the finer grades
        too: f' C^-1 f is then small. What chance makes of it is the same of falls that are dealt to the judges anew.

        Parameters
        ----------
        covariance : (asked judges, asked judges) array
            Covariance of the standardised scores.
        """
        falls = np.maximum(np.nan_to_num(mean_of_present(mean_of_present(self.falls, 1))), 0.0)
        dealt = np.random.default_rng(0).permuted(np.tile(falls, (_SIGNS, 1)), axis=1)
        along = np.linalg.inv(covariance + ORDINARY_NUISANCE * np.eye(len(falls)))
        here, others = float(falls @ along @ falls), np.einsum("ij,jk,ik->i", dealt, along, dealt)
        return float(1 + np.sum(others <= here + 1e-9 * abs(here))) / (1 + _SIGNS)

    def own_weights(self, items: NDArray[np.bool_] | None = None) -> Array:
        """Weight of each asked judge: its fall over its moves.

        Kinds are put on one scale first, so that a gross one does not drown those that take little away, to which a
        judge of finer grades responds. The fall is shrunk by its standard error, so that a judge that does not respond
        surely has no weight; neither has one that scores spoilt versions higher.

        Parameters
        ----------
        items : (items,) array of bool, optional
            Those that count; all by default.
        """
        keep = np.ones(len(self.falls), dtype=bool) if items is None else items
        fall, error, _ = _mean_and_error(mean_of_present(_on_one_scale(self.falls[keep]), 1))
        fall, error = np.nan_to_num(fall), np.nan_to_num(error)
        shrunk = np.where(fall > error, fall - error**2 / np.where(fall > 0, fall, 1.0), 0.0)
        nuisance = np.nan_to_num(mean_of_present(mean_of_present(self.moves[keep] ** 2, 1)))
        return shrunk / (nuisance + ORDINARY_NUISANCE)

    def log_evidence(self, weights: Array) -> float:
        """Log evidence for the hypothesis that quality follows ``weights``.

        Parameters
        ----------
        weights : (asked judges,) array
            Of the standardised judges, such that the score has variance one over the panel's items.
        """
        return self.worth * float(np.nanmean(self._by_item(weights)))

    def own_log_evidence(self, covariance: Array) -> float:
        """Log evidence for the probes' own weights, each item judged by weights from the other folds of items.

        Parameters
        ----------
        covariance : (asked judges, asked judges) array
            Covariance of the standardised scores.
        """
        fold = np.arange(len(self.falls)) % _FOLDS
        by_item = np.full(len(self.falls), np.nan)
        for k in range(_FOLDS):
            weights = unit_variance(self.own_weights(fold != k), covariance)
            by_item[fold == k] = self._by_item(weights)[fold == k]
        return self.worth * float(np.nanmean(by_item))

    def _by_item(self, weights: Array) -> Array:
        """Mean log likelihood of each item's orders, plus that of its ties; NaN where it has no spoilt version."""
        fall = SLOPE * np.nansum(self.falls * weights, axis=2) / (_NOISE * np.sqrt(2.0))
        move = SLOPE * np.nansum(self.moves * weights, axis=2) / (_NOISE * np.sqrt(2.0))
        orders = np.where(np.isnan(self.falls).all(axis=2), np.nan, log_ndtr(fall))
        ties = np.where(np.isnan(self.moves).all(axis=2), np.nan, -0.5 * move**2)
        return mean_of_present(orders, 1) + np.nan_to_num(mean_of_present(ties, 1))


def evidence_of(probes: ProbeResponses, sd: Array) -> FallsAndMoves | None:
    """The evidence of a panel's probes; None where chance explains how judges respond to spoilt versions.

    Versions that keep quality say nothing alone: a score that follows nothing at all does not move with them either.

    Parameters
    ----------
    probes, sd : as in ``measured``
    """
    evidence = measured(probes, sd)
    return evidence if evidence is not None and evidence.signal > 0 else None


def measured(probes: ProbeResponses, sd: Array) -> FallsAndMoves | None:
    """Responses of a panel, whether or not they say anything; None where no judge was asked about a spoilt version.

    Parameters
    ----------
    probes : ProbeResponses
        With the panel's judges in the panel's order (``ProbeResponses.of_judges``).
    sd : (p,) array
        Standard deviation of each judge over the items of the panel.
    """
    if not len(probes) or not probes.names(spoil=True):
        return None
    asked: NDArray[np.bool_] = ~np.all(np.isnan(probes.changes), axis=0)
    if not asked.any():
        return None
    items = tuple(sorted(set(probes.item_ids)))
    falls = -_stacked(probes, items, probes.names(spoil=True)) / sd
    moves = _stacked(probes, items, probes.names(spoil=False)) / sd
    return FallsAndMoves(asked, falls[:, :, asked], moves[:, :, asked])


def weigh(hypotheses: list[Hypothesis], evidence: FallsAndMoves, judges: Array) -> list[Hypothesis]:
    """The hypotheses and the probes' own, each with its probability given the probes in place of its prior.

    A hypothesis is read as the score of the judges that were asked which is nearest to its own.

    Parameters
    ----------
    hypotheses : list of Hypothesis
        At least one; their priors add to one.
    judges : (n, p) array
        Standardised scores, missing ones as 0.
    """
    asked = judges[:, evidence.asked]
    covariance = asked.T @ asked / len(asked)
    own = asked @ unit_variance(evidence.own_weights(), covariance)
    nearest = np.linalg.lstsq(asked, np.column_stack([h.score for h in hypotheses]), rcond=None)[0].astype(np.float64)
    logs = [
        np.log((1 - OWN_PRIOR) * hypothesis.prior) + evidence.log_evidence(weights)
        for hypothesis, weights in zip(hypotheses, nearest.T, strict=True)
    ]
    logs.append(np.log(OWN_PRIOR) + evidence.own_log_evidence(covariance))
    probability = np.exp(np.array(logs) - max(logs))
    probability = probability / probability.sum()
    scores = [(h.name, h.score) for h in hypotheses] + [(OWN, own)]
    return [Hypothesis(*of, float(share)) for of, share in zip(scores, probability, strict=True)]


def doubted(told: list[Hypothesis], signal: float, otherwise: Mapping[str, float]) -> list[Hypothesis]:
    """The hypotheses as probes tell them apart, so far as responses are not noise; for the rest as they are otherwise.

    So an answer moves little where responses are hardly more than noise, and it does not jump where they cease to be.

    Parameters
    ----------
    told : list of Hypothesis
        As ``weigh`` returns them.
    signal : float
        ``FallsAndMoves.signal``.
    otherwise : mapping name -> probability
        Without the probes; a hypothesis that is not named has none.
    """
    return [replace(h, prior=signal * h.prior + (1 - signal) * otherwise.get(h.name, 0.0)) for h in told]


def unit_variance(weights: Array, covariance: Array) -> Array:
    """``weights`` scaled so that the score has variance one; as they are where it has none."""
    variance = float(weights @ covariance @ weights)
    return weights / np.sqrt(variance) if variance > 0 else weights


def _stacked(probes: ProbeResponses, items: tuple[str, ...], kinds: list[str]) -> Array:
    """Changes by item, kind and judge, shape (items, kinds, p); NaN where there is none."""
    row = {item: k for k, item in enumerate(items)}
    stacked = np.full((len(items), len(kinds), len(probes.judges)), np.nan)
    for k, kind in enumerate(kinds):
        items_of_kind, changes = probes.by_item(kind)
        stacked[[row[item] for item in items_of_kind], k] = changes
    return stacked


def _on_one_scale(falls: Array) -> Array:
    """Falls of each kind over the size of the kind, which is the root mean square over judges of their mean falls.

    What of that size the judges' standard errors explain counts against a kind; one to which nobody responds counts
    nothing.
    """
    scaled = np.full(falls.shape, np.nan)
    for kind in range(falls.shape[1]):
        mean, error, _ = _mean_and_error(falls[:, kind])
        size, noise = float(np.nansum(mean**2)), float(np.nansum(error**2))
        if size > noise:
            judges = max(int((~np.isnan(mean)).sum()), 1)
            scaled[:, kind] = falls[:, kind] * (1 - noise / size) / np.sqrt(size / judges)
    return scaled


def _size_of_falls(mean: Array) -> Array:
    """Sum of squares over the judges that fall, along the last axis."""
    return (np.maximum(mean, 0.0) ** 2).sum(axis=-1)


def _mean_and_error(values: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """Mean of each column, its standard error and the rows behind it; NaN where fewer than two are present."""
    count = (~np.isnan(values)).sum(axis=0)
    mean = mean_of_present(values)
    variance = mean_of_present((values - mean) ** 2) * count / np.maximum(count - 1, 1)
    enough = count >= 2
    return np.where(enough, mean, np.nan), np.where(enough, np.sqrt(variance / np.maximum(count, 1)), np.nan), count
