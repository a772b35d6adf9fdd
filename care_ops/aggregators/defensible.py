"""The answers of a panel that need no label, and the one that ``care`` gives.

What judges like about the texts is taken off where it is plain (``models.liking``), near-copies become one voice
(``models.voices``), and the voices' correlation is taken apart into what all share and what a family shares
(``models.robust_factor``). Two answers follow from that structure: one takes the voices for equally good, the other
weighs them by how much they share with all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.base import Problem, check_size, row_mean, unit_weights
from care_ops.aggregators.latent import family_mean, family_of
from care_ops.blocks import by_rows
from care_ops.errors import FitError, listed
from care_ops.least import LEAST_FOLLOWERS
from care_ops.models import factor_analysis, robust_factor
from care_ops.models.coarse import opinions
from care_ops.models.liking import Liking, controlled, unit_feature, without_liking
from care_ops.models.robust_factor import RobustFactor
from care_ops.models.voices import voices
from care_ops.moments.state import for_correlation, shrink

Array = NDArray[np.float64]

MOST_SHARP = 0.5
"""Largest share of the sharp answer: the mean of two good answers is better than either (Clemen, International Journal
of Forecasting 1989), and an answer that only one of them leads is never worse than half of its error."""

_MOST_SHARP_UNSEEN = 0.3
"""The same where no feature of the items is known that could show what the judges that lead share."""

_LEANS = 0.05
"""By how much the sharp answer may follow a feature of the texts more than the safe one does, before it is not used."""

_RANKS_TELL = (1.05, 1.15)
"""How many times as much the judges agree by ranks as by their scores, from which on the sharp answer weighs ranks, and
from which on it weighs nothing else: heavy tails hide what judges share, and where they do not, distances tell."""

_FOLLOWING_LOADING = 0.4
"""A voice follows a factor on which it loads by this much or more."""

_MOST_COPIES, _MOST_AGAINST = 0.5, 2 / 3
"""Share of the judges from which on copies of one judge decide which side is the majority; and how many of them there
may be for one voice that follows the common factor."""

_UNHEARD, _BELOW = 0.2, 0.85
"""Loading up to which a voice has nothing to do with what all share, and the share of the others' median below which
judges who say the same thing may be better judges than they."""

SPARSE_SHARE = 0.5
"""Share of the factor in the answer on a sparse panel, where nothing weighs it against the mean."""


@dataclass(frozen=True)
class Copied:
    """Judges who count as one ``voice``, and what they say, (n,).

    They are ``unheard`` where that has nothing to do with what the others share, as what a poor judge says.
    """

    voice: int
    unheard: bool
    says: Array


@dataclass(frozen=True)
class Defensible:
    """The answers that a panel allows without a label.

    Every answer has mean 0 and variance 1 over the items that have a score, and is 0 on the items that have none.

    Attributes
    ----------
    mean : (n,) array
        Mean of all judges, as they are.
    families : (n,) array
        The safe answer: the mean of the voices, a declared family heard about once.
    factor : (n,) array
        The sharp answer: what all voices share, voices weighed by how much they share.
    latent : (n,) array
        The answer of ``care``, which lies between ``families`` and ``factor``.
    agreement : float
        Correlation of ``families`` and ``factor``.
    alone : float
        Correlation of ``families`` with what it would be if every voice were a family of its own.
    share : float
        Share of ``factor`` in ``latent``, from 0 to ``MOST_SHARP``.
    factors : (n, k) array
        Scores of the oblique factors of the voices.
    plain : (n, h) array
        The same of the judges as they are; no columns where nothing was taken off them and no two are copies.
    followed : (f,) array of int
        The oblique factors that at least three voices follow.
    scored : (n,) array of bool
        Whether an item has a score.
    sd : (n,) array
        Standard deviation of the answer given the noise of its judges: that of ``factor``
        (``factor_analysis.posterior_sd``), and more the less the answer is that.
    voices : (p,) array of int
        The voice of each judge; near-copies are one.
    structure : RobustFactor or None
        What the voices share; None on a sparse panel.
    likings : mapping feature -> Liking
        What the judges' slopes on each feature of the texts say.
    features : mapping feature -> (n,) array
        The features of the texts, each with mean 0 and variance 1.
    follows : mapping feature -> float
        Correlation of ``latent`` with each feature that was not declared to be no part of quality.
    nearest : str or None
        The feature that ``latent`` follows most.
    without : (n,) array or None
        The safe answer if that feature is no part of quality at all.
    kept : (n,) array or None
        The safe answer if what judges like of the features is left in their scores; None where nothing was taken off.
    copied : Copied or None
        Judges who were taken for copies and may as well be better judges than the others.
    weights : (p,) array, optional
        Weights of the judges on a sparse panel, where the scores of one item follow from few of them.
    """

    mean: Array
    families: Array
    factor: Array
    latent: Array
    agreement: float
    alone: float
    share: float
    factors: Array
    plain: Array
    followed: NDArray[np.intp]
    scored: NDArray[np.bool_]
    sd: Array
    voices: NDArray[np.intp]
    structure: RobustFactor | None = None
    likings: Mapping[str, Liking] = field(default_factory=dict[str, Liking])
    features: Mapping[str, Array] = field(default_factory=dict[str, Array])
    follows: Mapping[str, float] = field(default_factory=dict[str, float])
    nearest: str | None = None
    without: Array | None = None
    kept: Array | None = None
    copied: Copied | None = None
    weights: Array | None = None


_CANCELLED = (
    "care: the judges' scores cancel one another, as those of two opposite judges do, and no item stands above "
    "another; add judges that judge for themselves, or take out one that grades the wrong way round"
)


def defensible(problem: Problem) -> Defensible:
    """The answers of a panel that need no label.

    Raises ``FitError`` for fewer than three judges or ten items, a judge that does not vary, and copies of one judge.
    """
    if problem.sparse:
        return _of_sparse_panel(problem)
    check_size(problem.scores)
    as_given = problem.moments.correlation(problem.scores.judges)  # which refuses a judge that does not vary
    features = {name: w for name, f in problem.scores.features.items() if (w := unit_feature(f)) is not None}
    judged = {name: w for name, w in features.items() if name not in problem.config.not_quality}
    controlled_for = _without_declared(problem, features)
    standardised, likings = without_liking(controlled_for, judged, _kin(problem))
    voice, values, normal, correlation, items = _told_apart(problem, standardised)
    given = as_given if values is problem.standardised else None  # nothing was taken off, and nobody joined
    families = _codes(_families_of_voices(problem.scores.judges, problem.scores.families, voice))
    structure = robust_factor.fit(correlation, families, items)
    mean = row_mean(_comparable(problem, problem.standardised))
    scored = np.array(~np.isnan(mean))
    heard = robust_factor.heard_once(correlation, structure, families)
    each = robust_factor.heard_once(correlation, structure, np.arange(len(correlation)))
    joined = _joined(_comparable(problem, standardised), voice)
    safe = _unit(_weighted_mean(joined, heard), scored)
    sharp = _unit(_towards(_sharp(normal, correlation, values, given, structure), safe), scored)
    most = MOST_SHARP if features else _MOST_SHARP_UNSEEN
    share = most * structure.fits * _leans_no_more(sharp, safe, features, scored)
    latent = _unit(share * sharp + (1.0 - share) * safe, scored)
    if np.isnan(latent[scored]).all():
        raise FitError(_CANCELLED)
    follows = {name: _correlation(latent, w, scored) for name, w in judged.items()}
    nearest = max(follows, key=lambda name: abs(follows[name]), default=None)

    def safe_by(scores: Array) -> Array:
        return _unit(_weighted_mean(_joined(_comparable(problem, scores), voice), heard), scored)

    rotated, several = _oblique(normal, correlation, items)
    plain = several[:, :0] if given is not None else _oblique(*_correlated(problem.standardised))[1]
    return Defensible(
        _unit(mean, scored),
        safe,
        sharp,
        latent,
        agreement=_correlation(safe, sharp, scored),
        alone=_correlation(safe, _unit(_weighted_mean(joined, each), scored), scored),
        share=share,
        factors=_units(several, safe, scored),
        plain=_units(plain, safe, scored),
        followed=np.flatnonzero((np.abs(rotated.loadings) >= _FOLLOWING_LOADING).sum(axis=0) >= LEAST_FOLLOWERS),
        scored=scored,
        sd=_noisier(factor_analysis.posterior_sd(_alone(structure), rotated, normal, several), latent, sharp, scored),
        voices=voice,
        structure=structure,
        likings=likings,
        features=features,
        follows=follows,
        nearest=nearest,
        without=None if nearest is None else safe_by(controlled(problem.standardised, judged[nearest])),
        kept=None if standardised is controlled_for else safe_by(controlled_for),
        copied=_copied(voice, structure.raw_loadings, np.where(np.isnan(joined), 0.0, joined), scored),
    )


def _copied(voice: NDArray[np.intp], loadings: Array, said: Array, scored: NDArray[np.bool_]) -> Copied | None:
    one, unheard = _may_be_better(voice, loadings)
    return None if one is None else Copied(one, unheard, _unit(said[:, one], scored))


def _may_be_better(voice: NDArray[np.intp], loadings: Array) -> tuple[int | None, bool]:
    """The voice of judges that were taken for copies and may be better judges than the others; None without any.

    Good judges that agree correlate as copies do. Copies of a judge like the others have as much to do with what these
    say; good judges among poor ones have less, or they are many. Those that have nothing to do with it, and are few,
    are most often copies of a poor judge, but good ones among judges who all miss the point look the same: of these
    the second value is True.
    """
    sizes = np.bincount(voice)
    largest = int(sizes.argmax())
    if sizes[largest] > 1 and sizes[largest] >= _MOST_COPIES * len(voice):
        return largest, False
    groups: list[int] = np.flatnonzero(sizes > 1)[np.argsort(-sizes[sizes > 1], kind="stable")].tolist()
    for one in groups:
        between = _UNHEARD < loadings[one] < _BELOW * float(np.median(np.delete(loadings, one)))
        following = float(np.sum(loadings >= _FOLLOWING_LOADING))
        if between or (loadings[one] < _FOLLOWING_LOADING and sizes[one] >= _MOST_AGAINST * following):
            return one, False
    unheard = [one for one in groups if loadings[one] <= _UNHEARD]
    return next(iter(unheard), None), bool(unheard)


def _without_declared(problem: Problem, features: Mapping[str, Array]) -> Array:
    """Standardised scores without what features explain that were declared to be no part of quality."""
    standardised = problem.standardised
    for name, w in features.items():
        if name in problem.config.not_quality:
            standardised = controlled(standardised, w)
    return standardised


def _kin(problem: Problem) -> NDArray[np.intp]:
    """The family of each judge, (p,)."""
    return _codes([family_of(judge, problem.scores.families) for judge in problem.scores.judges])


def _told_apart(problem: Problem, standardised: Array) -> tuple[NDArray[np.intp], Array, Array, Array, float]:
    """The voice of each judge; the voices' scores and normal scores, their correlation, and the items behind one."""
    normal, correlation, items = _correlated(standardised)
    voice = voices(opinions(correlation, items, normal, _kin(problem)))
    count = int(voice.max()) + 1
    if count == 1:
        raise FitError(
            f"care: all {len(voice)} judges say the same thing ({listed(problem.scores.judges, 5)} are copies of one "
            "another), and one voice is no panel; add judges that judge for themselves"
        )
    values = _joined(standardised, voice)
    if count < len(voice):
        normal, correlation, items = _correlated(values)
    return voice, values, normal, correlation, items


def _oblique(normal: Array, correlation: Array, items: float) -> tuple[factor_analysis.FactorModel, Array]:
    """As many common factors as there are, rotated obliquely, and their scores, (n, k)."""
    shrunk = shrink(correlation, round(items))[0]
    count = factor_analysis.number_of_factors(shrunk, round(items))
    rotated = factor_analysis.oblimin(factor_analysis.fit(shrunk, count))
    return rotated, factor_analysis.factor_scores(rotated, normal)


def _noisier(sd: Array, latent: Array, sharp: Array, scored: NDArray[np.bool_]) -> Array:
    """The standard deviation of an answer, by that of the factor: the less the answer is the factor, the larger."""
    return np.sqrt(1.0 - _correlation(latent, sharp, scored) ** 2 * (1.0 - sd**2))


def _alone(structure: RobustFactor) -> factor_analysis.FactorModel:
    """The common factor as a model of one factor."""
    return factor_analysis.FactorModel(structure.loadings[:, None], 1.0 - structure.loadings**2, np.eye(1), True)


def _correlated(values: Array) -> tuple[Array, Array, float]:
    """Normal scores, their correlation, and how many items are behind one."""
    normal = factor_analysis.normal_scores(values)
    return normal, for_correlation(normal).correlation(), _items_behind(values)


def _sharp(normal: Array, by_ranks: Array, values: Array, by_scores: Array | None, structure: RobustFactor) -> Array:
    """What all voices share, by their ranks as far as they agree more by these, and else by their scores, (n,).

    The correlation of the scores is given where these are of variance 1, as those of the judges are.
    """
    found = (for_correlation(values).correlation() if by_scores is None else by_scores, by_ranks)
    alike, alike_by_ranks = (float(np.abs(each).sum()) - len(each) for each in found)
    share = (alike_by_ranks / max(alike, 1e-9) - _RANKS_TELL[0]) / (_RANKS_TELL[1] - _RANKS_TELL[0])
    if share >= 1.0:
        return _expected(normal, structure)
    if by_scores is None:
        values = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    return _expected(values if share <= 0.0 else share * normal + (1.0 - share) * values, structure)


def _items_behind(values: Array) -> float:
    """The median number of items that two judges share."""
    seen = ~np.isnan(values)
    if seen.all():
        return len(values)
    present = seen.astype(np.float32)
    shared = present.T @ present
    return float(np.median(shared[~np.eye(len(shared), dtype=np.bool_)]))


def _comparable(problem: Problem, standardised: Array) -> Array:
    """Scores to average, (n, p): in the units of a declared scale; else, grades too, standardised: bias adds spread."""
    return standardised if problem.config.scale is None else standardised * problem.scale


def _joined(values: Array, voice: NDArray[np.intp]) -> Array:
    """The mean of each voice's judges over the scores present, (n, voices)."""
    count = int(voice.max()) + 1
    if count == values.shape[1]:
        return values
    return np.column_stack([row_mean(values[:, voice == k]) for k in range(count)])


def _families_of_voices(judges: Sequence[str], declared: Mapping[str, str], voice: NDArray[np.intp]) -> list[str]:
    """The family of each voice: its judges' where they have one, else one of its own."""
    named: list[str] = []
    for k in range(int(voice.max()) + 1):
        members = [family_of(judge, declared) for judge, of in zip(judges, voice.tolist(), strict=True) if of == k]
        named.append(members[0] if len(set(members)) == 1 else "\0" + "\0".join(sorted(members)))
    return named


def _codes(names: Sequence[str]) -> NDArray[np.intp]:
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.intp)


def _weighted_mean(values: Array, weights: Array) -> Array:
    def mean(rows: Array) -> Array:
        seen = ~np.isnan(rows)
        heard = seen @ weights
        return np.where(heard > 0, np.where(seen, rows, 0.0) @ weights / np.maximum(heard, 1e-12), np.nan)

    return by_rows(mean, values)


def _expected(normal: Array, structure: RobustFactor) -> Array:
    """E[common factor | scores present]: less is made of an item that few voices scored."""

    def expected(rows: Array) -> Array:
        seen = ~np.isnan(rows)
        return np.where(seen, rows, 0.0) @ structure.weights / (1.0 + seen @ (structure.weights * structure.loadings))

    return by_rows(expected, normal)


def _leans_no_more(sharp: Array, safe: Array, features: Mapping[str, Array], scored: NDArray[np.bool_]) -> float:
    """1 where the sharp answer surely follows no feature of the texts more than the safe one, 0 where it does."""
    error = np.sqrt(2.0 * max(1.0 - _correlation(sharp, safe, scored), 0.0) / int(scored.sum()))
    more = (abs(_correlation(sharp, w, scored)) - abs(_correlation(safe, w, scored)) for w in features.values())
    return float(np.clip(1.0 - (max(more, default=0.0) - 2.0 * error) / _LEANS, 0.0, 1.0))


def _of_sparse_panel(problem: Problem) -> Defensible:
    """The answers of a panel of which most judges scored few items.

    One factor is all that can be told there, and nothing tells whether it is quality or a bias that many judges share.
    The two answers are therefore mixed in equal parts.
    """
    model = problem.sparse_factor
    scored: NDArray[np.bool_] = ~np.all(np.isnan(problem.standardised), axis=1)
    mean = _unit(row_mean(problem.standardised), scored)
    families = _unit(family_mean(problem.standardised, problem.scores.judges, problem.scores.families), scored)
    factor, of_factor = _unit(model.quality, scored), unit_weights(model.loading / model.variance)
    return Defensible(
        mean,
        families,
        factor,
        latent=_unit(SPARSE_SHARE * factor + (1.0 - SPARSE_SHARE) * families, scored),
        agreement=_correlation(families, factor, scored),
        alone=_correlation(families, mean, scored),
        share=SPARSE_SHARE,
        factors=factor[:, None],
        plain=np.empty((len(factor), 0)),
        followed=np.array([], dtype=np.intp),
        scored=scored,
        sd=model.sd,
        voices=np.arange(len(problem.scores.judges)),
        weights=SPARSE_SHARE * of_factor + (1.0 - SPARSE_SHARE) / len(of_factor),
    )


def _unit(score: Array, scored: NDArray[np.bool_]) -> Array:
    """``score`` with mean 0 and variance 1 over the items that are scored, and 0 on the others."""
    centred = np.where(scored, score - score[scored].mean(), 0.0)
    return centred / max(float(centred[scored].std()), 1e-12)


def _units(scores: Array, towards: Array, scored: NDArray[np.bool_]) -> Array:
    """Each column with mean 0 and variance 1, rising with an answer."""
    return np.column_stack([scores[:, :0], *(_towards(_unit(score, scored), towards) for score in scores.T)])


def _correlation(one: Array, other: Array, scored: NDArray[np.bool_]) -> float:
    """Correlation over the items that are scored of two answers of variance 1."""
    return float(one[scored] @ other[scored]) / int(scored.sum())


def _towards(score: Array, other: Array) -> Array:
    """``score`` with the sign with which it rises with another."""
    return score if float(score @ other) >= 0 else -score
