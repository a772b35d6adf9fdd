"""Tests of the detection of changed judges: against integrals computed in steps, and on simulated changes."""

import math
from datetime import date
from itertools import product

import numpy as np
import pytest

from care_ops.records import ChangePoint
from care_ops.results.attribution import Difference, change, log_capitals, of_judges

RUNS, ITEMS = 30, 5


def stream(rng, *, shift=0.0, since=0, runs=RUNS, items=ITEMS):
    """Simulate differences of two scores of one judge in tenths; from run ``since`` on, scores are shifted."""
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
    """If each difference may have either sign, the mean capital over all signs is exactly 1 at each run."""
    sizes = np.random.default_rng(1).uniform(0, 1, size=(4, 2))
    ends = []
    for signs in product((-1, 1), repeat=8):
        shares = log_capitals(list(sizes * np.reshape(signs, (4, 2))))
        ends.append(np.exp(shares).sum(axis=1) + 1 / 5)
    assert np.mean(ends, axis=0) == pytest.approx(np.ones(4))


def test_judges_that_do_not_change_are_accused_as_seldom_as_promised():
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


@pytest.mark.parametrize("judges", [(), ("sonnet",)])
def test_a_changed_judge_is_named_with_its_shift_and_days(judges):
    one = ChangePoint(date(2026, 11, 14).toordinal(), date(2026, 11, 16).toordinal(), -0.125)
    stated = of_judges(dict.fromkeys(judges, one))
    assert len(stated) == len(judges)
    for sentence in stated:
        assert "Judge sonnet changed" in sentence
        assert "fell by 0.125 of the scale on 2026-11-14 (detected on 2026-11-16)" in sentence
