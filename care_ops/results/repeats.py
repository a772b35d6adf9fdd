"""Repeated runs of a system on the same task: variance components of scores, and pass^k.

The components are judges, tasks, runs of a system on a task, and the residual, which is the judges' noise (Searle,
Casella and McCulloch, Variance Components, 1992). Generalised confidence intervals follow Weerahandi (Journal of the
American Statistical Association 1993). pass^k is the probability that k runs on a task all pass (Yao et al.,
tau-bench, 2024).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.results.rates import LEVEL, Labelled, Repeats
from care_ops.scores import Array, rows_of

_DRAWS = 4_000


@dataclass(frozen=True)
class Component:
    """One variance component of a score, with an interval and the share of the total variance."""

    variance: float
    lo: float
    hi: float
    share: float


@dataclass(frozen=True)
class VarianceSplit:
    """Variance components of a single score within a system.

    Attributes
    ----------
    components : dict name -> Component
        ``judge``, ``item`` (the task), ``run`` (with repeated runs of a task), and ``residual`` (judge noise).
    noise_of_difference : dict (first, second) -> float
        For two systems, the share of judge noise in the variance of their difference in mean score.
    """

    components: Mapping[str, Component]
    noise_of_difference: Mapping[tuple[str, str], float]

    def noise_between(self, first: str, second: str) -> float | None:
        """Return the share of judge noise in the variance of the difference between two systems; None if unknown."""
        return self.noise_of_difference.get((min(first, second), max(first, second)))


def variance_split(
    values: Array, systems: Sequence[str | None], tasks: Sequence[str], *, level: float = LEVEL, seed: int = 0
) -> VarianceSplit:
    """Estimate variance components of scores from the mean squares of judges, tasks, runs and residuals.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.
    systems, tasks : sequences of n str
        System and task of each answer; answers of the same system to the same task are repeated runs.

    Raises
    ------
    InputError
        There are fewer than two judges, or fewer than two tasks.
    """
    kept = np.flatnonzero(~np.isnan(values).all(axis=1))
    values, present = values[kept], ~np.isnan(values[kept])
    judges, answers = _two_way(values, present)
    residual = np.where(present, values - judges - answers[:, None], 0.0)
    n, p = values.shape
    owners = [str(systems[int(row)] or "") for row in kept]
    task_of = [tasks[int(row)] for row in kept]
    cells, of_owner, of_task = (
        [np.array(rows) for rows in rows_of(names).values()]
        for names in ((f"{owner}\0{task}" for owner, task in zip(owners, task_of, strict=True)), owners, task_of)
    )
    shared = len(of_task) < len(cells)
    freedom = {
        "judge": p - 1,
        "item": len(of_task) - (1 if shared else len(of_owner)),
        "run": n - len(cells),
        "residual": max(int(present.sum()) - n - p + 1, 1),
    }
    if freedom["judge"] < 1 or freedom["item"] < 1:
        raise InputError("variance components need at least two judges and two tasks; add judges or tasks")
    per_judge, per_answer = _harmonic(present.sum(axis=0)), _harmonic(present.sum(axis=1))
    per_task = _harmonic(np.array([len(rows) for rows in of_task]))
    within = sum(float(np.var(answers[rows])) * len(rows) for rows in cells)
    for rows in of_owner:
        answers[rows] -= answers[rows].mean()
    between = float(np.sum(np.square([answers[rows].mean() for rows in of_task])))
    squares = {  # the expectation of each is the residual variance plus a multiple of its component
        "judge": per_judge * float(np.var(judges, ddof=1)),
        "item": per_answer * per_task * between / freedom["item"],
        **({"run": per_answer * within / freedom["run"]} if freedom["run"] else {}),
        "residual": float(np.sum(residual**2)) / freedom["residual"],
    }
    rng = np.random.default_rng(seed)
    drawn = {k: v * freedom[k] / rng.chisquare(freedom[k], _DRAWS) for k, v in squares.items()}
    parts = [_components(each, per_judge, per_answer, per_task) for each in (squares, drawn)]
    exact, spread = ({name: np.maximum(part, 0.0) for name, part in each.items()} for each in parts)
    total = sum(float(part) for part in exact.values())
    ends = {name: np.quantile(part, [(1 - level) / 2, (1 + level) / 2]) for name, part in spread.items()}
    components = {
        name: Component(float(part), float(ends[name][0]), float(ends[name][1]), float(part) / total if total else 0.0)
        for name, part in exact.items()
    }
    return VarianceSplit(components, _noise(components, owners, task_of, per_answer))


def _two_way(values: Array, present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Estimate effects of judges and answers by least squares, with alternating updates if scores are missing."""
    filled = np.where(present, values, 0.0)
    answers, judges = np.zeros(len(values)), np.zeros(values.shape[1])
    for _ in range(1 if present.all() else 200):
        judges_before = judges
        answers = (filled - np.where(present, judges, 0.0)).sum(axis=1) / present.sum(axis=1)
        judges = np.where(present, filled - answers[:, None], 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        judges = judges - judges.mean()
        if np.allclose(judges, judges_before, rtol=0, atol=1e-12):
            break
    answers = (filled - np.where(present, judges, 0.0)).sum(axis=1) / present.sum(axis=1)
    return judges, answers


def _components(
    squares: Mapping[str, float | Array], per_judge: float, per_answer: float, per_task: float
) -> dict[str, float | Array]:
    """Solve the expected mean squares for the variances; without repeated runs, ``item`` includes the run variance."""
    noise, runs = squares["residual"], squares.get("run")
    return {
        "judge": (squares["judge"] - noise) / per_judge,
        "item": (squares["item"] - (noise if runs is None else runs)) / (per_answer * per_task),
        **({} if runs is None else {"run": (runs - noise) / per_answer}),
        "residual": noise,
    }


def _noise(
    components: Mapping[str, Component], owners: Sequence[str], tasks: Sequence[str], per_answer: float
) -> dict[tuple[str, str], float]:
    """Compute the share of judge noise in the variance of systems' differences; effects of shared tasks cancel."""
    of = {name: [tasks[k] for k in rows] for name, rows in rows_of(owners).items() if name}
    parts = {name: part.variance for name, part in components.items()}
    shares: dict[tuple[str, str], float] = {}
    for first, second in combinations(sorted(of), 2):
        both = ((first, second), (second, first))
        per_system = sum(1.0 / len(of[name]) for name in (first, second))
        unshared = sum(len({*of[one]} - {*of[other]}) / len({*of[one]}) ** 2 for one, other in both)
        noise = parts["residual"] / per_answer * per_system
        total = noise + parts.get("run", 0.0) * per_system + parts["item"] * unshared
        shares[first, second] = noise / total if total > 0 else 0.0
    return shares


def _harmonic(counts: NDArray[np.intp]) -> float:
    return float(len(counts) / np.sum(1.0 / np.maximum(counts, 1)))


def passes_of_tasks(sample: Labelled, tasks: Sequence[str], k: int) -> Labelled:
    """Convert the runs of each system on a task to one item, labelled with the probability that k runs all pass.

    The label is C(c, k) / C(m, k) for c passes among m labelled runs. The score is the expected lowest score of k runs.
    Tasks with fewer than k runs are left out.

    Raises
    ------
    InputError
        k is below 1, a label is not 0 or 1, the labels were drawn with unequal probabilities, or no task has k runs.
    """
    if k < 1:
        raise InputError(f"pass^k: the number of runs k must be 1 or more, got {k}")
    known = sample.labels[~np.isnan(sample.labels)]
    if not np.isin(known, (0.0, 1.0)).all() or (sample.chance is not None and len({*sample.chance.tolist()}) > 1):
        raise InputError("pass^k needs labels of 0 and 1 on items drawn with equal probability; omit other labels")
    systems = sample.systems if sample.systems is not None else [None] * len(tasks)
    cells = rows_of(f"{system}\0{task}" for system, task in zip(systems, tasks, strict=True))
    cells = {key: np.array(rows) for key, rows in cells.items() if len(rows) >= k}
    if not cells:
        raise InputError(f"pass^{k}: no system has {k} runs on the same task; give the task in the column split_unit")
    first = [int(rows[0]) for rows in cells.values()]
    return replace(
        sample,
        estimate=np.array([_lowest(sample.estimate[rows], k) for rows in cells.values()]),
        labels=np.array([_all_pass(sample.labels[rows], k) for rows in cells.values()]),
        systems=None if sample.systems is None else [sample.systems[row] for row in first],
        units=[tasks[row] for row in first],
        chance=None,
        repeats=Repeats(np.ones(len(cells)), shares=True),
    )


def _lowest(scores: Array, k: int) -> float:
    scores = np.sort(scores[~np.isnan(scores)])
    n = len(scores)
    if n < k:
        return math.nan
    return float(sum(score * math.comb(n - 1 - rank, k - 1) for rank, score in enumerate(scores)) / math.comb(n, k))


def _all_pass(labels: Array, k: int) -> float:
    known = labels[~np.isnan(labels)]
    return math.nan if len(known) < k else math.comb(int(known.sum()), k) / math.comb(len(known), k)
