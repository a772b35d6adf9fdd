"""Tests of the variance split, pass^k and the judges' noise against simulated truth in 100 draws."""

import numpy as np
import pytest
from scipy.special import expit

from care_ops.errors import InputError
from care_ops.results.gate import gate
from care_ops.results.rates import Labelled, rates_of
from care_ops.results.repeats import passes_of_tasks, variance_split

PLANTED = {"judge": 0.5, "item": 1.0, "run": 0.4, "residual": 1.5}
TASKS, RUNS, JUDGES = 40, 3, 8


def scores(rng, *, missing=0.0, difference=0.0, parts=PLANTED, tasks=TASKS):
    """Simulate scores of two systems' runs; return also their systems and tasks."""
    sd = {name: np.sqrt(variance) for name, variance in parts.items()}
    item = sd["item"] * rng.normal(size=tasks)
    rows = [(system, task, run) for system in "ab" for task in range(tasks) for run in range(RUNS)]
    own = np.array([item[task] + difference * (system == "b") for system, task, _ in rows])
    answer = own + sd["run"] * rng.normal(size=len(rows))
    values = (
        answer[:, None] + sd["judge"] * rng.normal(size=JUDGES) + sd["residual"] * rng.normal(size=(len(rows), JUDGES))
    )
    values[rng.random(values.shape) < missing] = np.nan
    return values, [system for system, _, _ in rows], [f"t{task}" for _, task, _ in rows], answer


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_the_split_holds_planted_variances_as_often_as_promised(missing):
    held = dict.fromkeys(PLANTED, 0)
    means = {name: [] for name in PLANTED}
    for seed in range(100):
        values, systems, tasks, _ = scores(np.random.default_rng(seed), missing=missing)
        found = variance_split(values, systems, tasks).components
        for name, truth in PLANTED.items():
            held[name] += found[name].lo <= truth <= found[name].hi
            means[name].append(found[name].variance)
    assert all(82 <= count <= 98 for count in held.values()), held
    for name, truth in PLANTED.items():
        assert np.mean(means[name]) == pytest.approx(truth, rel=0.1), name
    assert sum(part.share for part in found.values()) == pytest.approx(1)


def test_one_run_a_task_has_no_part_of_runs():
    values, systems, tasks, _ = scores(np.random.default_rng(0))
    first = [k for k in range(len(tasks)) if k % RUNS == 0]
    found = variance_split(values[first], [systems[k] for k in first], [tasks[k] for k in first]).components
    assert set(found) == {"judge", "item", "residual"}
    with pytest.raises(InputError, match="two judges"):
        variance_split(values[:, :1], systems, tasks)


def test_the_noise_of_a_difference_is_what_more_judges_would_take_away():
    """The expected share is 1 minus the ratio of variances without and with noise."""
    quiet = {**PLANTED, "residual": 1e-12}
    differences = {True: [], False: []}
    stated = []
    for seed in range(150):
        for noisy, parts in ((True, PLANTED), (False, quiet)):
            values, systems, tasks, _ = scores(np.random.default_rng(seed), parts=parts)
            means = values.mean(axis=1)
            differences[noisy].append(means[: TASKS * RUNS].mean() - means[TASKS * RUNS :].mean())
            if noisy:
                stated.append(variance_split(values, systems, tasks).noise_of_difference["a", "b"])
    share = 1 - np.var(differences[False]) / np.var(differences[True])
    assert np.mean(stated) == pytest.approx(share, abs=0.1)


@pytest.mark.slow
def test_no_difference_is_called_that_is_the_judges_noise():
    """In 200 draws of two equal systems with noisy judges, at most 10 % are called different."""
    loud, called = {**PLANTED, "residual": 6.0}, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values, systems, tasks, answer = scores(rng, parts=loud)
        gold = (rng.random(len(answer)) < expit(2 * answer)).astype(float)
        labels = np.full(len(gold), np.nan)
        drawn = rng.choice(len(gold), 60, replace=False)
        labels[drawn] = gold[drawn]
        called += gate(Labelled(values.mean(axis=1), labels, systems, tasks), "a", "b").passes is not None
    assert called <= 20, called


def test_pass_k_holds_planted_truth_as_often_as_promised():
    """The intervals cover pass^3 over a population of tasks, in 100 draws of 20 labelled tasks."""
    rng = np.random.default_rng(99)
    ease = 0.7 + 1.0 * rng.normal(size=100_000)
    truth = float(np.mean(expit(2 * ease) ** 3))
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        ease = np.repeat(0.7 + 1.0 * rng.normal(size=100), 3)
        gold = (rng.random(300) < expit(2 * ease)).astype(float)
        estimate = ease + gold + 0.7 * rng.normal(size=300)
        tasks = [str(k // 3) for k in range(300)]
        labelled = np.isin(np.arange(300) // 3, rng.choice(100, 20, replace=False))
        sample = Labelled(estimate, np.where(labelled, gold, np.nan))
        (rate,) = rates_of(passes_of_tasks(sample, tasks, 3), of_these_items=False, seed=seed).rates
        held += rate.lo <= truth <= rate.hi
    assert 82 <= held <= 98, held


def test_pass_k_of_a_task_is_the_share_of_its_draws_of_k_runs_that_pass():
    labels = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, np.nan])
    sample = Labelled(np.array([3.0, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]), labels, list("aaaabbbb"))
    tasks = ["t"] * 8
    found = passes_of_tasks(sample, tasks, 2)
    assert found.labels.tolist() == [0.5, 1.0], "C(3, 2) / C(4, 2), and of the second all pairs of labelled runs"
    assert found.estimate[0] == pytest.approx((1 * 3 + 2 * 2 + 3 * 1) / 6)
    assert np.isnan(passes_of_tasks(sample, tasks, 4).labels[1])
    with pytest.raises(InputError, match=r"pass\^5: no system has 5 runs"):
        passes_of_tasks(sample, tasks, 5)
    with pytest.raises(InputError, match="0 and 1"):
        passes_of_tasks(Labelled(sample.estimate, 2 * labels), tasks, 2)
