"""``care``, the recommended answer: safe where a panel is ambiguous, sharper where it is clear, decided by anchors.

Belongs here: how the defensible answers are combined. Belongs elsewhere: the models behind them
(``factor_analysis``, ``hypotheses``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import rankdata

from care_ops.aggregators.base import Aggregate, Problem, row_mean, unit_weights
from care_ops.aggregators.latent import family_mean, family_of, normal_correlation, one_factor
from care_ops.calibration import logistic_map, to_panel_scale
from care_ops.models import factor_analysis
from care_ops.models.hypotheses import Hypothesis, average_hypotheses
from care_ops.models.probes import doubted, evidence_of, weigh
from care_ops.samples import is_sampled

Array = NDArray[np.float64]

SAFE_BELOW = 0.95
"""Correlation of the two defensible answers at and below which the one that families give is taken alone."""

_AMBIGUOUS_BELOW = 0.9
"""Correlation of the two defensible answers below which the panel is called ambiguous."""

_RIVAL_BELOW = 0.5
"""Correlation with the answer below which a label tells most where the answer and a factor part."""

_FOLLOWING_LOADING, _LEAST_FOLLOWERS = 0.4, 3
"""A judge follows a factor on which it loads by this much or more; a factor counts that so many judges follow."""

_PRIORS = {"mean": 0.25, "care": 0.30, "families": 0.25, "factors": 0.20}
"""Prior probabilities of what quality may follow; the oblique factors share the last one equally."""

_TOLD_APART = 1e-3
"""Singular value of the scores, as a share of the largest, below which a difference of judges has no weight: copies
that were rounded differ by less, and share their weight as exact copies do."""

_SPARSE_SHARE = _PRIORS["care"] + _PRIORS["factors"]
"""Share of the factor in the answer on a sparse panel, where nothing but these priors weighs it against the mean."""


@dataclass(frozen=True)
class Defensible:
    """The answers that a panel allows without a label.

    Every answer has mean 0 and variance 1 over the items that have a score, and is 0 on the items that have none.

    Attributes
    ----------
    mean : (n,) array
        Mean of all judges.
    families : (n,) array
        Mean of the declared families' means, each family weighted by the share of its mean that is common to judges.
    factor : (n,) array
        Score of a single common factor of the normal scores.
    latent : (n,) array
        The answer of ``care``, which lies between ``families`` and ``factor``.
    agreement : float
        Correlation of ``families`` and ``factor``.
    share : float
        Share of ``factor`` in ``latent``, between 0 and 1.
    one_factor_is_followed : bool
        Whether at least three judges follow just one oblique factor, and these judges are of at least three families.
    factors : (n, k) array
        Scores of the oblique factors.
    followed : (f,) array of int
        The oblique factors that at least three judges follow, which means that they load on it by .4 or more.
    scored : (n,) array of bool
        Whether an item has a score.
    sd : (n,) array
        Standard deviation of ``factor`` given the noise of its judges (``factor_analysis.posterior_sd``).
    weights : (p,) array, optional
        Weights of the judges on a sparse panel, where the scores of one item follow from few of them.
    """

    mean: Array
    families: Array
    factor: Array
    latent: Array
    agreement: float
    share: float
    one_factor_is_followed: bool
    factors: Array
    followed: NDArray[np.intp]
    scored: NDArray[np.bool_]
    sd: Array
    weights: Array | None = None

    @property
    def ambiguous(self) -> bool:
        """Whether only labels can tell what quality is: judges follow several factors, or the two answers part.

        Where judges follow several factors, no correlation of the answers with one another says that quality is what
        the answers have in common, so that all of such panels are called ambiguous, and some of them without need.
        """
        if len(self.followed) > 1:
            return True
        return not self.one_factor_is_followed and self.agreement < _AMBIGUOUS_BELOW


class Care:
    """``care``: two defensible answers, mixed by how far they agree.

    The safe answer is the mean of the declared families' means, or of the judges where no two share a family. A family
    that fills half of the panel is therefore heard once. Each family is weighted by the share of its mean that is
    common to judges, which is Kelley's estimate of what it measures (Fundamentals of Statistics, 1947), so that a
    family of noise has no weight. Scores are averaged as they are where the judges share a declared scale, and
    standardised otherwise.

    The sharp answer is a single common factor of the normal scores, which weighs judges by how well they fit in.

    The factor is taken where judges of at least three families follow one factor and no other, or where the two answers
    agree perfectly. The safe answer is taken where their correlation is at most ``SAFE_BELOW``, because the broadest of
    several factors may be a bias that judges share. Between the two, the answers are mixed in proportion.

    With anchors the answer is an average over hypotheses (``hypotheses.average_hypotheses``), among which are the plain
    mean and each oblique factor. Twenty binary anchors of a probability sample also give a
    probability and a threshold (``calibration.logistic_map``).
    """

    name = "care"
    scale_free = True  # unless the fit declares a scale that all judges share
    uses_labels = True

    def fit(self, problem: Problem) -> Aggregate:
        """Combine the defensible answers.

        Raises
        ------
        FitError
            There are fewer than three judges or ten items, or a judge does not vary.
        """
        answers = defensible(problem)
        candidates = candidates_of(answers)
        latent = answers.latent
        details: dict[str, Any] = {
            "agreement": answers.agreement,
            "factors": answers.factors.shape[1],
            "rival": candidates.rival_correlation,
            "ambiguous": answers.ambiguous,
            "share_of_factor": answers.share,
            "families": len({family_of(j, problem.scores.families) for j in problem.scores.judges}),
            "label_first": label_first(problem.scores.item_ids, answers, candidates),
            "scale": "location and spread of the panel mean",
        }
        z = np.nan_to_num(problem.standardised)
        hypotheses, alone = told_by_probes(problem, candidates.hypotheses)
        if alone:
            latent = np.sum([h.prior * h.score for h in alone], axis=0)
            details["by_probes"] = {h.name: h.prior for h in alone}
            details["declared"] = {kind: _effect(spoils) for kind, spoils in sorted(problem.probes.spoils.items())}
        rows, labels = problem.anchors.rows(problem.scores.item_ids)
        if len(rows):
            counts = problem.anchors.counts_of([problem.scores.item_ids[int(row)] for row in rows])
            average = average_hypotheses(hypotheses, answers.factors, z, rows, labels, counts)
            if average is not None:
                latent = average.latent
                details["hypotheses"] = average.weights
        latent = latent - latent[answers.scored].mean()
        latent = np.where(answers.scored, latent, np.nan)
        estimate, offset, unit = to_panel_scale(latent, problem.panel_mean)
        threshold, p_quality = problem.cut, None
        spread = float(latent[answers.scored].std())
        calibrated = _calibrated(problem, rows, labels, latent / spread) if spread > 0 else None
        if problem.anchors.left_out:
            details["labels_not_of_a_sample"] = problem.anchors.left_out
        if calibrated is not None:
            intercept, slope = calibrated
            p_quality = expit(intercept + slope * latent / spread)
            threshold = offset - unit * spread * intercept / slope
            details["threshold"] = "where the labels make P(Q = 1) one half"
        return Aggregate(
            self.name,
            estimate,
            threshold=threshold,
            sd=np.where(answers.scored, answers.sd * unit * spread, np.nan),
            p_quality=p_quality,
            weights=unit_weights(_weights(answers, z, latent)),
            latent=latent,
            labels_used=len(rows),
            details=details,
        )


def defensible(problem: Problem, safe_below: float = SAFE_BELOW) -> Defensible:
    """The answers of a panel that need no label.

    Parameters
    ----------
    problem : Problem
    safe_below : float
        Correlation of the two answers at and below which the mean of the families is taken alone.

    Raises
    ------
    FitError
        There are fewer than three judges or ten items, or a judge does not vary.
    """
    if problem.sparse:
        return _of_sparse_panel(problem)
    normal, correlation = normal_correlation(problem)
    judges, declared = problem.scores.judges, problem.scores.families
    comparable = problem.standardised if problem.config.scale is None else problem.scores.values
    average = row_mean(comparable)
    scored = ~np.isnan(average)
    single = factor_analysis.fit(correlation, 1)
    mean, factor = _unit(average, scored), _unit(one_factor(problem, normal, single)[0], scored)
    count = factor_analysis.number_of_factors(correlation, len(normal))
    rotated = factor_analysis.oblimin(factor_analysis.fit(correlation, count))
    weight = partial(factor_analysis.common_share, rotated)
    families = _unit(family_mean(comparable, judges, declared, weight), scored)
    several = factor_analysis.factor_scores(rotated, normal)
    factors = np.column_stack([_towards(_unit(f, scored), mean) for f in several.T])
    follows = np.abs(rotated.loadings) >= _FOLLOWING_LOADING
    followed = np.flatnonzero(follows.sum(axis=0) >= _LEAST_FOLLOWERS)
    following_families = {family_of(judges[j], declared) for k in followed for j in np.flatnonzero(follows[:, k])}
    one_factor_is_followed = len(followed) == 1 and len(following_families) >= _LEAST_FOLLOWERS
    agreement = float(families[scored] @ factor[scored]) / int(scored.sum())
    share = 1.0
    if not one_factor_is_followed:
        share = float(np.clip((agreement - safe_below) / (1.0 - safe_below), 0.0, 1.0))
    latent = _unit(share * factor + (1.0 - share) * families, scored)
    return Defensible(
        mean,
        families,
        factor,
        latent,
        agreement,
        share,
        one_factor_is_followed,
        factors,
        followed,
        scored,
        sd=factor_analysis.posterior_sd(single, rotated, normal, several),
    )


def _of_sparse_panel(problem: Problem) -> Defensible:
    """The answers of a panel of which most judges scored few items.

    One factor is all that can be told there, and nothing tells whether it is quality or a bias that many judges share.
    The two answers are therefore mixed in equal parts, as the prior probabilities of the hypotheses say (``_PRIORS``).
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
        latent=_unit(_SPARSE_SHARE * factor + (1.0 - _SPARSE_SHARE) * families, scored),
        agreement=float(families[scored] @ factor[scored]) / int(scored.sum()),
        share=_SPARSE_SHARE,
        one_factor_is_followed=False,
        factors=factor[:, None],
        followed=np.array([], dtype=np.intp),
        scored=scored,
        sd=model.sd,
        weights=_SPARSE_SHARE * of_factor + (1.0 - _SPARSE_SHARE) / len(of_factor),
    )


@dataclass(frozen=True)
class Candidates:
    """The hypotheses that labels weigh, and the factor that rivals the answer.

    Attributes
    ----------
    hypotheses : list of Hypothesis
    rival : (n,) array or None
        The factor least like the answer among those that several judges follow; None where fewer than two are followed.
    rival_correlation : float or None
        Absolute correlation of the rival with the answer.
    """

    hypotheses: list[Hypothesis]
    rival: Array | None
    rival_correlation: float | None

    @property
    def rivalled(self) -> bool:
        """Whether the rival correlates so little with the answer that it is another answer."""
        return self.rival_correlation is not None and self.rival_correlation < _RIVAL_BELOW


def candidates_of(answers: Defensible) -> Candidates:
    """The hypotheses that labels weigh, with their prior probabilities, and the rival among the factors."""
    count = answers.factors.shape[1]
    hypotheses = [
        Hypothesis("mean", answers.mean, _PRIORS["mean"]),
        Hypothesis("care", answers.latent, _PRIORS["care"]),
        Hypothesis("families", answers.families, _PRIORS["families"]),
        *(Hypothesis(f"factor {k + 1}", f, _PRIORS["factors"] / count) for k, f in enumerate(answers.factors.T)),
    ]
    if len(answers.followed) < 2:
        return Candidates(hypotheses, None, None)
    correlations = np.abs(answers.latent @ answers.factors[:, answers.followed]) / int(answers.scored.sum())
    least = int(np.argmin(correlations))
    return Candidates(hypotheses, answers.factors[:, answers.followed[least]], float(correlations[least]))


def told_by_probes(problem: Problem, hypotheses: list[Hypothesis]) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """What labels are to weigh once probes have spoken, and the hypotheses by probes alone; none if they say nothing.

    Alone, whatever of the responses is noise speaks for ``care`` without probes; beside labels, for the usual priors.
    """
    evidence = evidence_of(problem.panel_probes, problem.scale)
    if evidence is None:
        return hypotheses, []
    told = weigh(hypotheses, evidence, np.nan_to_num(problem.standardised))
    alone = doubted(told, evidence.signal, {"care": 1.0})
    return doubted(told, evidence.signal, {h.name: h.prior for h in hypotheses}), alone


def label_first(item_ids: Sequence[str], answers: Defensible, candidates: Candidates, most: int = 10) -> list[str]:
    """At most ``most`` items on which the two ``rival_answers`` differ most in rank: a label there tells the most."""
    rank_difference = disagreement(answers, candidates)
    order = np.argsort(-rank_difference, kind="stable")[:most]
    return [item_ids[int(i)] for i in order if rank_difference[int(i)] > 0]


def _calibrated(problem: Problem, rows: NDArray[np.intp], labels: Array, latent: Array) -> tuple[float, float] | None:
    """``calibration.logistic_map`` by those labels of 0 and 1 on which estimates may rest, of items with a score."""
    if not problem.anchors.binary:
        return None
    weights = problem.anchors.weights([problem.scores.item_ids[int(row)] for row in rows])
    used = ~np.isnan(latent[rows]) & (weights > 0)
    return logistic_map(latent[rows[used]], labels[used], weights[used])


def disagreement(answers: Defensible, candidates: Candidates) -> Array:
    """By how many ranks the two ``rival_answers`` differ on each item, shape (n,); 0 on items without a score."""
    first, second = rival_answers(answers, candidates).values()
    return np.abs(rankdata(first) - rankdata(second)) * answers.scored


def rival_answers(answers: Defensible, candidates: Candidates) -> dict[str, Array]:
    """Two defensible answers that labels would decide between, by what they are.

    The mean of the families and the factor, or ``care`` and its rival where there is one.
    """
    if candidates.rivalled and candidates.rival is not None:
        return {"care without labels": answers.latent, "its rival factor": candidates.rival}
    return {"mean of the families": answers.families, "one common factor": answers.factor}


def _unit(score: Array, scored: NDArray[np.bool_]) -> Array:
    """``score`` with mean 0 and variance 1 over the items that are scored, and 0 on the others."""
    centred = np.where(scored, score - score[scored].mean(), 0.0)
    return centred / max(float(centred[scored].std()), 1e-12)


def _weights(answers: Defensible, z: Array, latent: Array) -> Array:
    """The judges' weights in the answer, by regression of it on their scores where the model does not say them."""
    if answers.weights is not None:
        return answers.weights
    if is_sampled(len(z)):  # by the normal equations, without a copy of the scores; items without any are 0 in z
        normal, said = z.T @ z, z.T @ np.where(answers.scored, latent, 0.0)
        return np.linalg.lstsq(normal, said, rcond=_TOLD_APART**2)[0].astype(np.float64)
    return np.linalg.lstsq(z[answers.scored], latent[answers.scored], rcond=_TOLD_APART)[0].astype(np.float64)


def _effect(spoils: bool) -> str:
    return "spoils" if spoils else "keeps"


def _towards(score: Array, mean: Array) -> Array:
    """``score`` with the sign with which it rises with the mean."""
    return score if float(score @ mean) >= 0 else -score
