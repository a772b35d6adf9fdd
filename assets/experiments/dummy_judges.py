"""Loadings of dummy judges and of people on the factors of a panel."""

from functools import partial

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table, for_each
from assets.experiments.panels import (
    DUMMIES,
    NO_PANEL,
    ExperimentPanel,
    declared_numbers,
    factored,
    items_of,
    panels,
    scored_by,
    with_columns,
)
from assets.workspace import Workspace
from care_ops.scores import Array, ScoreMatrix, varies

_FACTORS = 4


def run(workspace: Workspace) -> ExperimentFindings:
    """Add dummy judges to each panel: two programs that read only length and keywords, and declared raters."""
    return for_each(panels(workspace), partial(_of_panel, workspace), NO_PANEL)


def _of_panel(workspace: Workspace, panel: ExperimentPanel) -> ExperimentFindings:
    scores, programs, people = _with_dummies(workspace, panel)
    if not programs and not people:
        return ExperimentFindings(
            [f"{panel.testset}: no responses on which the dummies vary, and no `raters` are declared."]
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
        conclusions += [f"{panel.testset}, {kind}: largest loading, {shown}."] if shown else []
    return ExperimentFindings(conclusions, [Table(f"{panel.testset}: loadings", rows)], measures=measures)


def _with_dummies(workspace: Workspace, panel: ExperimentPanel) -> tuple[ScoreMatrix, list[str], list[str]]:
    """Return the panel with dummies and raters added, and the names of both."""
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


EXPERIMENT = Experiment(
    key="dummy_judges",
    title="Dummy judges and people added to the panel",
    paper="The length-sensitive dummy loads .74 on the second factor and .10 on quality (table, FeedbackQA).",
    protocol=(
        "The two dummies read every response of the test set and join its panel, as do the people whose ratings it "
        "declares (`raters`); loadings are the unit directions of L, strongest factor first, signed towards the "
        "panel's mean; as written they are those times the root of their eigenvalue, since the paper's are longer than "
        "one. A loading measures what a judge adds to the others. A dummy that gives one score to all stays out."
    ),
    run=run,
)
EXPERIMENTS = (EXPERIMENT,)
