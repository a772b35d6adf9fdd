"""Judges that depend on one another within states: which pairs come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from assets.experiments.base import Experiment, ExperimentFindings, Table
from assets.experiments.observation_models import KINDS, models_of, told_apart
from care_ops.models import joined_views, observation
from care_ops.models.answers import Answers
from care_ops.models.dependence import (
    EDGE_P_VALUE,
    conditional_mutual_information,
    dependent,
    likeliest_dependent,
    pseudo_likelihood,
    tailed_scatter,
)
from care_ops.models.observation import ScaleMixture, StudentT
from care_ops.scores import Array
from care_ops.simulate import DependentDraw, Kind, dependent_judges
from care_ops.structure.views import CLEAR_EDGE, fisher_z, partition

if TYPE_CHECKING:
    from assets.workspace import Workspace

Edges = NDArray[np.bool_]

_STARTS = 5
"""Partitions from which the states of joined judges are sought, as many as starts of a mixture of independent ones."""

_SHORT_ROUNDS = 20
"""Rounds of EM after which the edges of a start are clear enough to make views."""


def run(_workspace: Workspace, *, seeds: int, items: int) -> ExperimentFindings:
    """Measure a row for each kind of judge."""
    rows: list[dict[str, Any]] = [{"judges": kind, **study(kind, items, range(seeds))} for kind in KINDS]
    before, after = ([row[name] for row in rows] for name in ("F1, independent", "F1, with edges"))
    unsure = [row["judges"] for row in rows if row["starts agree"] < 1.0]
    blurred = [row["judges"] for row in rows if row["F1, with edges"] - row["F1, independent"] > 0.05]
    return ExperimentFindings(
        [
            f"Edges read off states that were found with judges taken as independent: F1 of {min(before):.2f} to "
            f"{max(before):.2f}; off states that were found with their edges: {min(after):.2f} to {max(after):.2f}.",
            f"States that know the edges find more than .05 more of them for {', '.join(blurred) or 'no kind'}.",
            f"Kinds of which some draw is flagged, because no two ways of starting ended alike: "
            f"{', '.join(unsure) or 'none'}.",
        ],
        [Table(f"Twelve judges, {items:,} items; medians over {seeds} seeds", rows)],
    )


def study(kind: Kind, n: int, seeds: Sequence[int]) -> dict[str, float]:
    """Medians over seeds of how well edges come back and items are told apart, without and with edges in the states."""
    draws = [measured(kind, n, seed) for seed in seeds]
    row = {name: float(np.median([one[name] for one in draws])) for name in draws[0]}
    return {
        **row,
        "least F1, one start": min(one["F1, one start"] for one in draws),
        "least F1, with edges": min(one["F1, with edges"] for one in draws),
        "starts agree": float(np.mean([one["starts agree"] for one in draws])),
    }


def f1(claimed: Edges, planted: Edges) -> float:
    """F1 score of the edges that are claimed, over pairs of judges."""
    upper = np.triu_indices(len(planted), 1)
    hits = float((claimed & planted)[upper].sum())
    return 2 * hits / max(float(claimed[upper].sum() + planted[upper].sum()), 1.0)


def measured(kind: Kind, n: int, seed: int) -> dict[str, float]:
    """What ``study`` takes medians of, on one draw."""
    rng = np.random.default_rng([seed, 3])
    draw = dependent_judges(rng, kind, n=n)
    models = models_of(draw.levels, kind, ordinal=False)
    independent = observation.fit(draw.scores, models, 4, rng)
    posterior = independent.posterior(draw.scores)
    row = {"in their state, independent": told_apart(posterior, draw.states)}
    tailed = independent.models[0]
    if isinstance(tailed, (StudentT, ScaleMixture)):
        once = tailed_scatter(draw.scores, tailed, posterior, rounds=1)
        model = tailed_scatter(draw.scores, tailed, posterior)
        first, last = (np.abs(fisher_z(m.correlation, n)) > CLEAR_EDGE for m in (once, model))
        from_one, agree = last, True
    else:
        first = pseudo_likelihood(draw.scores, draw.levels, posterior).edges
        from_one = dependent(draw.scores, draw.levels, posterior).edges

        def further() -> Array:
            starts = observation.partitions(draw.scores, models, 4, rng, _STARTS)
            return _states_by_views(draw, starts)

        model = likeliest_dependent(draw.scores, draw.levels, posterior, further)
        last, agree = model.edges, model.starts_agree
    posterior = model.posterior(draw.scores)
    return {
        "F1, independent": f1(first, draw.edges),
        "F1, one start": f1(from_one, draw.edges),
        "F1, with edges": f1(last, draw.edges),
        "starts agree": float(agree),
        "F1, mutual information": f1(_informative(draw, posterior), draw.edges) if min(draw.levels) else float("nan"),
        **row,
        "in their state, with edges": told_apart(posterior, draw.states),
    }


def _states_by_views(draw: DependentDraw, starts: Sequence[Array]) -> Array:
    """P(state | J) of the judges of each view joined into one, by the edges of the best short fit from these starts."""
    short = [dependent(draw.scores, draw.levels, start, rounds=_SHORT_ROUNDS) for start in starts]
    leading = max(short, key=lambda model: model.evidence(len(draw.scores)))
    views = partition(leading.statistics)
    return joined_views.states_of(draw.scores, draw.levels, views, [leading.posterior(draw.scores), *starts])


def _informative(draw: DependentDraw, posterior: Array) -> Edges:
    """Pairs of graded judges that share more information within states than chance gives."""
    answers = Answers(draw.scores.astype(np.intp), draw.levels)
    grades = np.array(draw.levels) - 1
    freedom = np.outer(grades, grades) * posterior.shape[1]
    information = conditional_mutual_information(answers, posterior)
    chance = chi2.sf(2 * len(draw.scores) * information, freedom)
    return (chance < EDGE_P_VALUE) & ~np.eye(len(grades), dtype=bool)


EXPERIMENT = Experiment(
    key="edges_within_states",
    title="Edges between judges that are not Gaussian",
    asks="Which pairs of judges depend on one another within states, and does the posterior gain by knowing them?",
    paper=(
        "Appendix General CARE Setup: S from pseudo-likelihood or conditional mutual information, for heavy tails from "
        "a scatter."
    ),
    protocol=(
        "Four states of binary Q and C, twelve judges of one kind, edges at 40 % of the pairs within each third. The "
        "mixture of independent judges is fitted first, and edges are read off its posterior. Then states and edges "
        "are fitted in turn until both are settled, from that posterior (`one start`). A further start is made from "
        "five partitions of the items: the edges of the best short fit from them make three views, the judges of each "
        "are joined into one whose grades are the patterns of theirs, and the likeliest states of these three are the "
        "start. So it goes on until the most evidence was reached twice, at most four times; `starts agree` is the "
        "share of draws in which it was. "
        "Judges with heavy tails have one start. Mutual information is read off the latter's posterior."
    ),
    run=run,
    small={"seeds": 2, "items": 2_000},
    full={"seeds": 10, "items": 10_000},
)
