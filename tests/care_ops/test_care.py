"""Tests of ``care``: it departs from the plain average only with evidence, and labels can decide.

Truth is simulated, and orders are compared with the plain average by Kendall's tau.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau

from care_ops.aggregators.alternatives import LabelFree, conditional_concerns, plausible_alternatives
from care_ops.aggregators.care import _digits
from care_ops.aggregators.label_free import (
    _weighted_mean,
    _without_declared,
    additive_mean,
    effective_judges,
    label_free,
)
from care_ops.aggregators.latent import family_mean
from care_ops.config import FitConfig
from care_ops.fit import fit_panel, problem_of
from care_ops.fit_labels import FitLabels
from care_ops.metrics import auc
from care_ops.models import one_factor
from care_ops.models.duplicates import Duplicates
from care_ops.models.feature_effects import unit_feature
from care_ops.scores import ScoreMatrix
from tests.support.matrices import matrix


def care(scores: ScoreMatrix, seen_labels: FitLabels | None = None, **options):
    config = FitConfig(aggregators=("care",), **options)
    return fit_panel(scores, config, seen_labels or FitLabels({}), solve="not").aggregates["care"]


def found_in(scores: ScoreMatrix, **options) -> LabelFree:
    return label_free(problem_of(scores, FitConfig(aggregators=("care",), **options)))


def gain(scores: ScoreMatrix, truth: np.ndarray, **options) -> float:
    plain = np.nanmean(scores.values, axis=1)
    return float(kendalltau(care(scores, **options).estimate, truth)[0] - kendalltau(plain, truth)[0])


def honest(
    rng: np.random.Generator, items: int = 300, judges: int = 8, noise: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate quality and judges with independent errors."""
    quality = rng.normal(size=items)
    return quality, quality[:, None] + noise * rng.normal(size=(items, judges))


def clear_panel(rng: np.random.Generator, n: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Simulate judges of very different accuracy."""
    quality = rng.normal(size=n)
    return quality, quality[:, None] + np.linspace(0.3, 3.0, 10) * rng.normal(size=(n, 10))


def with_length_bias(seed: int, rho: float = 0.0) -> tuple[np.ndarray, ScoreMatrix]:
    """Simulate four families, two of which reward length; ``rho`` is the correlation of quality with length."""
    rng = np.random.default_rng([23, seed])
    words, rest = rng.normal(size=(2, 300))
    quality = rho * words + np.sqrt(1 - rho**2) * rest
    x = quality[:, None] + 0.7 * rng.normal(size=(300, 8))
    x[:, :4] += (1.0 if rho == 0 else 0.0) * words[:, None]
    families = {f"j{k:03d}": f"f{k // 2}" for k in range(8)}
    return quality, replace(matrix(x, **families), features={"words": words})


def test_where_one_factor_fits_better_judges_weigh_more_and_none_more_than_half_as_much_again(rng):
    quality = rng.normal(size=2_000)
    scores = matrix(quality[:, None] + np.linspace(0.5, 2.0, 10) * rng.normal(size=(2_000, 10)))
    answer = care(scores)
    assert answer.details["factor_share"] > 0
    assert answer.weights is not None
    assert answer.weights[0] > answer.weights[-1]
    assert answer.weights.max() <= 1.5 / 10
    assert gain(scores, quality) > 0.005


def test_the_estimate_is_a_weighted_mean_of_the_factor_and_the_average(rng):
    found = found_in(matrix(clear_panel(rng)[1]))
    assert found.share == 0.4
    mixed = 0.4 * found.factor + 0.6 * found.average
    np.testing.assert_allclose(found.latent, mixed / mixed.std(), atol=1e-8)


def test_a_weighted_mean_uses_the_weights_of_the_present_scores():
    values = np.array([[1.0, 4.0], [np.nan, 4.0], [np.nan, np.nan]])
    np.testing.assert_allclose(_weighted_mean(values, np.array([0.5, 0.25])), [2.0, 4.0, np.nan])


def test_only_judges_that_drift_along_the_file_lose_their_trend(rng):
    values, position = honest(rng, 600)[1], np.linspace(-1.7, 1.7, 600)
    values[:, 0] += 2 * position
    problem = problem_of(replace(matrix(values), features={"position": position}), FitConfig())
    before, after = problem.standardised, _without_declared(problem, {"position": unit_feature(position)})
    np.testing.assert_array_equal(after[:, 1:], before[:, 1:])
    assert abs(np.corrcoef(before[:, 0], position)[0, 1]) > 0.5
    assert abs(np.corrcoef(after[:, 0], position)[0, 1]) < 0.05


@pytest.mark.parametrize("seed", range(1, 5))
def test_judges_that_skip_the_same_steps_gain_no_weight(seed):
    """Six of eight judges count four of ten steps as done; one factor fits, and weights promise hardly any gain."""
    rng = np.random.default_rng(seed)
    done = 0.5 * rng.normal(size=(300, 1)) + rng.normal(size=(300, 10)) > -0.3
    ticks = done[:, None, :] ^ (rng.random((300, 8, 10)) < 0.08)
    ticks[:, 2:, :4] = True
    scores = matrix(ticks.sum(axis=2).astype(float))
    assert care(scores).details["factor_share"] == 0
    assert gain(scores, done.sum(axis=1)) >= -0.005


def test_where_two_groups_of_judges_differ_the_estimate_is_the_plain_average(rng):
    quality, style = rng.normal(size=(2, 400, 1))
    x = np.column_stack([quality + 0.5 * rng.normal(size=(400, 4)), style + 0.5 * rng.normal(size=(400, 4))])
    answer = care(matrix(x))
    assert answer.details["concerns"][0] == "two groups"
    assert sorted(map(sorted, answer.details["groups"])) == [
        [f"j{k:03d}" for k in range(4)],
        [f"j{k:03d}" for k in range(4, 8)],
    ]
    assert np.corrcoef(answer.estimate, x.mean(axis=1))[0, 1] > 1 - 1e-9
    assert set(found_in(matrix(x)).rivals) == {"first group of judges", "second group of judges"}


def test_families_change_nothing_but_the_feature_effects(rng):
    _, x = honest(rng)
    declared = matrix(x, **{f"j{k:03d}": "one" if k < 4 else f"f{k}" for k in range(8)})
    np.testing.assert_array_equal(care(declared).estimate, care(matrix(x)).estimate)


def test_a_judge_of_noise_is_left_out_and_two_that_agree_with_each_other_are_not(rng):
    _, x = honest(rng, 1_000, 8, 0.8)
    x[:, 7] = rng.normal(size=1_000)
    assert care(matrix(x)).details["weak"] == ["j007"]
    x[:, 6:] = rng.normal(size=(1_000, 1)) + 0.5 * rng.normal(size=(1_000, 2))
    assert care(matrix(x)).details["weak"] == []


@pytest.mark.parametrize("liars", [1, 2])
def test_a_judge_that_copies_the_others_moves_an_item_little_more_than_in_the_plain_average(liars):
    """The judge gains weight by agreement, and then gives one item a false score."""
    moved = []
    for seed in range(6):
        rng = np.random.default_rng([41, seed])
        _, x = honest(rng, 200, 8, 0.8)
        before = [care(matrix(x)).estimate, x.mean(axis=1)]
        for liar in range(liars):
            x[:, liar] = x[:, liars:].mean(axis=1) + 0.01 * rng.normal(size=200)
        x[50, :liars] = x.max()
        answer = care(matrix(x))
        after = [answer.estimate, x.mean(axis=1)]
        moved.append([(a >= a[50]).sum() - (b >= b[50]).sum() for a, b in zip(after, before, strict=True)])
        assert set(answer.details["near_average"]) >= {f"j{k:03d}" for k in range(liars)}
    ours, plain = np.abs(np.array(moved)).mean(axis=0)
    assert ours <= 1.2 * plain


def test_copies_of_noise_cost_nothing_and_are_named(rng):
    quality, x = honest(rng, 300, 10, 0.9)
    x[:, :4] = rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, 4))
    assert gain(matrix(x), quality) > 0.2
    assert care(matrix(x)).details["duplicates"] == [[f"j{k:03d}" for k in range(4)]]


def test_scores_missing_at_severe_judges_lift_no_item(rng):
    """The estimate is that of an unbalanced two-way layout, by least squares on its design matrix."""
    item, severity = rng.normal(size=40), 3 * rng.normal(size=6)
    x = item[:, None] + severity + 0.1 * rng.normal(size=(40, 6))
    x[rng.random((40, 6)) < 0.4] = np.nan
    rows, columns = np.nonzero(~np.isnan(x))
    design = np.zeros((len(rows), 46))
    design[np.arange(len(rows)), rows] = design[np.arange(len(rows)), 40 + columns] = 1
    fitted = np.linalg.lstsq(design, x[rows, columns], rcond=None)[0]
    seen = ~np.isnan(x).all(axis=1)
    found = additive_mean(x)
    np.testing.assert_allclose((found - fitted[:40] - fitted[40:].mean())[seen], 0.0, atol=1e-6)


@pytest.mark.parametrize("judges", [4, 8, 20])
def test_judges_of_independent_errors_are_worth_their_number_and_shared_errors_less(rng, judges):
    """The true share of quality in the common factor determines the effective number."""
    _, x = honest(rng, 5_000, judges)
    correlation, equal = np.corrcoef(x.T), np.ones(judges)
    loadings = one_factor.fit(correlation, 5_000).raw_loadings
    assert effective_judges(loadings, correlation, equal) == pytest.approx(judges, rel=0.1)
    errors = (0.5 - 0.25) / (1 - 0.5 * loadings.mean() ** 2)
    shared = effective_judges(0.5**0.5 * loadings, correlation, equal)
    assert shared == pytest.approx(judges / (1 + (judges - 1) * errors), rel=0.1)


def test_noise_and_reversed_judges_add_nothing_to_the_effective_number(rng):
    _, x = honest(rng, 2_000, 4)
    worth = care(matrix(x)).details["effective_judges"]
    noise = [np.column_stack([x, rng.normal(size=(2_000, k))]) for k in (1, 3)]
    reversed_too = [np.column_stack([x, -honest(rng, 2_000, 4)[1][:, :k]]) for k in (1, 2)]
    for more in (*noise, *reversed_too):
        assert care(matrix(more)).details["effective_judges"] <= worth + 0.1


def test_what_some_families_reward_is_removed_and_gains():
    gains = []
    for seed in range(6):
        quality, scores = with_length_bias(seed)
        gains.append(gain(scores, quality))
        details = care(scores).details
        assert "words" in details["removed_effects"]
        assert details["kept"]["correlation"] < 0.99
    assert min(gains) > 0
    assert np.mean(gains) > 0.05


def test_an_estimate_that_follows_the_length_reports_so_and_a_declaration_removes_it():
    _, scores = with_length_bias(1, rho=0.8)
    answer = care(scores)
    assert "feature" in answer.details["concerns"]
    assert answer.details["without"]["halves_changed"] > 20
    words = dict(zip(scores.item_ids, scores.features["words"], strict=True))
    asked = [words[item] for item in answer.details["items_to_label"]]
    assert np.std(asked) > np.std(list(words.values())), "short and long answers tell whether length is quality"
    declared = care(scores, not_quality=("words",))
    assert abs(np.corrcoef(declared.estimate, scores.features["words"])[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("change", "concern"),
    [
        (lambda x: x[:, :3], "few judges"),
        (lambda x: x[:40], "few items"),
        (lambda x: np.random.default_rng(0).normal(size=x.shape), "no common signal"),
        (lambda x: x * np.where(np.arange(x.shape[1]) < 6, -1, 1), "opposed"),
    ],
)
def test_what_leaves_only_the_plain_average_is_the_first_concern(rng, change, concern):
    _, x = honest(rng, 300, 10)
    answer = care(matrix(change(x)))
    assert concern in answer.details["concerns"]
    assert answer.details["factor_share"] == 0


def test_scores_on_one_scale_are_averaged_in_their_own_units(rng):
    """A judge that uses more of the scale has more influence, as in the plain average."""
    x = np.clip(np.round(3 + rng.normal(size=(300, 1)) + rng.normal(size=(300, 6)) * np.linspace(0.4, 1.6, 6)), 1, 5)
    found = found_in(matrix(x))
    assert np.corrcoef(found.plain, x.mean(axis=1))[0, 1] > 1 - 1e-9
    x[:, 0] *= 100
    assert np.corrcoef(found_in(matrix(x)).plain, x.mean(axis=1))[0, 1] < 0.99


@pytest.mark.parametrize(("unit", "zero"), [(1e-6, 0), (1e6, 0), (1e-3, 5)])
def test_neither_unit_nor_zero_of_a_common_scale_changes_anything(rng, unit, zero):
    x = np.round(clear_panel(rng, 300)[1], 1)
    np.testing.assert_allclose(found_in(matrix(unit * x + zero)).latent, found_in(matrix(x)).latent, atol=1e-8)


@pytest.mark.parametrize(("estimate", "decimals"), [([0.0, 2.0], 9), ([0.0, 200.0], 7), ([0.0, 0.2], 10), ([2.0], 9)])
def test_an_estimate_has_nine_digits_after_the_first_of_its_spread(estimate, decimals):
    assert _digits(np.array(estimate)) == decimals


@pytest.mark.parametrize("families", ["", "ffggh", "ffff-", "fffff", "fghij"])
def test_alternatives_are_the_common_factor_and_the_mean_of_declared_families(rng, families):
    """The mean of families differs from the mean of judges only if some families have several judges."""
    quality, x = honest(rng, 200, 5)
    declared = {f"j{k:03d}": family for k, family in enumerate(families) if family != "-"}
    problem = problem_of(matrix(x, **declared), FitConfig())
    found = plausible_alternatives(problem, replace(found_in(matrix(x)), factor=quality))
    np.testing.assert_array_equal(found.pop("one common factor"), quality)
    if len(set(families)) not in (2, 3):
        assert found == {}
        return
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    members = [[k for k in range(5) if families[k] == family] for family in sorted(set(families))]
    wanted = np.mean([z[:, own].mean(axis=1) for own in members], axis=0)
    np.testing.assert_allclose(found.pop("the mean of the families"), wanted / wanted.std(), atol=1e-8)
    assert found == {}


@pytest.mark.parametrize(
    ("alike", "made_up", "unsafe", "concerns"),
    [
        ((), {}, False, ()),
        ((0.95,), {}, False, ()),
        ((0.95, 0.5), {}, False, ("alternatives",)),
        ((0.95, 0.5), {}, True, ()),
        ((), {"duplicates": Duplicates(np.arange(6), (0, 1))}, True, ("duplicates",)),
        ((), {"follows": {"words": -0.25}}, True, ("feature",)),
        ((), {"follows": {"words": -0.24, "emoji": 0.1}}, False, ()),
    ],
)
def test_concerns_that_a_person_can_resolve_follow_from_the_estimate(rng, alike, made_up, unsafe, concerns):
    """Alternatives are simulated by their correlations with the estimate."""
    _, x = honest(rng, 500, 6)
    found = found_in(matrix(x))
    others = {f"with {r}": r * found.latent + np.sqrt(1 - r**2) * rng.normal(size=500) for r in alike}
    found = replace(found, alternatives=others, **({"follows": {}} | made_up))
    assert conditional_concerns(problem_of(matrix(x), FitConfig()), found, unsafe) == concerns
    family = problem_of(matrix(x, **{f"j{k:03d}": "one" for k in range(6)}), FitConfig())
    assert conditional_concerns(family, found, unsafe) == (*concerns, "one family")
    name, agreement = found.least_alike
    assert (name, agreement) == (None, 1.0) if not alike else name == f"with {min(alike)}"


def test_a_panel_led_by_a_confounder_is_settled_by_labels(rng):
    quality, style = rng.normal(size=(2, 300, 1))
    x = np.column_stack([quality + 0.5 * rng.normal(size=(300, 4)), style + 0.5 * rng.normal(size=(300, 6))])
    scores = matrix(x)
    labels = {scores.item_ids[i]: float(quality[i, 0]) for i in range(20)}
    labelled = care(scores, FitLabels(labels))
    assert kendalltau(labelled.estimate, quality[:, 0])[0] > kendalltau(x.mean(axis=1), quality[:, 0])[0] + 0.1
    assert labelled.details["labels_better"] > 0.95
    assert labelled.details["labels_gain"] > 0.1


def test_labels_given_at_random_move_little_and_are_recognised():
    turned, at_random = [], []
    for seed in range(8):
        rng = np.random.default_rng([12, seed])
        _, x = honest(rng)
        scores = matrix(x)
        details = care(scores, FitLabels({scores.item_ids[i]: float(rng.normal()) for i in range(50)})).details
        turned.append(details["turned"])
        at_random.append(details["labels_at_random"])
    assert np.median(turned) > 0.9
    assert np.median(at_random) > 0.4


def test_family_mean_is_a_mean_of_means_over_what_is_present():
    z = np.array([[1.0, 3.0, 10.0], [np.nan, 4.0, np.nan], [np.nan, np.nan, np.nan]])
    found = family_mean(z, ("a", "b", "c"), {"a": "f", "b": "f"})
    np.testing.assert_array_equal(found, [6.0, 4.0, np.nan])


def test_probabilities_are_calibrated_given_twenty_binary_labels_and_not_given_otherwise(rng):
    excess = []
    for _ in range(5):  # what 200 labels are by chance is off by .05 in a bin, on one panel
        quality, x = clear_panel(rng, 2_000)
        truth = (rng.random(2_000) < 1 / (1 + np.exp(-2 * quality + 1))).astype(float)
        scores = matrix(x)
        some = rng.choice(2_000, 200, replace=False)
        found = care(scores, FitLabels({scores.item_ids[i]: truth[i] for i in some}))
        assert found.p_quality is not None
        place = np.digitize(found.p_quality, [0.2, 0.4, 0.6])
        excess.append([(found.p_quality - truth)[place == k].mean() for k in range(4)])
    np.testing.assert_allclose(np.mean(excess, axis=0), 0.0, atol=0.05)
    np.testing.assert_array_equal(found.estimate > found.threshold, found.p_quality > 0.5)
    few = care(scores, FitLabels({scores.item_ids[i]: truth[i] for i in some[:19]}))
    graded = care(scores, FitLabels({scores.item_ids[i]: float(quality[i]) for i in some}))
    upside_down = care(scores, FitLabels({scores.item_ids[i]: 1 - truth[i] for i in some}))
    assert few.p_quality is None
    assert graded.p_quality is None
    assert care(scores).p_quality is None
    # labels against every hypothesis: either they turn the answer over, or no probability is given
    assert upside_down.p_quality is None or np.corrcoef(upside_down.estimate, quality)[0, 1] < 0


def test_the_scale_of_the_labels_does_not_matter(rng):
    quality, x = clear_panel(rng, 300)
    scores = matrix(x)
    one = care(scores, FitLabels({scores.item_ids[i]: float(quality[i]) for i in range(12)})).latent
    other = care(scores, FitLabels({scores.item_ids[i]: float(3 * quality[i] + 50) for i in range(12)})).latent
    np.testing.assert_allclose(other, one, atol=1e-9)


@pytest.mark.parametrize("rare", [0.5, pytest.param(0.2, marks=pytest.mark.slow)])
def test_labels_do_no_harm_where_votes_leave_nothing_to_gain(rare):
    """Judges are equally good with independent errors, so the mean is best; half of the items are hard."""
    lost = []
    for seed in range(6):
        rng = np.random.default_rng([5, seed])
        good = rng.random(400) < rare
        hard = rng.choice([0.25, 1.75], 400)
        votes = (1.5 * hard * (2 * good - 1))[:, None] + rng.logistic(size=(400, 8)) > 0
        scores = matrix(votes.astype(float))
        seen = rng.choice(400, 50, replace=False)
        labelled = care(scores, FitLabels({scores.item_ids[i]: float(good[i]) for i in seen})).latent
        rest = np.delete(np.arange(400), seen)
        lost.append(auc(care(scores).latent[rest], good[rest]) - auc(labelled[rest], good[rest]))
    assert np.mean(lost) < 0.0015, "half of what labels cost as numbers, and nothing that a person would see"


def test_judges_that_cancel_one_another_give_no_answer_and_no_warning(rng):
    """With two judges and the reverse of each, the mean is the same for all items."""
    grades = rng.integers(0, 11, (80, 2)).astype(float)
    x = np.column_stack([grades, 10 - grades])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit_panel(matrix(x), FitConfig(aggregators=("care", "avg"), scale=(0, 10)), solve="not")
    assert fitted.failures["care"].startswith("care: all items have the same estimate, because the judges' scores")
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


def test_labels_that_do_not_differ_change_nothing(rng):
    _, x = clear_panel(rng, 300)
    scores = matrix(x)
    seen_labels = FitLabels({scores.item_ids[i]: 1.0 for i in range(5)})
    np.testing.assert_array_equal(care(scores, seen_labels).estimate, care(scores).estimate)
