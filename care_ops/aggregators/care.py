"""``care``, the recommended answer: safe where a panel is ambiguous, sharper where it is clear, settled by anchors.

Belongs here: how the defensible answers are combined. Does not: the models behind them
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
from care_ops.models.hypotheses import Hypothesis, settle

Array = NDArray[np.float64]

SAFE_BELOW = 0.95
"""Correlation of the two defensible answers at and below which the one that families give is taken alone."""

_AMBIGUOUS_BELOW = 0.9
"""And below which the panel is called ambiguous."""

_RIVAL_BELOW = 0.5
"""Correlation with the answer below which a factor that several judges follow is another answer."""

_LOADS, _FOLLOWERS = 0.4, 3

_PRIORS = {"mean": 0.25, "care": 0.30, "families": 0.25, "factors": 0.20}


@dataclass(frozen=True)
class Defensible:
    """The answers that a panel allows without a label, each of mean 0 and variance 1; 0 where no score is.

    Attributes
    ----------
    mean, families, factor : (n,) arrays
        Of all judges; of the declared families' means, by what is common in each; one factor of the normal scores.
    latent : (n,) array
        ``care``'s own, between ``families`` and ``factor``.
    agreement : float
        Correlation of these two.
    share : float
        Of ``factor`` in ``latent``.
    one_thing : bool
        Whether at least three judges follow just one oblique factor, and they are of three families.
    factors : (n, k) array
        Scores of the oblique factors.
    followed : (f,) array of int
        Those that at least three judges load on by .4 or more.
    known : (n,) array of bool
        Items with a score.
    sd : (n,) array
        Of ``factor`` given its judges' noise (``factor_analysis.posterior_sd``).
    """

    mean: Array
    families: Array
    factor: Array
    latent: Array
    agreement: float
    share: float
    one_thing: bool
    factors: Array
    followed: NDArray[np.intp]
    known: NDArray[np.bool_]
    sd: Array


class Care:
    """Two defensible answers, and how far they agree.

    The safe one is the mean of the declared families' means (of the judges, where no two share a family): a
    family that fills half of the panel speaks once, and by as much of its mean as is common to judges, which is
    Kelley's estimate of what it measures (Fundamentals of Statistics, 1947): noise in a family of its own says
    nothing. Scores are averaged as they are where the judges share a
    declared scale, else standardised. The sharp one is a single common factor of the normal
    scores, which weighs judges by how well they fit in. Where judges of three families and more follow one
    factor and nothing else, or the two agree perfectly, the factor is taken; where their correlation is at most
    ``SAFE_BELOW`` the safe one, between them a mixture in proportion: of several things that judges follow, the
    broadest may be a bias that they share. Anchors turn it into a mixture of
    hypotheses (``hypotheses.settle``), with the plain mean and each oblique factor among them; twenty binary
    ones also give a probability and a threshold (``calibration.logistic_map``).
    """

    name = "care"
    scale_free = True  # unless the fit declares a scale that all judges share
    uses_labels = True

    def fit(self, problem: Problem) -> Aggregate:
        """Combine; raises ``FitError`` below three judges or ten items."""
        answers = defensible(problem)
        candidates = candidates_of(answers)
        latent = answers.latent
        details: dict[str, Any] = {
            "agreement": answers.agreement,
            "factors": answers.factors.shape[1],
            "rival": candidates.alike,
            "ambiguous": not answers.one_thing and (answers.agreement < _AMBIGUOUS_BELOW or candidates.rivalled),
            "share_of_factor": answers.share,
            "families": len({family_of(j, problem.scores.families) for j in problem.scores.judges}),
            "label_first": label_first(problem.scores.item_ids, answers, candidates),
            "scale": "location and spread of the panel mean",
        }
        z = np.nan_to_num(problem.standardised)
        rows, labels = problem.anchors.rows(problem.scores.item_ids)
        if len(rows):
            settled = settle(candidates.hypotheses, answers.factors, z, rows, labels)
            if settled is not None:
                latent = settled.latent - settled.latent[answers.known].mean()
                details["hypotheses"] = settled.weights
        latent = np.where(answers.known, latent, np.nan)
        estimate, offset, unit = to_panel_scale(latent, problem.panel_mean)
        threshold, p_quality = problem.cut, None
        spread = float(latent[answers.known].std())
        seen = answers.known[rows]
        calibrated = logistic_map(latent[rows[seen]] / spread, labels[seen]) if spread > 0 else None
        if calibrated is not None:
            level, slope = calibrated
            p_quality = expit(level + slope * latent / spread)
            threshold = offset - unit * spread * level / slope
            details["threshold"] = "where the labels make P(Q = 1) one half"
        weights = np.linalg.lstsq(z[answers.known], latent[answers.known], rcond=None)[0].astype(np.float64)
        return Aggregate(
            self.name,
            estimate,
            threshold=threshold,
            sd=np.where(answers.known, answers.sd * unit * spread, np.nan),
            p_quality=p_quality,
            weights=unit_weights(weights),
            latent=latent,
            labels_used=len(rows),
            details=details,
        )


def defensible(problem: Problem, safe_below: float = SAFE_BELOW) -> Defensible:
    """What can be said without a label.

    Raises
    ------
    FitError
        Fewer than three judges or ten items, or a judge that does not vary.
    """
    normal, correlation = normal_correlation(problem)
    judges, declared = problem.scores.judges, problem.scores.families
    comparable = problem.standardised if problem.config.scale is None else problem.scores.values
    average = row_mean(comparable)
    known = ~np.isnan(average)
    single = factor_analysis.fit(correlation, 1)
    mean, factor = _unit(average, known), _unit(one_factor(problem, normal, single)[0], known)
    count = factor_analysis.number_of_factors(correlation, len(normal))
    rotated = factor_analysis.oblimin(factor_analysis.fit(correlation, count))
    weight = partial(factor_analysis.common_share, rotated)
    families = _unit(family_mean(comparable, judges, declared, weight), known)
    several = factor_analysis.factor_scores(rotated, normal)
    factors = np.column_stack([_towards(_unit(f, known), mean) for f in several.T])
    loads = np.abs(rotated.loadings) >= _LOADS
    followed = np.flatnonzero(loads.sum(axis=0) >= _FOLLOWERS)
    behind = {
        family_of(j, declared) for k in followed for j, follows in zip(judges, loads[:, k], strict=True) if follows
    }
    one_thing = len(followed) == 1 and len(behind) >= _FOLLOWERS
    agreement = float(families[known] @ factor[known]) / int(known.sum())
    share = 1.0 if one_thing else float(np.clip((agreement - safe_below) / (1.0 - safe_below), 0.0, 1.0))
    latent = _unit(share * factor + (1.0 - share) * families, known)
    sd = factor_analysis.posterior_sd(single, rotated, normal)
    return Defensible(mean, families, factor, latent, agreement, share, one_thing, factors, followed, known, sd)


@dataclass(frozen=True)
class Candidates:
    """What labels choose among.

    Attributes
    ----------
    hypotheses : list of Hypothesis
    rival : (n,) array or None
        Of the factors that several judges follow, the one least like the answer; None where there is only one.
    alike : float or None
        Its correlation with the answer.
    """

    hypotheses: list[Hypothesis]
    rival: Array | None
    alike: float | None

    @property
    def rivalled(self) -> bool:
        """Whether the rival is another answer altogether."""
        return self.alike is not None and self.alike < _RIVAL_BELOW


def candidates_of(answers: Defensible) -> Candidates:
    """Hypotheses and the rival among the factors."""
    count = answers.factors.shape[1]
    hypotheses = [
        Hypothesis("mean", answers.mean, _PRIORS["mean"]),
        Hypothesis("care", answers.latent, _PRIORS["care"]),
        Hypothesis("families", answers.families, _PRIORS["families"]),
        *(Hypothesis(f"factor {k + 1}", f, _PRIORS["factors"] / count) for k, f in enumerate(answers.factors.T)),
    ]
    if len(answers.followed) < 2:
        return Candidates(hypotheses, None, None)
    alike = np.abs(answers.latent @ answers.factors[:, answers.followed]) / int(answers.known.sum())
    least = int(np.argmin(alike))
    return Candidates(hypotheses, answers.factors[:, answers.followed[least]], float(alike[least]))


def label_first(item_ids: Sequence[str], answers: Defensible, candidates: Candidates, most: int = 10) -> list[str]:
    """The items on which two defensible answers differ most in rank: a label there tells the most."""
    pair = (answers.families, answers.factor)
    if candidates.rivalled and candidates.rival is not None:
        pair = (answers.latent, candidates.rival)
    apart = np.abs(rankdata(pair[0]) - rankdata(pair[1])) * answers.known
    return [item_ids[int(i)] for i in np.argsort(-apart, kind="stable")[:most] if apart[int(i)] > 0]


def _unit(score: Array, known: NDArray[np.bool_]) -> Array:
    """Mean 0 and variance 1 over the items with a score; 0 elsewhere."""
    centred = np.where(known, score - score[known].mean(), 0.0)
    return centred / max(float(centred[known].std()), 1e-12)


def _towards(score: Array, mean: Array) -> Array:
    return score if float(score @ mean) >= 0 else -score
