"""Experiments on recorded panels: the quality factor, text features, and dummy judges."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Heatmap, Table, for_each, joined
from assets.experiments.panels import (
    DUMMIES,
    NO_PANEL,
    ExperimentPanel,
    declared_numbers,
    factored,
    items_of,
    panels,
    problem_of,
    scored_by,
    with_columns,
)
from assets.workspace import Workspace
from care_ops.aggregators.base import Problem, row_mean
from care_ops.aggregators.care_svd import weighted
from care_ops.aggregators.care_tensor import States, fit_states
from care_ops.aggregators.care_tensor_paper import four_states
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError
from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.results.association import mean_by_unit, residual_ranks
from care_ops.results.interpret import FEATURES, feature_correlations, text_features
from care_ops.scores import Array, ScoreMatrix, canonical_order, restore, varies

_FACTORS = 4

_WRITTEN, _POSTERIOR = " as written", "Pr(C = 1 | J)"

_Latent = tuple[list[str], Array, str]


def run_quality(workspace: Workspace) -> ExperimentFindings:
    """Compare the ranking of the items by each factor with the ranking by gold."""
    found = for_each(panels(workspace), _orders, NO_PANEL)
    best = [value for name, value in found.measures.items() if name.endswith("/best factor")]
    if not best:
        return found
    conclusion = (
        f"The leading factor ranks the items better than every other factor on {best.count(1)} of {len(best)} test "
        "sets; in the paper, it has the lowest MAE on all six."
    )
    return joined([found, ExperimentFindings([conclusion])])


def _orders(panel: ExperimentPanel) -> ExperimentFindings:
    latent, factors = factored(panel.scores, panel.config.structure)
    orders, metric = [panel.order(column) for column in latent.T], "AUC" if panel.binary else "Kendall tau"
    rows = [
        {
            "factor": k + 1,
            "share of tr L": float(strength / factors.strengths.sum()),
            "correlation with the mean": float(factors.agreements[k]),
            metric: orders[k],
        }
        for k, strength in enumerate(factors.strengths)
    ]
    best = int(np.nanargmax(orders))
    conclusion = f"{panel.testset}: {metric} of the leading factor is {orders[0]:.3f}, " + (
        f"the highest of {len(rows)}." if best == 0 else f"below the {orders[best]:.3f} of factor {best + 1}."
    )
    measures = {f"{panel.testset}/best factor": float(best + 1)}
    if not panel.binary:
        mean = row_mean(panel.scores.values)
        for k, (column, direction) in enumerate(zip(latent.T, factors.directions.T, strict=True)):
            # at the panel's location and spread, as `care_svd` places its own; as written, the literal weights
            measures[f"{panel.testset}/factor {k + 1}"] = panel.error(to_panel_scale(column, mean)[0])
            with suppress(FitError):
                literal = weighted(panel.filled(), direction)
                measures[f"{panel.testset}/factor {k + 1} as written"] = panel.error(literal)
    return ExperimentFindings([conclusion], [Table(panel.testset, rows)], measures=measures)


def run_features(workspace: Workspace) -> ExperimentFindings:
    """Correlate each factor, and the confounder of CARE-Tensor, with each feature of the items."""
    described = [(panel, *_features(workspace, panel)) for panel in panels(workspace)]
    found = [panel for panel, names, _ in described if names and len({*panel.units}) >= MIN_ITEMS]
    latents = dict(zip((p.testset for p in found), workspace.workers.map(_latents, found), strict=True))
    return joined([_correlations(*one, latents.get(one[0].testset, ())) for one in described], NO_PANEL)


def _correlations(
    panel: ExperimentPanel, names: list[str], features: Array, latents: Sequence[_Latent]
) -> ExperimentFindings:
    if not names:
        return ExperimentFindings([f"{panel.testset}: not computed, as items have no responses or declared features."])
    by_unit = mean_by_unit(features, panel.units)
    if len(by_unit) < MIN_ITEMS:
        return ExperimentFindings([f"{panel.testset}: not computed: {len(by_unit)} of {MIN_ITEMS} split units."])
    parts = list[ExperimentFindings]()
    for rows, latent, way in latents:
        r = feature_correlations(mean_by_unit(latent, panel.units), by_unit)
        found = {
            f"{row}/{name}{way}": float(value)
            for row, values in zip(rows, r, strict=True)
            for name, value in zip(names, values, strict=True)
            if not np.isnan(value)
        }
        largest = max(found, key=lambda pair: abs(found[pair]), default=None)
        conclusion = "no feature varies over enough items"
        if largest is not None:
            conclusion = f"the strongest correlation is between {largest.replace('/', ' and ')}: {found[largest]:+.2f}"
        values = [[None if np.isnan(value) else float(value) for value in row] for row in r]
        parts.append(
            ExperimentFindings(
                [f"{panel.testset}: {conclusion}."],
                (),
                [Heatmap(f"{panel.testset}: {rows[0]}{way}", rows, names, values)],
                {f"{panel.testset}/{pair}": value for pair, value in found.items()},
            )
        )
    return joined(parts, f"{panel.testset}: the fit has no factor and no confounder.")


def _latents(panel: ExperimentPanel) -> list[_Latent]:
    """Return factors and confounders: names, estimates, and a name suffix that states the estimation procedure."""
    found = list[_Latent]()
    with suppress(FitError):
        latent, factors = factored(panel.scores, panel.config.structure, _FACTORS)
        names = [f"factor {k + 1}" for k in range(latent.shape[1])]
        found.append((names, latent, ""))
        found.append((names, panel.filled() @ factors.directions[:, : latent.shape[1]], _WRITTEN))
    for states_of, way in ((fit_states, ""), (four_states, _WRITTEN)):
        if (confounder := tensor_confounder(panel, states_of)) is not None:
            found.append(([_POSTERIOR], confounder[:, None], way))
    return found


def _features(workspace: Workspace, panel: ExperimentPanel) -> tuple[list[str], Array]:
    features: dict[str, Array] = {}
    if any(panel.responses):
        text_columns = text_features(panel.responses)
        features = {name.replace("_", " "): text_columns[:, k] for k, name in enumerate(FEATURES)}
        features["numbers, given words"] = residual_ranks(features["numbers"], features["words"])
    declared = declared_numbers(workspace, panel, workspace.testset(panel.testset).features)
    features |= {name.replace("_", " "): column for name, column in declared.items()}
    return list(features), np.column_stack(list(features.values())) if features else np.empty((len(panel.gold), 0))


def tensor_confounder(panel: ExperimentPanel, states_of: Callable[[Problem], States]) -> Array | None:
    """Estimate the probability of C = 1 for each item, where C is the binary confounder of a mixture model.

    In the lowest class of quality, C = 1 is the state with the higher mean score. In other classes, scores shift
    from C = 0 to C = 1 in about the same direction as in that class. Returns None if the model fails or has no C.
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


def run_dummies(workspace: Workspace) -> ExperimentFindings:
    """Add dummy judges and human raters to each panel, and measure the judges' loadings."""
    return for_each(panels(workspace), partial(_loadings, workspace), NO_PANEL)


def _loadings(workspace: Workspace, panel: ExperimentPanel) -> ExperimentFindings:
    scores, programs, people = _with_dummies(workspace, panel)
    if not programs and not people:
        return ExperimentFindings(
            [f"{panel.testset}: not computed: no dummy varies, and the test set declares no `raters`."]
        )
    latent, factors = factored(scores, panel.config.structure, _FACTORS)
    judges, columns = sorted(scores.judges), [f"factor {k + 1}" for k in range(latent.shape[1])]
    loadings = factors.directions[:, : len(columns)]
    measures = dict[str, float]()
    for name, loading, strength in zip(columns, loadings.T, factors.strengths, strict=False):
        for judge, value in zip(judges, loading, strict=True):
            measures[f"{panel.testset}/{name}/{judge}"] = float(value)
            measures[f"{panel.testset}/{name}/{judge} as written"] = float(value * np.sqrt(strength))
    rows = [
        {"judge": judge, **dict(zip(columns, map(float, row), strict=True))}
        for judge, row in zip(judges, loadings, strict=True)
    ]
    conclusions = list[str]()
    for kind, names in (("dummies", programs), ("people", people)):
        found = {name: loadings[judges.index(name)] for name in names}
        largest = ((name, row, int(np.argmax(np.abs(row)))) for name, row in found.items())
        shown = ", ".join(f"{name} {row[k]:+.2f} on factor {k + 1}" for name, row, k in largest)
        conclusions += [f"{panel.testset}: largest loading of each of the {kind}: {shown}."] if shown else []
    return ExperimentFindings(conclusions, [Table(f"{panel.testset}: loadings", rows)], measures=measures)


def _with_dummies(workspace: Workspace, panel: ExperimentPanel) -> tuple[ScoreMatrix, list[str], list[str]]:
    """Add dummy judges and human raters to a panel; return the panel and the names of both groups."""
    items = items_of(workspace, panel)
    added: dict[str, Array] = {
        dummy: scored_by(dummy, items)
        for dummy in DUMMIES
        if dummy not in panel.scores.judges and any(item.response for item in items)
    }
    raters = workspace.testset(panel.testset).raters
    added |= declared_numbers(workspace, panel, raters)
    varying = {name: column for name, column in added.items() if name not in panel.scores.judges and varies(column)}
    joined = with_columns(panel.scores, varying)
    return joined, [d for d in DUMMIES if d in joined.judges], [rater for rater in raters if rater in varying]


QUALITY = Experiment(
    key="quality_factor",
    title="Each factor in turn as the quality factor",
    paper="The leading factor has the lowest MAE on all six scoring sets (table, quality-factor selection).",
    protocol=(
        "Each factor of L is estimated as E[factor | J] (J: the scores); its sign follows the panel's mean. The table "
        "compares rankings, because factors have no location or spread. Gold labels only diagnose which one is best."
    ),
    run=run_quality,
)

FEATURES_OF_FACTORS = Experiment(
    key="confounder_features",
    title="Correlation of the factors with features of the items",
    paper="On Review-5K, the factors other than quality correlate with length, lists and other features (heat map).",
    protocol=(
        "Factors are estimated as E[factor | J] (J: the scores); care_tensor estimates the confounder, Pr(C = 1 | J). "
        "Rows `as written` use eigenvectors times raw scores for factors, and care_tensor_paper for the confounder. "
        "Features are eight text features and those that the test set declares. Spearman correlations are computed on "
        "means of split units. `numbers, given words` is the residual of `numbers` regressed on ranks of `words`."
    ),
    run=run_features,
)

DUMMY_JUDGES = Experiment(
    key="dummy_judges",
    title="Dummy judges and human raters added to the panel",
    paper="The length-sensitive dummy judge loads .74 on the second factor and .10 on quality (table, FeedbackQA).",
    protocol=(
        "The two dummy judges score every response. We add them and the declared human raters (`raters`) to the "
        "panel. Loadings are unit eigenvectors of L, strongest factor first; their signs follow the panel's mean. "
        "In rows `as written`, loadings are multiplied by the square root of the eigenvalue, because the paper's "
        "loading vectors have norms above one. A dummy judge that gives all responses the same score is excluded."
    ),
    run=run_dummies,
)
EXPERIMENTS = (QUALITY, FEATURES_OF_FACTORS, DUMMY_JUDGES)
