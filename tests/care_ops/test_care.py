"""``care``: safe where a panel is ambiguous, sharper where it is clear, settled by anchors."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import ndtr

from care_ops.aggregators.latent import family_mean
from care_ops.anchors import Anchors
from care_ops.config import AGGREGATORS, FitConfig
from care_ops.fit import fit_panel
from care_ops.metrics import auc
from care_ops.models import factor_analysis
from care_ops.models.hypotheses import (
    DEPARTURES,
    NOISES,
    NOISES_OF_SIDES,
    NOTHING,
    SLOPE,
    SLOPE_SD,
    Hypothesis,
    average_hypotheses,
)
from care_ops.scores import ScoreMatrix
from tests.support.matrices import matrix


def care(scores: ScoreMatrix, anchors: Anchors | None = None, **options):
    config = FitConfig(aggregators=("care",), **options)
    return fit_panel(scores, config, anchors or Anchors({})).aggregates["care"]


def clear_panel(rng: np.random.Generator, n: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Judges of very different accuracy."""
    quality = rng.normal(size=n)
    noise = np.linspace(0.3, 3.0, 10)
    return quality, quality[:, None] + noise * rng.normal(size=(n, 10))


def test_on_a_clear_panel_it_weighs_judges_and_gains_over_the_mean(rng):
    quality, x = clear_panel(rng)
    found = fit_panel(matrix(x), FitConfig(aggregators=("care", "avg"))).aggregates
    gain = np.corrcoef(found["care"].estimate, quality)[0, 1] - np.corrcoef(found["avg"].estimate, quality)[0, 1]
    assert found["care"].details["share_of_factor"] > 0
    assert not found["care"].details["ambiguous"]
    assert gain > 0.02


def test_a_declared_family_that_repeats_itself_speaks_once(rng):
    """Eight judges that share an error, too unlike to be copies, and four judges of independent errors."""
    n = 3_000
    quality, echo = rng.normal(size=(2, n))
    repeated = quality[:, None] * 0.5 + echo[:, None] + 0.8 * rng.normal(size=(n, 8))
    others = quality[:, None] + rng.normal(size=(n, 4))
    x = np.column_stack([repeated, others])
    families = {f"j{k:03d}": "echo" for k in range(8)}
    declared, undeclared = care(matrix(x, **families)), care(matrix(x))
    assert np.corrcoef(declared.estimate, quality)[0, 1] > np.corrcoef(undeclared.estimate, quality)[0, 1] + 0.15
    assert declared.details["families"] == 5
    assert declared.details["ambiguous"]


def test_family_mean_is_a_mean_of_means_over_what_is_present():
    z = np.array([[1.0, 3.0, 10.0], [np.nan, 4.0, np.nan], [np.nan, np.nan, np.nan]])
    found = family_mean(z, ("a", "b", "c"), {"a": "f", "b": "f"})
    np.testing.assert_array_equal(found, [6.0, 4.0, np.nan])


def test_noise_in_a_family_of_its_own_says_nothing(rng):
    """Two quarrelling families; a third brings scores that have nothing to do with any item."""
    n = 3_000
    quality, echo = rng.normal(size=(2, n))
    repeated = quality[:, None] * 0.5 + echo[:, None] + 0.5 * rng.normal(size=(n, 8))
    others = quality[:, None] + rng.normal(size=(n, 4))
    families = {f"j{k:03d}": "echo" if k < 8 else "others" for k in range(12)}
    before = care(matrix(np.column_stack([repeated, others]), **families))
    beside = matrix(np.column_stack([repeated, others, rng.normal(size=n)]), **families)
    after = fit_panel(beside, FitConfig(aggregators=("care", "families"))).aggregates
    assert np.corrcoef(before.estimate, after["care"].estimate)[0, 1] > 0.95
    assert np.corrcoef(before.estimate, after["families"].estimate)[0, 1] < 0.9, "one voice of three"


def led_by_a_confounder(rng: np.random.Generator, n: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Four judges right about Q at 75 %, eight that follow C at 85 %."""
    quality, confounder = rng.random((2, n)) < 0.5
    right = np.where(rng.random((n, 4)) < 0.75, quality[:, None], ~quality[:, None])
    driven = np.where(rng.random((n, 8)) < 0.85, confounder[:, None], ~confounder[:, None])
    return quality.astype(float), np.column_stack([right, driven]).astype(float)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.7])
def test_a_panel_whose_judges_follow_two_factors_is_ambiguous_however_alike_they_are(rng, correlation):
    quality, other = rng.normal(size=(2, 600))
    other = correlation * quality + np.sqrt(1 - correlation**2) * other
    x = np.column_stack([t[:, None] + 0.6 * rng.normal(size=(600, 6)) for t in (quality, other)])
    assert care(matrix(x)).details["ambiguous"]
    alike = quality[:, None] + 0.6 * rng.normal(size=(600, 12))
    assert not care(matrix(alike)).details["ambiguous"]


def test_a_panel_led_by_a_confounder_is_settled_by_ten_anchors(rng):
    """AUC for Q: without labels nobody knows; with ten random labels, the median of forty draws."""
    quality, x = led_by_a_confounder(rng)
    scores = matrix(x)
    config = FitConfig(aggregators=AGGREGATORS, cut=0.5)
    blind = fit_panel(scores, config).aggregates
    order = {name: auc(a.estimate, quality) for name, a in blind.items()}
    decided = {name: np.mean((a.estimate > a.threshold) == (quality > 0.5)) for name, a in blind.items()}
    settled, right = [], []
    for _ in range(40):
        chosen = rng.choice(len(quality), 10, replace=False)
        anchors = Anchors({scores.item_ids[i]: float(quality[i]) for i in chosen})
        estimate = care(scores, anchors, cut=0.5).estimate
        settled.append(auc(estimate, quality))
        right.append(np.mean((estimate > 0.5) == (quality > 0.5)))
    print(f"\nled by a confounder, AUC {shown(order)}, accuracy {shown(decided)}")
    print(f"care with 10 anchors: AUC {np.median(settled):.3f}, accuracy {np.median(right):.3f} (medians of 40 draws)")
    assert max(decided.values()) < 0.65
    assert blind["care"].details["factors"] == 2
    assert blind["care"].details["ambiguous"]
    assert np.median(settled) >= 0.70
    assert np.median(right) >= 0.70


def shown(figures: dict) -> dict:
    return {name: round(float(figure), 3) for name, figure in figures.items()}


def test_labels_that_do_not_differ_change_nothing(rng):
    _, x = clear_panel(rng, 300)
    scores = matrix(x)
    anchors = Anchors({scores.item_ids[i]: 1.0 for i in range(5)})
    np.testing.assert_array_equal(care(scores, anchors).estimate, care(scores).estimate)


def test_probabilities_are_calibrated_given_twenty_binary_labels_and_not_given_otherwise(rng):
    excess = []
    for _ in range(8):  # what 200 labels are by chance is off by .05 in a bin, on one panel
        quality, x = clear_panel(rng, 4_000)
        truth = (rng.random(4_000) < 1 / (1 + np.exp(-2 * quality + 1))).astype(float)
        scores = matrix(x)
        some = rng.choice(4_000, 200, replace=False)
        found = care(scores, Anchors({scores.item_ids[i]: truth[i] for i in some}))
        assert found.p_quality is not None
        place = np.digitize(found.p_quality, [0.2, 0.4, 0.6])
        excess.append([(found.p_quality - truth)[place == k].mean() for k in range(4)])
    np.testing.assert_allclose(np.mean(excess, axis=0), 0.0, atol=0.05)
    np.testing.assert_array_equal(found.estimate > found.threshold, found.p_quality > 0.5)
    few = care(scores, Anchors({scores.item_ids[i]: truth[i] for i in some[:19]}))
    graded = care(scores, Anchors({scores.item_ids[i]: float(quality[i]) for i in some}))
    upside_down = care(scores, Anchors({scores.item_ids[i]: 1 - truth[i] for i in some}))
    assert few.p_quality is None
    assert graded.p_quality is None
    assert care(scores).p_quality is None
    # labels against every hypothesis: either they turn the answer over, or no probability is given
    assert upside_down.p_quality is None or np.corrcoef(upside_down.estimate, quality)[0, 1] < 0


def test_the_scale_of_the_labels_does_not_matter(rng):
    quality, x = clear_panel(rng, 300)
    scores = matrix(x)
    one = care(scores, Anchors({scores.item_ids[i]: float(quality[i]) for i in range(12)})).latent
    other = care(scores, Anchors({scores.item_ids[i]: float(3 * quality[i] + 50) for i in range(12)})).latent
    np.testing.assert_allclose(other, one, atol=1e-9)


@pytest.mark.parametrize("m", [5, 40])
def test_settling_is_the_posterior_of_the_joint_gaussian(rng, m):
    """One hypothesis: the posterior mean by conditioning the joint covariance of all items, few labels or many."""
    n = 60
    rows = np.sort(rng.choice(n, m, replace=False))
    score, factors, judges = rng.normal(size=n), rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    labels = rng.normal(size=m)
    evidence, answers = [], []
    y = (labels - labels.mean()) / labels.std(ddof=1)
    for a, b, noise in itertools.product(DEPARTURES, DEPARTURES, NOISES):
        k = a**2 * factors @ factors.T / 2 + b**2 * judges @ judges.T / 3 + SLOPE_SD**2 * np.outer(score, score)
        here = k[np.ix_(rows, rows)] + noise**2 * np.eye(m) + 10.0
        residual = y - SLOPE * score[rows]
        inverse = np.linalg.inv(here)
        answers.append(SLOPE * score + k[:, rows] @ inverse @ residual)
        evidence.append(-0.5 * residual @ inverse @ residual - 0.5 * np.linalg.slogdet(here)[1])
    at_random = np.eye(m) + 10.0  # labels that follow nothing, and leave quality what it was thought to be
    of_nothing = -0.5 * y @ np.linalg.inv(at_random) @ y - 0.5 * np.linalg.slogdet(at_random)[1]
    logs = np.array([*(np.log((1 - NOTHING) / len(evidence)) + np.array(evidence)), np.log(NOTHING) + of_nothing])
    weight = np.exp(logs - logs.max())
    weight = weight / weight.sum()
    total = weight @ np.array([*answers, SLOPE * score])
    found = average_hypotheses([Hypothesis("only", score, 1.0)], factors, judges, rows, labels)
    assert found is not None
    np.testing.assert_allclose(found.latent, total, atol=1e-8)
    assert found.weights == {"only": pytest.approx(1.0 - weight[-1])}
    assert found.nothing == pytest.approx(weight[-1])


def test_labels_of_two_values_say_on_which_side_of_a_threshold_quality_lies(rng):
    """One hypothesis: the posterior mean of draws from the prior, weighed by the probability of the labels' sides."""
    n, m, draws = 40, 6, 40_000
    rows = np.sort(rng.choice(n, m, replace=False))
    score, factors, judges = rng.normal(size=n), rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    sides = np.array([1, -1, 1, 1, -1, -1])
    answers, chance = [], []
    for a, b, noise in itertools.product(DEPARTURES, DEPARTURES, NOISES_OF_SIDES):
        slope = SLOPE + SLOPE_SD * rng.normal(size=(draws, 1))
        drawn = slope * score + a * rng.normal(size=(draws, 2)) @ factors.T / 2**0.5
        drawn += b * rng.normal(size=(draws, 3)) @ judges.T / 3**0.5
        level = 10**0.5 * rng.normal(size=(draws, 1))
        fits = ndtr(sides * (drawn[:, rows] / noise + level)).prod(axis=1)
        answers.append(fits @ drawn / fits.sum())
        chance.append(fits.mean())
    at_random = float(ndtr(sides * 10**0.5 * rng.normal(size=(draws, 1))).prod(axis=1).mean())
    weight = np.array([*(np.array(chance) * (1 - NOTHING) / len(chance)), at_random * NOTHING])
    total = weight / weight.sum() @ np.array([*answers, SLOPE * score])
    for labels in (np.maximum(sides, 0.0), np.where(sides > 0, 5.0, 1.0)):
        found = average_hypotheses([Hypothesis("only", score, 1.0)], factors, judges, rows, labels)
        assert found is not None
        np.testing.assert_allclose(found.latent, total, atol=0.06)
        assert found.nothing == pytest.approx(weight[-1] / weight.sum(), abs=0.02)


@pytest.mark.parametrize("rare", [0.5, 0.2])
def test_labels_do_no_harm_where_votes_leave_nothing_to_gain(rare):
    """Equally good judges who err for themselves: the mean is right, and half of the items are hard."""
    lost = []
    for seed in range(12):
        rng = np.random.default_rng([5, seed])
        good = rng.random(400) < rare
        hard = rng.choice([0.25, 1.75], 400)
        votes = (1.5 * hard * (2 * good - 1))[:, None] + rng.logistic(size=(400, 8)) > 0
        scores = matrix(votes.astype(float))
        seen = rng.choice(400, 50, replace=False)
        labelled = care(scores, Anchors({scores.item_ids[i]: float(good[i]) for i in seen})).latent
        rest = np.delete(np.arange(400), seen)
        lost.append(auc(care(scores).latent[rest], good[rest]) - auc(labelled[rest], good[rest]))
    assert np.mean(lost) < 0.0015, "half of what labels cost as numbers, and nothing that a person would see"


def test_one_factor_of_an_exact_model_is_found():
    loadings = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    correlation = np.outer(loadings, loadings) + np.diag(1 - loadings**2)
    found = factor_analysis.fit(correlation, 1)
    np.testing.assert_allclose(np.abs(found.loadings[:, 0]), loadings, atol=1e-6)
    np.testing.assert_allclose(found.uniqueness, 1 - loadings**2, atol=1e-6)


def test_factor_scores_are_the_conditional_mean_also_with_holes(rng):
    loadings = rng.uniform(0.3, 0.8, (6, 2)) * [[1, 1]] * 3 + 0.0
    model = factor_analysis.FactorModel(loadings[:6] * 0.5, np.full(6, 0.5), np.array([[1.0, 0.3], [0.3, 1.0]]), True)
    z = np.where(rng.random((20, 6)) < 0.3, np.nan, rng.normal(size=(20, 6)))
    found = factor_analysis.factor_scores(model, z)
    for row, got in zip(z, found, strict=True):
        seen = ~np.isnan(row)
        a = model.loadings[seen]
        covariance = a @ model.factor_correlation @ a.T + np.diag(model.uniqueness[seen])
        np.testing.assert_allclose(
            got, model.factor_correlation @ a.T @ np.linalg.solve(covariance, row[seen]), atol=1e-9
        )


def test_oblimin_finds_simple_structure_and_the_number_of_factors(rng):
    simple = np.zeros((12, 3))
    for k in range(3):
        simple[4 * k : 4 * k + 4, k] = rng.uniform(0.6, 0.9, 4)
    phi = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.1], [0.2, 0.1, 1.0]])
    correlation = simple @ phi @ simple.T
    correlation += np.diag(1 - np.diag(correlation))
    assert factor_analysis.number_of_factors(correlation, 10_000) == 3
    assert factor_analysis.number_of_factors(np.corrcoef(rng.normal(size=(12, 500))), 500) == 1
    found = factor_analysis.oblimin(factor_analysis.fit(correlation, 3))
    order = np.argmax(np.abs(found.loadings.T @ simple), axis=0)
    aligned = found.loadings[:, order] * np.sign(np.sum(found.loadings[:, order] * simple, axis=0))
    np.testing.assert_allclose(aligned, simple, atol=1e-3)


def test_judges_that_cancel_one_another_give_no_answer_and_no_warning(rng):
    """Three copies, and one that says the opposite of them: two voices whose mean is the same of every item."""
    grades = rng.integers(0, 11, (80, 1)).astype(float)
    x = np.column_stack([grades, grades, grades, 10 - grades])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit_panel(matrix(x), FitConfig(aggregators=("care", "avg"), scale=(0, 10)))
    assert fitted.failures["care"].startswith("care: the judges' scores cancel one another")
    assert np.isfinite(fitted.aggregates["avg"].estimate).all()


def test_the_median_is_the_median_of_what_is_present(rng):
    x = np.where(rng.random((200, 7)) < 0.3, np.nan, rng.integers(0, 5, (200, 7)).astype(float))
    x[3] = np.nan
    found = fit_panel(matrix(x), FitConfig(aggregators=("median",))).aggregates["median"].estimate
    known = ~np.isnan(x).all(axis=1)
    np.testing.assert_array_equal(found[known], np.nanmedian(x[known], axis=1))
    assert np.isnan(found[3])


@pytest.mark.parametrize("items", [1_000, 50_001])  # beyond 50,000 the weights come from the normal equations
@pytest.mark.parametrize("stored", [lambda x: np.round(x, 6), lambda x: x.astype(np.float32)])
def test_a_rounded_copy_of_a_judge_has_the_weight_of_an_exact_one(items, stored):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(items, 1)) * np.linspace(0.5, 1.2, 5) + rng.normal(size=(items, 5))

    def weights_with(copy):
        config = FitConfig(aggregators=("care",), resamples=0)
        return fit_panel(matrix(np.column_stack([x, copy])), config, solve="not").aggregates["care"].weights

    np.testing.assert_allclose(weights_with(stored(x[:, 4])), weights_with(x[:, 4]), atol=1e-3)
