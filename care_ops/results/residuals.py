"""Judges whose residuals move together: what two of them share beyond the one factor that all judges share.

Such judges may be one family, which is declared and never guessed. What is computed here lets a reader decide whether
the question matters: by how much the answer would move if they were.

Belongs here: the groups, and the answer with a group as one family. Belongs elsewhere: what is said of them
(``verdict``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import Calibration, FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.models import factor_analysis
from care_ops.moments.state import for_correlation, shrink
from care_ops.results.fit_facts import MovingTogether
from care_ops.scores import ScoreMatrix
from care_ops.sparsity import is_sparse

Array = NDArray[np.float64]

_LEAST_JUDGES = 4
"""One factor explains every correlation of three judges, so that their residuals say nothing."""

_LEAST_CORRELATION = 0.3
"""A medium effect by the convention of Cohen (Statistical Power Analysis for the Behavioral Sciences, 1988)."""

_LEVEL = 0.01
"""Chance, over all pairs of judges together (Bonferroni), of naming a pair whose residuals are independent."""


def residual_correlations(scores: ScoreMatrix) -> Array | None:
    """Correlations between judges once one common factor of the normal scores is taken out, (p, p).

    None below four judges, on a sparse panel, and where a judge does not vary.
    """
    if scores.shape[1] < _LEAST_JUDGES or is_sparse(scores.values):
        return None
    normal = factor_analysis.normal_scores(scores.values)
    try:
        correlation = shrink(for_correlation(normal).correlation(scores.judges), len(normal))[0]
    except FitError:
        return None
    model = factor_analysis.fit(correlation, 1)
    unique = np.sqrt(np.maximum(1.0 - model.loadings[:, 0] ** 2, factor_analysis.LEAST_UNIQUENESS))
    rest = correlation - np.outer(model.loadings[:, 0], model.loadings[:, 0])
    return rest / np.outer(unique, unique)


def groups_moving_together(scores: ScoreMatrix, most: int = 3) -> list[tuple[tuple[str, ...], float]]:
    """At most ``most`` groups of judges, each with its least correlation of residuals, the strongest pair's first.

    A group begins with the pair of the largest correlation and takes in judges that correlate with all of its members.
    Judges of one declared family are no news, and a group that such judges make up is left out.
    """
    residual = residual_correlations(scores)
    if residual is None:
        return []
    p, pairs = len(residual), len(residual) * (len(residual) - 1) // 2
    by_chance = float(np.tanh(norm.ppf(1.0 - _LEVEL / pairs) / np.sqrt(max(scores.shape[0] - 3, 1))))
    least = max(_LEAST_CORRELATION, by_chance)
    left, groups = set(range(p)), list[tuple[tuple[str, ...], float]]()
    upper = [(float(residual[a, b]), a, b) for a in range(p) for b in range(a + 1, p) if residual[a, b] >= least]
    for _, a, b in sorted(upper, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if len(groups) == most or not {a, b} <= left:
            continue
        members = _grown([a, b], residual, least, left)
        names = tuple(scores.judges[j] for j in sorted(members))
        left -= set(members)
        families = {scores.families.get(name) for name in names}
        if len(families) > 1 or families == {None}:
            inside = [residual[i, j] for i in members for j in members if i < j]
            groups.append((names, float(min(inside))))
    return groups


def _grown(members: list[int], residual: Array, least: float, left: set[int]) -> list[int]:
    """The group with every judge left that correlates with all of its members, the closest one first."""
    while True:
        candidates = {j: float(residual[j, members].min()) for j in left if j not in members}
        closest = max(candidates, key=lambda j: (candidates[j], -j), default=None)
        if closest is None or candidates[closest] < least:
            return members
        members = [*members, closest]


def effect_of_one_family(
    scores: ScoreMatrix, judges: Sequence[str], answer: Array, config: FitConfig, anchors: Anchors = NO_ANCHORS
) -> tuple[float, int] | None:
    """How ``care`` would answer if these judges were one family, against the present answer.

    Returns
    -------
    (float, int) or None
        Correlation of the two answers, and how many items would come to lie in the other half of the items; None where
        ``care`` cannot answer.
    """
    families: Mapping[str, str] = {**scores.families, **dict.fromkeys(judges, " and ".join(judges))}
    declared = ScoreMatrix(scores.values, scores.item_ids, scores.judges, families)
    alone = replace(config, aggregators=("care",), calibration=Calibration())
    try:
        other = fit_panel(declared, alone, anchors, solve="not").aggregates["care"].estimate
    except FitError:
        return None
    known = ~np.isnan(other) & ~np.isnan(answer)
    before, after = answer[known], other[known]
    if len(before) < 2 or np.ptp(before) == 0 or np.ptp(after) == 0:
        return None
    changed = _upper_half(before) != _upper_half(after)
    return float(np.corrcoef(before, after)[0, 1]), int(changed.sum())


def _upper_half(values: Array) -> NDArray[np.bool_]:
    return rankdata(values) > (len(values) + 1) / 2


def moving_together(
    scores: ScoreMatrix, answer: Array, config: FitConfig, anchors: Anchors = NO_ANCHORS
) -> tuple[MovingTogether, ...]:
    """The groups with what would become of the answer."""
    found: list[MovingTogether] = []
    for judges, correlation in groups_moving_together(scores):
        effect = effect_of_one_family(scores, judges, answer, config, anchors)
        if effect is not None:
            found.append(MovingTogether(judges, correlation, *effect))
    return tuple(found)
