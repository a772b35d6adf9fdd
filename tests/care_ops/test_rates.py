"""Tests of systems' rates from a few labels: closed forms, symmetries, coverage over simulated populations."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import beta, betabinom

from care_ops.errors import FitError, InputError
from care_ops.models.factor_analysis import normal_scores
from care_ops.models.passing import System, _mode, draw_shares
from care_ops.results import rates
from care_ops.results.rates import ALL, Labelled, item_scores, labels_needed, rates_of

TAILS = (0.05, 0.5, 0.95)


@pytest.fixture
def fewer_draws(monkeypatch):
    """Reduce the draws to a quarter, for tests that repeat a rate; quantile errors stay small."""
    monkeypatch.setattr(rates, "DRAWS", 1000)


def sampled(labels, rows):
    """Return the labels of some rows only."""
    kept = np.full(len(labels), np.nan)
    kept[rows] = labels[rows]
    return kept


def test_without_information_the_share_is_beta_binomial():
    """With equal scores, the posterior is that of one proportion: Beta(y + 1/2, m - y + 1/2)."""
    labels = np.zeros(50)
    labels[:9] = 1.0
    system = System(np.zeros(400), np.arange(50), labels, np.ones(50))
    draws = draw_shares(system, 40_000, np.random.default_rng(0))
    expected = (9 + betabinom.ppf(TAILS, 350, 9.5, 41.5)) / 400
    assert np.quantile(draws, TAILS) == pytest.approx(expected, abs=0.004)
    np.testing.assert_allclose(400 * draws, np.round(400 * draws), err_msg="labels of a sample count items", atol=1e-9)
    endless = draw_shares(system, 40_000, np.random.default_rng(0), of_these_items=False)
    assert np.quantile(endless, TAILS) == pytest.approx(beta.ppf(TAILS, 9.5, 41.5), abs=0.003)


def test_with_a_vote_the_two_groups_are_independent_proportions():
    """Jeffreys' prior of a logistic regression on a group is Beta(1/2, 1/2) for each group."""
    score = np.repeat([-1.0, 1.0], [600, 400])
    seen = np.r_[:30, 600:640]
    labels = np.r_[np.repeat([1.0, 0.0], [4, 26]), np.repeat([1.0, 0.0], [37, 3])]
    system = System(score, seen, labels, np.ones(70))
    draws = draw_shares(system, 40_000, np.random.default_rng(1), of_these_items=False)
    rng = np.random.default_rng(2)
    expected = 0.6 * rng.beta(4.5, 26.5, 400_000) + 0.4 * rng.beta(37.5, 3.5, 400_000)
    assert np.quantile(draws, TAILS) == pytest.approx(np.quantile(expected, TAILS), abs=0.006)


def test_all_labelled_leaves_no_uncertainty():
    labels = np.random.default_rng(3).integers(0, 2, 80).astype(float)
    (rate,) = rates_of(Labelled(np.arange(80.0), labels)).rates
    assert (rate.value, rate.lo, rate.hi) == pytest.approx((labels.mean(),) * 3)
    assert (rate.system, rate.items, rate.labels) == (ALL, 80, 80)


def test_only_the_order_of_the_estimates_counts_and_answers_can_be_turned_round():
    rng = np.random.default_rng(4)
    estimate = rng.normal(size=500)
    gold = (rng.random(500) < expit(estimate)).astype(float)
    labels = sampled(gold, rng.choice(500, 40, replace=False))
    (plain,) = rates_of(Labelled(estimate, labels)).rates
    (curved,) = rates_of(Labelled(np.exp(3 * estimate), labels)).rates
    (turned,) = rates_of(Labelled(estimate, 1.0 - labels)).rates
    assert (curved.value, curved.lo, curved.hi) == (plain.value, plain.lo, plain.hi)
    assert (1 - turned.value, 1 - turned.hi, 1 - turned.lo) == pytest.approx(
        (plain.value, plain.lo, plain.hi), abs=0.01
    )


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("share", "strength"),
    [(0.1, 1.0), pytest.param(0.5, 4.0, marks=SLOW), pytest.param(0.9, 0.0, marks=SLOW)],
)
def test_coverage_of_a_share(share, strength):
    """90 % intervals over 60 samples of 30 labels cover at least .9 less three standard errors."""
    rng = np.random.default_rng(5)
    latent = rng.normal(size=1500)
    chance = expit(strength * latent + np.log(share / (1 - share)) * (1 + strength / 2))
    gold = (rng.random(1500) < chance).astype(float)
    inside = 0
    for seed in range(60):
        rows = np.random.default_rng([6, seed]).choice(1500, 30, replace=False)
        system = System(normal_scores(latent[:, None])[:, 0], rows, gold[rows], np.ones(30))
        lo, hi = np.quantile(draw_shares(system, 1000, rng), (0.05, 0.95))
        inside += bool(lo <= gold.mean() <= hi)
    assert inside / 60 >= 0.9 - 3 * np.sqrt(0.09 / 60)


def test_few_items_are_left_and_a_share_of_them_is_a_count():
    """With ten unlabelled items, an interval without rounding would miss one in seven counts."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(150):
        score = rng.standard_normal(30)
        labels = (rng.random(30) < expit(0.8 + 1.5 * score)).astype(float)
        draws = draw_shares(System(score, np.arange(20), labels[:20], np.ones(20)), 1000, rng)
        assert draws * 30 == pytest.approx(np.round(draws * 30)), "items are whole"
        lo, hi = np.quantile(draws, (0.05, 0.95))
        covered += lo - 1e-9 <= labels.mean() <= hi + 1e-9
    assert covered / 150 > 0.9 - 3 * np.sqrt(0.9 * 0.1 / 150), covered


@pytest.mark.parametrize("seed", range(36))
def test_the_grid_lies_around_a_top_of_the_posterior(seed):
    """A local search gives the mode for separable labels, unequal weights and a few extreme items."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(4, 25))
    score = rng.standard_normal(m) if seed % 3 < 2 else np.where(np.arange(m) < 0.85 * m, -0.3, 3.0)
    passes = rng.random(m) < expit(rng.normal(0, 2) + rng.normal(0, 3) * score)
    labels = (score > np.median(score) if seed % 3 == 1 else passes).astype(float)
    weights = np.ones(m) if seed % 2 else rng.uniform(0.1, 4.0, m)
    score = score - weights @ score / weights.sum()

    def minus_log_posterior(at):
        logit = at[0] + at[1] * score
        design = np.column_stack([np.ones(m), score])
        information = design.T * (weights * expit(logit) * expit(-logit)) @ design
        likelihood = weights @ (labels * log_expit(logit) + (1 - labels) * log_expit(-logit))
        return -float(likelihood) - 0.5 * float(np.linalg.slogdet(information)[1])

    level, slope, _ = _mode(score, labels, weights)
    settings = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    higher = minimize(minus_log_posterior, [level, slope], method="Nelder-Mead", options=settings)
    assert minus_log_posterior([level, slope]) == pytest.approx(higher.fun, abs=1e-6)


@pytest.mark.parametrize(("bias", "graded"), [(0.0, False), (1.5, False), (3.0, False), (1.5, True)])
@pytest.mark.usefixtures("fewer_draws")
def test_the_interval_of_one_of_eight_systems_holds_however_much_judges_favour_it(bias, graded):
    """Judges favour the first of eight equal systems; each has ten random labels.

    A share depends on the other systems only through the order of all estimates, so only the first is estimated.
    """
    covered: list[bool] = []
    for seed in range(50):
        rng = np.random.default_rng([seed, 8])
        names = np.repeat([f"s{k}" for k in range(8)], 100)
        latent = rng.normal(size=800)
        gold = (latent + rng.normal(size=800) > 0).astype(float) if not graded else latent + rng.normal(size=800)
        rows = np.concatenate(
            [rng.choice(np.flatnonzero(names == name), 10, replace=False) for name in sorted(set(names))]
        )
        stated = np.where(names == "s0", latent + bias, latent)
        systems = names.tolist() if graded else ["s0" if name == "s0" else None for name in names]
        (rate,) = [r for r in rates_of(Labelled(stated, sampled(gold, rows), systems)).rates if r.system == "s0"]
        covered.append(rate.lo <= gold[names == "s0"].mean() <= rate.hi)
    assert np.mean(covered) > 0.79  # of .9, less two and a half standard errors of 50


def test_a_difference_is_of_joint_draws():
    rng = np.random.default_rng(8)
    names = np.repeat(["new", "old"], 400)
    latent = rng.normal(size=800) + (names == "new")
    gold = (rng.random(800) < expit(2 * latent)).astype(float)
    labels = sampled(gold, rng.choice(800, 200, replace=False))
    found = rates_of(Labelled(latent, labels, names.tolist()))
    forward, back = found.difference("new", "old"), found.difference("old", "new")
    assert (forward.value, forward.lo, forward.hi) == pytest.approx((-back.value, -back.hi, -back.lo))
    assert forward.lo <= gold[:400].mean() - gold[400:].mean() <= forward.hi


def test_graded_labels_follow_the_regression_estimator():
    """The expected values are the regression estimator of survey sampling and its leave-one-out error."""
    rng = np.random.default_rng(9)
    estimate = rng.normal(size=900)
    gold = 3 + 0.8 * estimate + rng.normal(size=900)
    rows = rng.choice(900, 60, replace=False)
    found = rates_of(Labelled(estimate, sampled(gold, rows)))
    (rate,) = found.rates
    slope, level = np.polyfit(estimate[rows], gold[rows], 1)
    assert found.kind == "mean"
    assert rate.value == pytest.approx(level + slope * estimate.mean(), abs=0.02)
    residual = gold[rows] - level - slope * estimate[rows]
    half = 1.67 * residual.std(ddof=2) / np.sqrt(60) * np.sqrt(1 - 60 / 900)
    assert (rate.hi - rate.lo) / 2 == pytest.approx(half, rel=0.15)
    (blind,) = rates_of(Labelled(np.zeros(900), sampled(gold, rows))).rates
    assert rate.hi - rate.lo < 0.85 * (blind.hi - blind.lo)


@pytest.mark.parametrize("explained", [0.1, 0.3, 0.6])
def test_ten_graded_labels_give_intervals_not_much_wider_than_ppi_plus_plus_that_hold(explained):
    """PPI++ estimates slope and variance from the ten labels, and covers too rarely."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=1000)
    gold = np.clip(np.round(3 + 1.2 * quality), 1, 5)
    estimate = explained**0.5 * quality + (1 - explained) ** 0.5 * rng.normal(size=1000)
    held, theirs, widths = 0, 0, []
    for _ in range(200):
        rows = rng.choice(1000, 10, replace=False)
        (rate,) = rates_of(Labelled(estimate, sampled(gold, rows))).rates
        held += rate.lo <= gold.mean() <= rate.hi
        rest = np.setdiff1d(np.arange(1000), rows)
        slope = np.cov(gold[rows], estimate[rows])[0, 1] / ((1 + 10 / 990) * np.var(estimate))
        value = slope * estimate[rest].mean() + (gold[rows] - slope * estimate[rows]).mean()
        error = np.sqrt(slope**2 * np.var(estimate[rest]) / 990 + np.var(gold[rows] - slope * estimate[rows]) / 10)
        theirs += abs(value - gold.mean()) <= 1.645 * error
        widths.append(((rate.hi - rate.lo), 2 * 1.645 * error))
    ours, ppi = np.mean(widths, axis=0)
    assert ours <= 1.22 * ppi
    assert 0.85 <= held / 200 <= 0.95
    assert held > theirs


@pytest.mark.parametrize("labelled", [5, 10])
def test_a_poor_system_whose_graded_labels_are_mostly_alike_is_not_taken_for_sure(labelled):
    """If one answer in ten is partly right, all five or ten labels are often zero."""
    covered: list[bool] = []
    for seed in range(60):
        rng = np.random.default_rng([38, seed])
        systems = np.repeat(["good", "fair", "poor"], 400)
        right = rng.random(1200) < np.repeat([0.8, 0.5, 0.1], 400)
        gold = right * rng.choice([0.5, 0.75, 1.0], 1200)
        rows = np.concatenate([rng.choice(np.flatnonzero(systems == s), labelled, replace=False) for s in set(systems)])
        found = rates_of(Labelled(rng.normal(size=1200), sampled(gold, rows), systems.tolist()))
        (poor,) = [each for each in found.rates if each.system == "poor"]
        covered.append(poor.lo <= gold[800:].mean() <= poor.hi)
    assert np.mean(covered) >= 0.85


def test_labels_of_chosen_items_count_by_their_chance():
    """Failures are labelled four times as often, so only sampling probabilities give the right share."""
    rng = np.random.default_rng(10)
    gold = (rng.random(4000) < 0.7).astype(float)
    chance = np.where(gold == 0, 0.2, 0.05)
    labels = sampled(gold, np.flatnonzero(rng.random(4000) < chance))
    flat = np.zeros(4000)
    (naive,), (weighed,) = rates_of(Labelled(flat, labels)).rates, rates_of(Labelled(flat, labels, chance=chance)).rates
    assert naive.hi < 0.6
    assert weighed.lo <= gold.mean() <= weighed.hi


def test_items_of_one_unit_that_resemble_one_another_count_for_fewer():
    rng = np.random.default_rng(11)
    units = np.repeat(np.arange(100), 5)
    gold = np.repeat(rng.integers(0, 2, 100), 5).astype(float)
    labels = sampled(gold, np.arange(100))
    (separate,) = rates_of(Labelled(np.zeros(500), labels)).rates
    (together,) = rates_of(Labelled(np.zeros(500), labels, units=units.astype(str).tolist())).rates
    assert together.hi - together.lo > 1.8 * (separate.hi - separate.lo)


def test_how_many_labels_a_width_needs():
    """With the reported number of labels, intervals have the requested width, up to sampling error."""
    rng = np.random.default_rng(13)
    estimate = rng.normal(size=3000)
    gold = (rng.random(3000) < expit(2 * estimate)).astype(float)
    order = rng.permutation(3000)
    (few,) = rates_of(Labelled(estimate, sampled(gold, order[:60]))).rates
    needed = labels_needed(few, 0.04)
    (many,) = rates_of(Labelled(estimate, sampled(gold, order[:needed]))).rates
    assert 60 < needed < 3000
    assert (many.hi - many.lo) / 2 == pytest.approx(0.04, rel=0.2)
    assert labels_needed(few, (few.hi - few.lo) / 2) == 60
    assert labels_needed(few, 1e-6) == 3000
    with pytest.raises(InputError, match="above 0"):
        labels_needed(few, 0.0)


def test_bad_input_is_named():
    estimate, labels = np.arange(10.0), np.r_[np.ones(4), np.full(6, np.nan)]
    with pytest.raises(FitError, match=r"no system has 5 labels \(all items: 4 labels"):
        rates_of(Labelled(estimate, labels))
    with pytest.raises(InputError, match="probability"):
        rates_of(Labelled(estimate, np.ones(10), chance=np.zeros(10)))
    with pytest.raises(InputError, match="level"):
        rates_of(Labelled(estimate, np.ones(10)), level=90)
    with pytest.raises(InputError, match="no rate for c; choose from a, b"):
        rates_of(Labelled(estimate, np.ones(10), ["a", "b"] * 5)).difference("a", "c")


def test_an_estimate_that_is_the_same_for_every_item_shows_rates_nothing():
    np.testing.assert_array_equal(item_scores(np.full(60, 0.1), shares=False), np.zeros(60))  # mean of .1s is not .1


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.usefixtures("fewer_draws")
def test_a_rate_of_items_to_come_knows_that_answers_to_one_prompt_are_alike(shares):
    """Thirty answers share ten prompts; as independent items, half of the intervals would miss."""
    unit, new = np.arange(600) // 30, np.arange(600) >= 300
    covered, free = [], []
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        quality = np.sqrt(0.85) * rng.normal(size=600)[unit] + np.sqrt(0.15) * rng.normal(size=600)
        estimate = quality + 0.28 * rng.normal(size=600)
        labels, seen = np.full(600, np.nan), rng.permuted(np.arange(600).reshape(2, 300), axis=1)[:, :60].ravel()
        labels[seen] = quality[seen] > 0 if shares else quality[seen]
        systems, truth = np.where(new, "new", "old").tolist(), 0.5 if shares else 0.0
        for found, units in ((covered, [f"u{u}" for u in unit]), (free, None)):
            each = rates_of(Labelled(estimate, labels, systems, units), of_these_items=False).rates
            found += [rate.lo <= truth <= rate.hi for rate in each]
    assert np.mean(covered) > 0.8
    assert np.mean(free) < 0.65
