"""Whether planted dummy judges, and people, end on a factor of their own."""

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
    """Add two programs that read length and keywords alone, and people where there are any, to each panel."""
    tables, says, figures = list[Table](), list[str](), list[Heatmap]()
    apart_of: dict[str, list[bool]] = {"dummies": [], "people": []}
    following, measures = list[bool](), dict[str, float]()
    for panel in panels(workspace):
        joined, dummy_names, people = _joined(workspace, panel)
        if not dummy_names and not people:
            says.append(f"{panel.testset}: no responses that the dummies tell apart, and no `raters` are declared.")
            continue
        try:
            latent, factors = factored(joined, panel.config.structure, _FACTORS)
        except FitError:
            says.append(f"{panel.testset}: the panel has no factor.")
            continue
        judges = sorted(joined.judges)
        shown = latent.shape[1]
        loadings = factors.directions[:, :shown]
        for k, strength in enumerate(factors.strengths[:shown]):
            for judge, loading in zip(judges, loadings[:, k], strict=True):
                measures[f"{panel.testset}/factor {k + 1}/{judge}"] = float(loading)
                measures[f"{panel.testset}/factor {k + 1}/{judge} as written"] = float(loading * np.sqrt(strength))
        factor_names = [f"factor {k + 1}" for k in range(shown)]
        title = f"{panel.testset}: loadings"
        if len(judges) <= _MOST_DRAWN:
            marks = [[f"{value:+.2f}" for value in row] for row in loadings]
            figures.append(Heatmap(title, judges, factor_names, loadings.tolist(), marks))
        followed = _correlations(joined.select_judges(judges), latent)
        tables.append(_by_factor(title, judges, loadings))
        tables.append(
            _by_factor(f"{panel.testset}: correlation of each judge's scores with E[factor | J]", judges, followed)
        )
        if people:
            rows_of_people = [judges.index(person) for person in people]
            following += [bool(np.argmax(np.abs(followed[k])) == 0) for k in rows_of_people]
            says.append(_why_people_load_late(panel.testset, people, judges, loadings, followed))
        for kind, listed in (("dummies", dummy_names), ("people", people)):
            if listed:
                most = {d: int(np.argmax(np.abs(loadings[judges.index(d)]))) for d in listed}
                loads = [
                    f"{d} {loadings[judges.index(d), k]:+.2f} on {factor_names[k]}"
                    + (f" ({loadings[judges.index(d), 0]:+.2f} on the leading one)" if k else "")
                    for d, k in most.items()
                ]
                apart = sum(k != 0 for k in most.values())
                apart_of[kind] += [k != 0 for k in most.values()]
                says.append(
                    f"{panel.testset}, {kind}: loading most, {', '.join(loads)}; {apart} of {len(most)} away from the "
                    "leading factor."
                )
    measures |= {
        f"share of {kind} that load most away from the leading factor": float(np.mean(apart))
        for kind, apart in apart_of.items()
        if apart
    }
    if following:
        measures["share of people that correlate most with the leading factor"] = float(np.mean(following))
    return ExperimentFindings(says or [NO_PANEL], tables, figures, measures)


def _by_factor(title: str, judges: list[str], values: Array) -> Table:
    """Make a table with a row for each judge and a column for each factor."""
    rows: list[dict[str, Any]] = [
        {"judge": judge, **{f"factor {k + 1}": float(value) for k, value in enumerate(row)}}
        for judge, row in zip(judges, values, strict=True)
    ]
    return Table(title, rows)


def _correlations(scores: ScoreMatrix, latent: Array) -> Array:
    """Pearson correlation of each judge with each factor's posterior mean, over the items it scored; (p, factors)."""
    values = scores.values
    rows = [
        [float(np.corrcoef(column[known], factor[known])[0, 1]) for factor in latent.T]
        for column, known in zip(values.T, ~np.isnan(values).T, strict=True)
    ]
    return np.array(rows)


def _why_people_load_late(testset: str, people: list[str], judges: list[str], loadings: Array, followed: Array) -> str:
    """People's loadings on the leading factor, which are given all other judges, beside their plain correlations."""
    rows = [judges.index(person) for person in people]
    others = [k for k in range(len(judges)) if k not in rows]
    most = np.argmax(np.abs(followed[rows]), axis=1)
    return (
        f"{testset}, people: a loading says what a judge adds to a factor that the other judges do not say already. By "
        f"plain correlation with the factors' scores people follow the leading one by "
        f"{', '.join(f'{followed[k, 0]:.2f}' for k in rows)} (the other judges by {np.median(followed[others, 0]):.2f} "
        f"in the median), and {int((most == 0).sum())} of {len(people)} follow it more than any other factor; their "
        f"loadings on it are {', '.join(f'{loadings[k, 0]:+.2f}' for k in rows)}, those of the other judges "
        f"{np.median(np.abs(loadings[others, 0])):.2f} in the median."
    )


def _joined(workspace: Workspace, panel: ExperimentPanel) -> tuple[ScoreMatrix, list[str], list[str]]:
    """The panel with the dummies that it lacks and the test set's raters; names of the dummies and of the raters."""
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
    title="Dummy judges and people beside the panel",
    asks="Do judges that read length or keywords alone end on a factor of their own, and people on the leading one?",
    paper="The length-sensitive dummy loads .74 on the second factor and .10 on quality (table, FeedbackQA).",
    protocol=(
        "The two dummies read every response of the test set and join its panel, as do the people whose ratings it "
        "declares (`raters`); loadings are the unit directions of L, strongest factor first, signed towards the "
        "panel's mean; as written they are those times the root of their eigenvalue, since the paper's are longer than "
        "one. A dummy that scores all alike stays out."
    ),
    run=dummies,
)
