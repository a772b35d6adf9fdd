"""How well edges between judges that are not Gaussian come back, over several draws.

Belongs here: one measurement that a test and a benchmark share.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from assets.experiments.observation_models import told_apart
from care_ops.models import observation
from care_ops.models.answers import Answers
from care_ops.models.dependence import conditional_mutual_information, dependent, pseudo_likelihood, tailed_scatter
from care_ops.models.observation import Family, Gaussian, Graded, ScaleMixture, StudentT
from care_ops.simulate import Kind, dependent_judges
from care_ops.structure.views import fisher_z

SEEDS = 10


def f1(estimated: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """F1 score of the estimated edges, which are symmetric matrices, over the upper triangle."""
    upper = np.triu_indices(len(true), 1)
    hit = float((estimated & true)[upper].sum())
    return 2 * hit / max(float(estimated[upper].sum() + true[upper].sum()), 1.0)


def edges(kind: Kind, n: int, seeds: Iterable[int] = range(SEEDS)) -> dict[str, float]:
    """F1 of the edges within states, and share of items in their true state, with and without edges."""
    before, after, least, apart, known, mutual = [], [], 1.0, [], [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, 3])
        draw = dependent_judges(rng, kind, n=n)
        judges = tuple(range(len(draw.levels)))
        real = tuple(j for j in judges if draw.levels[j] == 0)
        graded = tuple(j for j in judges if draw.levels[j] > 0)
        tailed = {"student": StudentT(judges), "scale mixture": ScaleMixture(judges)}.get(kind)
        parts: list[Family] = [tailed] if tailed else [Gaussian(real)] * bool(real)
        parts += [Graded(graded, tuple(draw.levels[j] for j in graded))] * bool(graded)
        model = observation.fit(draw.scores, parts, 4, rng)
        posterior = model.posterior(draw.scores)
        apart.append(told_apart(posterior, draw.states))
        if tailed:
            first = tailed_scatter(draw.scores, model.families[0], posterior, rounds=1)  # type: ignore[arg-type]
            last = tailed_scatter(draw.scores, model.families[0], posterior)  # type: ignore[arg-type]
            before.append(f1(np.abs(fisher_z(first.correlation, n)) > 5, draw.edges))
            after.append(f1(np.abs(fisher_z(last.correlation, n)) > 5, draw.edges))
            posterior = last.posterior(draw.scores)
        else:
            before.append(f1(pseudo_likelihood(draw.scores, draw.levels, posterior).edges, draw.edges))
            coupled = dependent(draw.scores, draw.levels, posterior)
            after.append(f1(coupled.edges, draw.edges))
            posterior = coupled.posterior(draw.scores)
        if not real:
            answers = Answers(draw.scores.astype(int), draw.levels)
            freedom = np.outer(np.array(draw.levels) - 1, np.array(draw.levels) - 1) * 4
            estimated = chi2.sf(2 * n * conditional_mutual_information(answers, posterior), freedom) < 5.7e-7
            mutual.append(f1(estimated & ~np.eye(len(judges), dtype=bool), draw.edges))
        known.append(told_apart(posterior, draw.states))
        least = min(least, after[-1])
    return {
        "F1, judges as independent": float(np.median(before)),
        "F1, edges in the posterior": float(np.median(after)),
        "least of ten": least,
        "F1, mutual information": float(np.median(mutual)) if mutual else float("nan"),
        "in their state, judges as independent": float(np.median(apart)),
        "in their state, with edges": float(np.median(known)),
    }
