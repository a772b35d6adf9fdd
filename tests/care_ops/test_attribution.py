"""Which of judges and systems changed: against integrals that are worked out step by step, and on planted changes."""

import math
from datetime import date
from itertools import combinations, product

import numpy as np
import pytest

from care_ops.records import ChangePoint
from care_ops.results.attribution import (
    Answer,
    Difference,
    change,
    first_free,
    log_capitals,
    of_judges,
    of_system,
    of_systems,
)

RUNS, ITEMS = 30, 5


def stream(rng, *, shift=0.0, since=0, runs=RUNS, items=ITEMS):
    """Differences of two scores of one judge, on a scale of tenths, one of them shifted from a run on."""
    found = []
    for run in range(runs):
        then, now = np.round(rng.normal(0.5, 0.15, size=(2, items)), 1)
        now = now + (shift if run >= since else 0.0)
        found.append(np.clip(now, 0, 1) - np.clip(then, 0, 1))
    return found


def differences(runs, round_=1):
    return [Difference(run, float(size), round_) for run, sizes in enumerate(runs) for size in sizes]


def test_the_capital_of_each_share_is_what_its_bets_have_won_step_by_step():
    runs = stream(np.random.default_rng(3), shift=0.1, since=2, runs=6)
    shares = log_capitals(runs)
    for run, start in product(range(6), range(6)):
        capitals = [1.0 / ((start + 1) * (start + 2)) / 12] * 12
        for k, bet in enumerate((-32, -16, -8, -4, -2, -1, 1, 2, 4, 8, 16, 32)):
            for d in np.concatenate([*runs[start : run + 1], np.zeros(0)]).tolist():
                capitals[k] *= 2 / (1 + math.exp(-2 * bet * d))
        assert np.exp(shares[run, start]) == pytest.approx(sum(capitals), rel=1e-9)


def test_the_capital_is_expected_to_stay_what_it_was_over_all_signs():
    """Of differences of which each may have either sign, the mean over all signs is exactly 1 at every run."""
    sizes = np.random.default_rng(1).uniform(0, 1, size=(4, 2))
    ends = []
    for signs in product((-1, 1), repeat=8):
        shares = log_capitals(list(sizes * np.reshape(signs, (4, 2))))
        ends.append(np.exp(shares).sum(axis=1) + 1 / 5)
    assert np.mean(ends, axis=0) == pytest.approx(np.ones(4))


def test_judges_and_systems_that_do_not_change_are_accused_as_seldom_as_promised():
    rng = np.random.default_rng(11)
    reported = [change(differences(stream(rng)), 0.2) is not None for _ in range(400)]
    assert np.mean(reported) <= 0.2 + 2 * np.sqrt(0.2 * 0.8 / 400)
    assert np.mean(reported) > 0, "a test that never speaks promises nothing"


@pytest.mark.parametrize("shift", [0.2, -0.2])
def test_a_planted_change_is_reported_with_its_run_and_its_size(shift):
    found = [change(differences(stream(np.random.default_rng(k), shift=shift, since=12)), 0.01) for k in range(20)]
    reported = [changed for changed in found if changed is not None and changed.detected >= 12]
    assert len(reported) >= 19
    assert np.median([abs(changed.run_date - 12) for changed in reported]) <= 1
    assert np.median([changed.detected for changed in reported]) <= 20
    assert np.median([changed.shift for changed in reported]) == pytest.approx(shift, abs=0.05)


def test_what_comes_later_changes_nothing_that_was_reported():
    runs = stream(np.random.default_rng(7), shift=0.25, since=10)
    whole = change(differences(runs), 0.05)
    assert whole is not None
    assert change(differences(runs[: whole.detected + 1]), 0.05) == whole
    assert change(differences(runs[: whole.detected]), 0.05) is None


def test_a_later_round_is_reported_by_its_own_share_and_shares_nothing_with_others():
    runs = stream(np.random.default_rng(7), shift=0.25, since=10)
    assert change(differences(runs, 3), 0.05 * 6) == change(differences(runs), 0.05)
    even, odd = ([run if k % 2 == part else [] for k, run in enumerate(runs)] for part in (0, 1))
    reported = change(differences(even) + differences(odd, 2), 0.05)
    assert reported in (change(differences(even), 0.025), change(differences(odd, 2), 0.05))


def test_runs_without_questions_print_nothing():
    assert change([], 0.05) is None
    assert change(differences([np.zeros(3)] * 9), 0.05) is None


def test_no_round_has_anything_twice():
    rng, taken, seen = np.random.default_rng(2), {}, []
    for _ in range(200):
        keys = frozenset(rng.choice(list("abcdefg"), 2, replace=False).tolist())
        seen.append((first_free(taken, keys), keys))
    for (k, one), (m, other) in combinations(seen, 2):
        assert k != m or not one & other
    assert max(k for k, _ in seen) < 2 * max(map(len, taken.values())), "and rounds are filled before others begin"


def answers(rng, run, count, *, quality=0.0, judged=0.0, judges=("a", "b"), prompts=40):
    chosen = rng.integers(prompts, size=count).tolist() if run else range(prompts)
    return [
        Answer(
            f"p{prompt}",
            f"{rng.integers(2**60):x}",
            run,
            {j: 0.5 + 0.01 * prompt + 0.1 * rng.normal() + quality + judged * (j == "a") for j in judges},
        )
        for prompt in chosen
    ]


def history(rng, *, quality=0.0, judged=0.0, runs=60):
    """A system that falls by ``quality`` after run 15, as do the scores of judge a by ``judged``."""
    before, new, references = answers(rng, 0, 0), [], {}
    for run in range(1, runs):
        late = run > 15
        new += answers(rng, run, 6, quality=quality * late, judged=judged * late)
        moved = [{"a": 0.02 * rng.normal() + judged * late, "b": 0.02 * rng.normal()} for _ in range(6)]
        references[run] = [(f"r{run} {k}", each) for k, each in enumerate(moved)]
    return before, new, references


def test_a_system_that_fell_is_reported_and_a_judge_that_moved_is_not_taken_for_it():
    rng = np.random.default_rng(4)
    fell = change(of_system(*history(rng, quality=-0.15), "ab", 6), 0.01)
    assert fell is not None
    assert abs(fell.run_date - 16) <= 5
    assert fell.shift < 0
    assert change(of_system(*history(rng, judged=0.3), "ab", 6), 0.05) is None
    assert change(of_system(*history(rng, judged=0.3), "", 6), 0.05) is not None, "so it is the reference that tells"
    assert change(of_system(*history(rng, judged=0.3, quality=-0.15), "ab", 6), 0.01) is not None


def test_an_answer_is_compared_within_its_prompt_by_the_judges_that_know_both():
    then = [Answer("p", "1", 0, {"a": 0.5, "b": 0.1}), Answer("q", "2", 0, {"a": 0.9})]
    new = [
        Answer("p", "3", 1, {"a": 0.7, "c": 0.2}),
        Answer("q", "4", 1, {"a": 0.9}),
        Answer("new", "5", 2, {"b": 0.3}),
    ]
    found = list(of_system(then, new, {}, (), 9))
    assert [(d.run_date, round(d.size, 9), d.round) for d in found] == [(1, 0.2, 1), (1, 0.0, 1), (2, 0.2, 2)]
    references = {1: [("r", {"a": 0.25})], 2: [("r", {"a": 0.25})]}
    held = list(of_system(then, new, references, ("a",), 9))
    assert [(d.run_date, round(d.size, 9)) for d in held] == [(1, -0.05), (2, 0.2)], (
        "a reference serves one answer a run"
    )
    assert [d.run_date for d in of_system(then, new, references, ("b",), 9)] == [1, 1], "b has not been asked again"
    assert not list(of_system([], new, references, ("a",), 9))


@pytest.mark.parametrize(("judge", "system"), [*product((False, True), repeat=2)])
def test_what_is_reported_names_the_judge_the_system_both_or_neither(judge, system):
    one = ChangePoint(date(2026, 11, 14).toordinal(), date(2026, 11, 16).toordinal(), -0.125)
    judges = {"sonnet": one} if judge else {}
    stated = [*of_judges(judges), *of_systems({"new": one} if system else {}, judges)]
    assert len(stated) == judge + system
    assert ("Judge sonnet changed" in " ".join(stated)) == judge
    assert ("System new fell by 0.125 of the scale on 2026-11-14 (told on 2026-11-16)" in " ".join(stated)) == system
    assert ("is held until sonnet has new reference scores" in " ".join(stated)) == (judge and system)
