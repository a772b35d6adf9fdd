"""Correlations between latent factors and features of the texts."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, ExperimentFindings, Heatmap, for_each, joined
from assets.experiments.panels import NO_PANEL, ExperimentPanel, declared_numbers, factored, panels, problem_of
from assets.workspace import Workspace
from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_tensor import CareTensor, States
from care_ops.aggregators.care_tensor_paper import four_states
from care_ops.errors import FitError
from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.results.association import benjamini_hochberg, mean_by_unit, permuted, residual_ranks
from care_ops.results.interpret import FEATURES, text_features
from care_ops.scores import Array, canonical_order, restore

_FACTORS = 4

_RATE = 0.05

_SEED = 31

_WRITTEN, _POSTERIOR = " as written", "Pr(C = 1 | J)"


def run(workspace: Workspace, *, permutations: int) -> ExperimentFindings:
    """Correlate every factor, and the tensor's confounder, with every feature; test by permutation."""
    return for_each(panels(workspace), partial(_of_panel, workspace, permutations), NO_PANEL)


def _of_panel(workspace: Workspace, permutations: int, panel: ExperimentPanel) -> ExperimentFindings:
    names, features = _features(workspace, panel)
    if not names:
        return ExperimentFindings([f"{panel.testset}: no responses, and no declared features."])
    by_unit = mean_by_unit(features, panel.units)
    if len(by_unit) < MIN_ITEMS:
        return ExperimentFindings([f"{panel.testset}: {len(by_unit)} split units, and {MIN_ITEMS} are needed."])
    parts = list[ExperimentFindings]()
    for rows, latent, way in _latents(panel):
        rng = np.random.default_rng(_SEED)
        r, p = permuted(mean_by_unit(latent, panel.units), by_unit, permutations, rng)
        clear = benjamini_hochberg(p, _RATE)
        title = f"{panel.testset}: {rows[0]}{way}, * at a false discovery rate of {_RATE:.0%}"
        measures = {
            f"{panel.testset}/{row}/{name}{way}": float(value)
            for row, values in zip(rows, r, strict=True)
            for name, value in zip(names, values, strict=True)
            if not np.isnan(value)
        }
        conclusion = _strongest(f"{panel.testset}{way}", rows, names, r, p, clear)
        parts.append(ExperimentFindings([conclusion], (), [_heatmap(title, rows, names, r, clear)], measures))
    return joined(parts, f"{panel.testset}: no factor and no confounder.")


def _latents(panel: ExperimentPanel) -> Iterator[tuple[list[str], Array, str]]:
    """Yield names, scores (n, k) and procedure of CARE-SVD's factors, then of CARE-Tensor's confounder."""
    with suppress(FitError):
        latent, factors = factored(panel.scores, panel.config.structure, _FACTORS)
        names = [f"factor {k + 1}" for k in range(latent.shape[1])]
        yield names, latent, ""
        yield names, panel.filled() @ factors.directions[:, : latent.shape[1]], _WRITTEN
    for states_of, way in ((CareTensor().states, ""), (four_states, _WRITTEN)):
        confounder = tensor_confounder(panel, states_of)
        if confounder is not None:
            yield [_POSTERIOR], confounder[:, None], way


def _heatmap(title: str, rows: list[str], columns: list[str], values: Array, clear: NDArray[np.bool_]) -> Heatmap:
    marks = [
        ["–" if np.isnan(r) else f"{r:+.2f}{' *' if star else ''}" for r, star in zip(row, stars, strict=True)]
        for row, stars in zip(values, clear, strict=True)
    ]
    return Heatmap(title, rows, columns, [[None if np.isnan(r) else float(r) for r in row] for row in values], marks)


def _strongest(
    testset: str, rows: list[str], names: list[str], correlations: Array, p_values: Array, clear: NDArray[np.bool_]
) -> str:
    if np.isnan(correlations).all():
        return f"{testset}: no feature varies over enough items."
    k, c = np.unravel_index(int(np.nanargmax(np.abs(correlations))), correlations.shape)
    return (
        f"{testset}: {int(clear.sum())} of {int((~np.isnan(p_values)).sum())} pairs of {rows[0].rstrip(' 1')} and "
        f"feature are clear; the strongest is {rows[int(k)]} with {names[int(c)]}, {correlations[k, c]:+.2f}."
    )


def _features(workspace: Workspace, panel: ExperimentPanel) -> tuple[list[str], Array]:
    """Return names and values, (n, f), of text features and of declared columns."""
    features: dict[str, Array] = {}
    if any(panel.responses):
        text_columns = text_features(panel.responses)
        features = {name.replace("_", " "): text_columns[:, k] for k, name in enumerate(FEATURES)}
        features["numbers, given words"] = residual_ranks(features["numbers"], features["words"])
    declared = declared_numbers(workspace, panel, workspace.testset(panel.testset).features)
    features |= {name.replace("_", " "): column for name, column in declared.items()}
    return list(features), np.column_stack(list(features.values())) if features else np.empty((len(panel.gold), 0))


def tensor_confounder(panel: ExperimentPanel, states_of: Callable[[Problem], States]) -> Array | None:
    """Return Pr(C = 1 | J), (n,), of a mixture; None if it has no fit or no confounder.

    The values of C are ordered: from C = 0 to C = 1 the judges move the same way in both classes of Q, and their mean
    rises.
    """
    try:
        states = states_of(problem_of(panel.scores, panel.config))
    except FitError:
        return None
    means, posterior = states.fitted.means, states.posterior
    total = np.zeros(len(posterior))
    direction: Array | None = None
    for q in np.unique(states.quality):
        pair = [np.flatnonzero((states.quality == q) & (states.confounder == c)) for c in (0, 1)]
        if any(len(found) != 1 for found in pair):
            continue
        low, high = (int(found[0]) for found in pair)
        moved = means[high] - means[low]
        reference = np.ones(len(moved)) if direction is None else direction
        if moved @ reference < 0:
            low, high, moved = high, low, -moved
        direction = moved if direction is None else direction
        total += posterior[:, high]
    return None if direction is None else restore(total, canonical_order(panel.scores.item_ids))


EXPERIMENT = Experiment(
    key="confounder_features",
    title="What the factors follow in the texts",
    paper="On Review-5K the factors other than quality follow length, lists and the like (heat map of correlations).",
    protocol=(
        "E[factor | J] and, as written, <u, J> of the raw scores; Pr(C = 1 | J) of the four states of care_tensor and, "
        "as written, of care_tensor_paper; against eight features of the response and those that the test set "
        "declares. Spearman over means of split units; numbers also with "
        "the ranks of words taken out. Permutation p-values, false discovery rate by Benjamini and Hochberg within a "
        "test set."
    ),
    run=run,
    small={"permutations": 1_000},
    full={"permutations": 10_000},
)
EXPERIMENTS = (EXPERIMENT,)
