"""Correlations of a structure's factors with features of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from assets.results.documents import FactorRecord, FactorsDocument
from care_ops import samples
from care_ops.moments.missing import condition
from care_ops.moments.state import Moments, shrink
from care_ops.results.interpret import FEATURES, feature_correlations, text_features
from care_ops.scores import Array, ScoreMatrix, content_seed
from care_ops.structure.bounds import eigengaps
from care_ops.structure.factors import choose_by_balance, extract

if TYPE_CHECKING:
    from care_ops.structure.program import Structure

_MOST_FACTORS = 4


def describe(scores: ScoreMatrix, moments: Moments, solved: Structure, texts: Sequence[str | None]) -> FactorsDocument:
    """Correlate the strongest factors with text features, and select the quality factor by two rules.

    With many items, correlations use a sample (``care_ops.samples``).

    Parameters
    ----------
    scores : ScoreMatrix
        Scores of the items, in the order of ``texts``.
    moments, solved : Moments, Structure
        Moments and structure of the scores, with judges sorted by name.
    """
    if samples.is_sampled(len(texts)):
        rows = samples.sampled_rows(len(texts), np.random.default_rng(content_seed(scores)))
        scores, texts = scores.select_items(rows), [texts[int(row)] for row in rows]
    names = tuple(sorted(scores.judges))
    ordered = scores.select_judges(names)
    correlation, _ = shrink(moments.correlation(), moments.n)
    factors = extract(solved.low_rank, correlation)
    filled, _ = condition(moments.standardise(ordered.values), correlation)
    features = text_features(texts)
    shown = slice(0, _MOST_FACTORS)
    correlations = feature_correlations(filled @ factors.directions[:, shown], features)
    of_judges = feature_correlations(ordered.values, features)
    gaps = eigengaps(solved.low_rank, len(factors.strengths)) / factors.strengths
    numbers = zip(factors.mass[shown], factors.agreements[shown], factors.breadth[shown], gaps[shown], strict=True)
    return FactorsDocument(
        features=tuple(FEATURES),
        correlations=tuple(_none_for_nan(row) for row in correlations),
        judges=dict(zip(names, map(_none_for_nan, of_judges), strict=True)),
        factors=tuple(FactorRecord(float(m), float(a), float(b), float(g)) for m, a, b, g in numbers),
        rules={"leading": factors.quality, "balance": choose_by_balance(factors).quality},
    )


def _none_for_nan(correlations: Array) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(c) else round(float(c), 4) for c in correlations)
