"""Loadings of dummy judges and of people on the factors of a panel."""

from typing import Any

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Heatmap, Table
from assets.experiments.panels import (
    DUMMIES,
    NO_PANEL,
    ExperimentPanel,
    declared_numbers,
    factored,
    items_of,
    panels,
    scored_by,
)
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.scores import Array, ScoreMatrix, varies

_FACTORS = 4

_MOST_DRAWN = 60
"""Judges up to which their loadings are also drawn."""


def dummies(workspace: Workspace) -> ExperimentFindings:
    """Add two programs that read only length and keywords, and people where there are any, to each panel."""
    tables, conclusions, figures, measures = list[Table](), list[str](), list[Heatmap](), dict[str, float]()
    for panel in panels(workspace):
        joined, dummy_names, people = _joined(workspace, panel)
        if not dummy_names and not people:
            conclusions.append(
                f"{panel.testset}: no responses on which the dummies vary, and no `raters` are declared."
            )
            continue
        try:
            latent, factors = factored(joined, panel.config.structure, _FACTORS)
        except FitError:
            conclusions.append(f"{panel.testset}: the panel has no factor.")
            continue
        judges, shown = sorted(joined.judges), latent.shape[1]
        loadings, followed = factors.directions[:, :shown], _correlations(joined.select_judges(judges), latent)
        for k, strength in enumerate(factors.strengths[:shown]):
            for judge, loading in zip(judges, loadings[:, k], strict=True):
                measures[f"{panel.testset}/factor {k + 1}/{judge}"] = float(loading)
                measures[f"{panel.testset}/factor {k + 1}/{judge} as written"] = float(loading * np.sqrt(strength))
        title, columns = f"{panel.testset}: loadings", [f"factor {k + 1}" for k in range(shown)]
        if len(judges) <= _MOST_DRAWN:
            marks = [[f"{value:+.2f}" for value in row] for row in loadings]
            figures.append(Heatmap(title, judges, columns, loadings.tolist(), marks))
        tables.append(_by_factor(title, judges, loadings))
        correlations = f"{panel.testset}: correlation of each judge's scores with E[factor | J]"
        tables.append(_by_factor(correlations, judges, followed))
        for kind, listed in (("dummies", dummy_names), ("people", people)):
            rows = [judges.index(name) for name in listed]
            most = [int(np.argmax(np.abs(loadings[row]))) for row in rows]
            shares = [
                f"{judges[row]} {loadings[row, k]:+.2f} on factor {k + 1}" for row, k in zip(rows, most, strict=True)
            ]
            conclusions += [f"{panel.testset}, {kind}: loading most, {', '.join(shares)}."] if rows else []
    return ExperimentFindings(conclusions or [NO_PANEL], tables, figures, measures)


def _by_factor(title: str, judges: list[str], values: Array) -> Table:
    """Make a table with a row for each judge and a column for each factor."""
    rows: list[dict[str, Any]] = [
        {"judge": judge, **{f"factor {k + 1}": float(value) for k, value in enumerate(row)}}
        for judge, row in zip(judges, values, strict=True)
    ]
    return Table(title, rows)


def _correlations(scores: ScoreMatrix, latent: Array) -> Array:
    """Correlate each judge with each factor's posterior mean over the items that it scored; (p, factors)."""
    values = scores.values
    rows = [
        [float(np.corrcoef(column[known], factor[known])[0, 1]) for factor in latent.T]
        for column, known in zip(values.T, ~np.isnan(values).T, strict=True)
    ]
    return np.array(rows)


def _joined(workspace: Workspace, panel: ExperimentPanel) -> tuple[ScoreMatrix, list[str], list[str]]:
    """Return the panel with dummies and raters added, and the names of both."""
    items = items_of(workspace, panel)
    added: dict[str, Array] = {
        dummy: scored_by(dummy, items)
        for dummy in DUMMIES
        if dummy not in panel.scores.judges and any(item.response for item in items)
    }
    raters = workspace.testset(panel.testset).raters
    added |= declared_numbers(workspace, panel, raters)
    telling = {name: column for name, column in added.items() if name not in panel.scores.judges and varies(column)}
    values = np.column_stack([panel.scores.values, *telling.values()])
    names = (*panel.scores.judges, *telling)
    joined = ScoreMatrix(values, panel.scores.item_ids, names, panel.scores.families)
    return joined, [d for d in DUMMIES if d in names], [rater for rater in raters if rater in telling]


EXPERIMENT = Experiment(
    key="dummy_judges",
    title="Dummy judges and people added to the panel",
    asks="Do judges that read only length or keywords load on a factor of their own, and people on the leading one?",
    paper="The length-sensitive dummy loads .74 on the second factor and .10 on quality (table, FeedbackQA).",
    protocol=(
        "The two dummies read every response of the test set and join its panel, as do the people whose ratings it "
        "declares (`raters`); loadings are the unit directions of L, strongest factor first, signed towards the "
        "panel's mean; as written they are those times the root of their eigenvalue, since the paper's are longer than "
        "one. A loading says what a judge adds that the others do not say already; the second table has "
        "plain correlations. A dummy that scores all alike stays out."
    ),
    run=dummies,
)
