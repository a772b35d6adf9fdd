"""Which of judges and systems changed: against integrals that are worked out step by step, and on planted changes."""

import numpy as np
import pytest
from scipy.integrate import quad

from care_ops.errors import InputError
from care_ops.results.attribution import attribute, change, log_capitals

NIGHTS, ITEMS = 30, 5


def stream(rng, *, shift=0.0, since=0, nights=NIGHTS, items=ITEMS):
    """Differences of two scores of one judge, on a scale of tenths, one of them shifted from a night on."""
    found = []
    for night in range(nights):
        then, now = np.round(rng.normal(0.5, 0.15, size=(2, items)), 1)
        now = now + (shift if night >= since else 0.0)
        found.append(np.clip(now, 0, 1) - np.clip(then, 0, 1))
    return found


def test_the_capital_of_each_share_is_the_integral_over_its_bets():
    nights = stream(np.random.default_rng(3), shift=0.1, since=2, nights=6)
    shares = log_capitals(nights)
    for night in range(6):
        for start in range(6):
            given = 1.0 / ((start + 1) * (start + 2))
            since = np.concatenate([*nights[start : night + 1], np.zeros(0)])

            def wins(bet, since=since):
                density = np.exp(-0.5 * (bet / 10.0) ** 2) / (10.0 * np.sqrt(2 * np.pi))
                return density * np.prod([np.exp(bet * d - 0.5 * (bet * d) ** 2) for d in since])

            won = quad(wins, -80, 80, limit=400)[0]
            assert np.exp(shares[night, start]) == pytest.approx(given * won, rel=1e-6)


def test_a_bet_on_symmetric_differences_is_fair_or_worse_for_every_size():
    """Each pair may be exchanged: the mean of the two outcomes of a bet is at most what was put in."""
    for size in np.linspace(0, 1, 41):
        for bet in np.linspace(-60, 60, 241):
            wins = [np.exp(bet * d - 0.5 * (bet * d) ** 2) for d in (size, -size)]
            assert np.mean(wins) <= 1 + 1e-12


def test_judges_and_systems_that_do_not_change_are_accused_as_seldom_as_promised():
    rng = np.random.default_rng(11)
    told = [change(stream(rng), 0.2) is not None for _ in range(400)]
    assert np.mean(told) <= 0.2 + 2 * np.sqrt(0.2 * 0.8 / 400)
    assert np.mean(told) > 0, "a test that never speaks promises nothing"


@pytest.mark.parametrize(("which", "cause"), [("j", "judge"), ("s", "system"), ("js", "both"), ("", "no evidence")])
def test_the_cause_that_was_planted_is_the_one_that_is_told(which, cause):
    rng = np.random.default_rng(5)
    judges = {name: stream(rng, shift=0.2 * (name == "b" and "j" in which), since=12) for name in "abc"}
    systems = {name: stream(rng, shift=-0.2 * (name == "y" and "s" in which), since=12) for name in "xy"}
    found = attribute(judges, systems)
    assert found.cause == cause
    assert set(found.judges) == ({"b"} if "j" in which else set())
    assert set(found.systems) == ({"y"} if "s" in which else set())
    for changed in (*found.judges.values(), *found.systems.values()):
        assert abs(changed.night - 12) <= 3
        assert changed.told >= changed.night
    assert all(changed.shift > 0 for changed in found.judges.values())
    assert all(changed.shift < 0 for changed in found.systems.values())


def test_what_comes_later_changes_nothing_that_was_told():
    nights = stream(np.random.default_rng(7), shift=0.25, since=10)
    whole = change(nights, 0.05)
    assert whole is not None
    assert change(nights[: whole.told + 1], 0.05) == whole
    assert change(nights[: whole.told], 0.05) is None


def test_nights_without_questions_say_nothing():
    assert change([], 0.05) is None
    assert change([np.zeros(0)] * 9, 0.05) is None
    assert attribute({}, {}).cause == "no evidence"


@pytest.mark.parametrize("wrong", [1.5, np.nan])
def test_differences_are_shares_of_the_scale(wrong):
    with pytest.raises(InputError, match="sonnet: a difference is more than the scale, or no number"):
        attribute({"sonnet": [np.array([0.1, wrong])]}, {})
