"""What the factors look like in the texts, and whether planted dummy judges end on a factor of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, Findings, Table
from assets.experiments.panels import NO_PANEL, Panel, factored, items_of, panels, scored_by

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from care_ops.scores import ScoreMatrix

Array = NDArray[np.float64]

_FACTORS = 4
_RATE = 0.05
_DUMMIES = ("length", "keyword")


def confounders(workspace: Workspace, full: bool) -> Findings:
    """Spearman of every factor with every feature, one row a split unit, with permutation p-values."""
    from care_ops.config import StructureConfig
    from care_ops.errors import FitError
    from care_ops.interpret import FEATURES, text_features

    resamples = 10_000 if full else 1_000
    tables, says = list[Table](), list[str]()
    for panel in panels(workspace):
        if all(text is None for text in panel.responses):
            says.append(f"{panel.testset}: its items carry no responses.")
            continue
        try:
            latent, _ = factored(panel.scores, StructureConfig(), _FACTORS)
        except FitError:
            says.append(f"{panel.testset}: the panel has no factor.")
            continue
        features = text_features(panel.responses)
        names = [name.replace("_", " ") for name in FEATURES]
        numbers = list(FEATURES).index("numbers")
        features = np.column_stack([features, _after(features[:, numbers], features[:, list(FEATURES).index("words")])])
        names.append("numbers, given words")
        correlations, p_values = permuted(_by_unit(latent, panel.units), _by_unit(features, panel.units), resamples)
        clear = benjamini_hochberg(p_values, _RATE)
        rows: list[dict[str, Any]] = []
        for k in range(latent.shape[1]):
            cells = {
                name: "–" if np.isnan(r) else f"{r:+.2f}{' *' if star else ''}"
                for name, r, star in zip(names, correlations[k], clear[k], strict=True)
            }
            rows.append({"factor": k + 1, "order against gold": panel.order(latent[:, k]), **cells})
        tables.append(Table(f"{panel.testset}: * at a false discovery rate of {_RATE:.0%}", rows))
        k, c = np.unravel_index(int(np.nanargmax(np.abs(correlations))), correlations.shape)
        says.append(
            f"{panel.testset}: {int(clear.sum())} of {int((~np.isnan(p_values)).sum())} pairs of factor and feature "
            f"are clear; the strongest is factor {int(k) + 1} with {names[int(c)]}, {correlations[k, c]:+.2f}."
        )
    return Findings(says or [NO_PANEL], tables)


def _after(feature: Array, other: Array) -> Array:
    """What is left of a feature's ranks once another's are taken out."""
    from scipy.stats import rankdata

    known = ~np.isnan(feature) & ~np.isnan(other)
    out = np.full(len(feature), np.nan)
    if known.sum() < 10 or np.ptp(feature[known]) == 0:
        return out
    a, b = rankdata(feature[known]), rankdata(other[known])
    slope = np.cov(a, b)[0, 1] / max(float(np.var(b, ddof=1)), 1e-12)
    out[known] = a - slope * b
    return out


def _by_unit(values: Array, units: list[str]) -> Array:
    """Means over split units, whose items are not independent; NaN is left out."""
    _, code = np.unique(np.array(units), return_inverse=True)
    known = ~np.isnan(values)
    count = np.column_stack([np.bincount(code, weights=column) for column in known.T.astype(float)])
    total = np.column_stack([np.bincount(code, weights=column) for column in np.where(known, values, 0.0).T])
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def permuted(latent: Array, features: Array, resamples: int) -> tuple[Array, Array]:
    """Spearman correlations and two-sided permutation p-values, each (factors, features); NaN where undefined.

    Parameters
    ----------
    latent : (n, h) array
    features : (n, f) array
        NaN where unknown.
    resamples : int
        Permutations, the same for every pair.
    """
    from scipy.stats import rankdata

    h, f = latent.shape[1], features.shape[1]
    correlations, p_values = np.full((h, f), np.nan), np.full((h, f), np.nan)
    rng = np.random.default_rng(31)
    for c in range(f):
        known = ~np.isnan(features[:, c]) & ~np.isnan(latent).any(axis=1)
        if known.sum() < 10 or np.ptp(features[known, c]) == 0:
            continue
        b = _unit(rankdata(features[known, c])[:, None])[:, 0]
        a = _unit(rankdata(latent[known], axis=0))
        seen = a.T @ b
        beyond = np.zeros(h)
        for _ in range(resamples):
            beyond += np.abs(a.T @ rng.permutation(b)) >= np.abs(seen) - 1e-12
        correlations[:, c], p_values[:, c] = seen, (1 + beyond) / (1 + resamples)
    return correlations, p_values


def _unit(columns: Array) -> Array:
    centred = columns - columns.mean(axis=0)
    return centred / np.maximum(np.linalg.norm(centred, axis=0), 1e-12)


def benjamini_hochberg(p_values: Array, rate: float) -> NDArray[np.bool_]:
    """Which are discoveries at a false discovery rate (Benjamini and Hochberg 1995); NaN never is."""
    from scipy.stats import false_discovery_control

    known, found = ~np.isnan(p_values), np.zeros(p_values.shape, dtype=bool)
    found[known] = false_discovery_control(p_values[known]) <= rate
    return found


def dummies(workspace: Workspace, _full: bool) -> Findings:
    """Two program judges that read length and keywords alone beside each panel."""
    from care_ops.config import StructureConfig
    from care_ops.errors import FitError

    tables, says = list[Table](), list[str]()
    for panel in panels(workspace):
        joined = _with_dummies(workspace, panel)
        if joined is None:
            says.append(f"{panel.testset}: its items carry no responses that the dummies tell apart.")
            continue
        added, dummy_names = joined
        try:
            latent, factors = factored(added, StructureConfig(), _FACTORS)
        except FitError:
            says.append(f"{panel.testset}: the panel has no factor.")
            continue
        judges = sorted(added.judges)
        shown = latent.shape[1]
        rows: list[dict[str, Any]] = [
            {"judge": judge, **{f"factor {k + 1}": float(factors.directions[j, k]) for k in range(shown)}}
            for j, judge in enumerate(judges)
        ]
        tables.append(Table(f"{panel.testset}: loadings", rows))
        most = {d: int(np.argmax(np.abs(factors.directions[judges.index(d), :shown]))) for d in dummy_names}
        loads = [f"{d} {factors.directions[judges.index(d), k]:+.2f} on factor {k + 1}" for d, k in most.items()]
        apart = sum(k != 0 for k in most.values())
        says.append(
            f"{panel.testset}: loading most, {', '.join(loads)}; {apart} of {len(most)} dummies away from the leading "
            "factor."
        )
    return Findings(says or [NO_PANEL], tables)


def _with_dummies(workspace: Workspace, panel: Panel) -> tuple[ScoreMatrix, list[str]] | None:
    """The panel with the dummies that it lacks, and both their names; None where there is nothing to read."""
    from care_ops.scores import ScoreMatrix

    read = items_of(workspace, panel)
    if all(not item.response for item in read):
        return None
    columns, names = [panel.scores.values], list(panel.scores.judges)
    for dummy in _DUMMIES:
        if dummy in names:
            continue
        column = scored_by(dummy, read)
        if np.nanstd(column) > 0:
            columns.append(column[:, None])
            names.append(dummy)
    there = [dummy for dummy in _DUMMIES if dummy in names]
    if not there:
        return None
    values = np.column_stack(columns)
    return ScoreMatrix(values, panel.scores.item_ids, tuple(names), panel.scores.families), there


CONFOUNDERS = Experiment(
    key="confounder_features",
    title="What the factors follow in the texts",
    asks="Which features of the responses do the factors follow, beyond chance?",
    paper="On Review-5K the factors beside quality follow length, lists and the like (heat map of correlations).",
    protocol=(
        "E[factor | J] against eight features of the response, Spearman over means of split units; numbers also with "
        "the ranks of words taken out. Permutation p-values, false discovery rate by Benjamini and Hochberg within a "
        "test set. Position bias and valid mass are not there: no judge here was asked both ways or by probability."
    ),
    run=confounders,
)

DUMMY_JUDGES = Experiment(
    key="dummy_judges",
    title="Dummy judges beside the panel",
    asks="Do judges that read length or keywords alone end on a factor of their own?",
    paper="The length-sensitive dummy loads .74 on the second factor and .10 on quality (table, FeedbackQA).",
    protocol=(
        "The two dummies read every response of the test set and join its panel; loadings are the unit directions of "
        "L, strongest factor first, signed towards the panel's mean. A dummy that scores all alike stays out."
    ),
    run=dummies,
)
