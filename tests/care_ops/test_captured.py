"""What captures an answer, and whether ``care`` holds: copies, a taste for length, noise, reversed scales.

Truth is planted, and orders are compared with the plain mean's by Kendall's tau.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import kendalltau

from care_ops.aggregators import defensible as module
from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.frozen import FAITHFUL, freeze, with_features
from care_ops.labels import Label, Labels
from care_ops.models import robust_factor
from care_ops.models.coarse import Opinions
from care_ops.models.liking import controlled, without_liking
from care_ops.models.voices import voices
from care_ops.results.fit_facts import MOVED
from care_ops.scores import ScoreMatrix
from tests.support.matrices import matrix


def both(scores: ScoreMatrix, **options):
    """The aggregate of ``care`` and the estimate of the mean."""
    fitted = fit_panel(scores, FitConfig(aggregators=("care", "avg"), **options), solve="not").aggregates
    return fitted["care"], fitted["avg"].estimate


def gain(scores: ScoreMatrix, truth: np.ndarray, **options) -> float:
    answer, mean = both(scores, **options)
    return float(kendalltau(answer.estimate, truth)[0] - kendalltau(mean, truth)[0])


def with_copies(seed: int, judges: int, copies: int, items: int = 300, alike: float = 0.99):
    """Honest judges that correlate by .55, and near-copies of something that has nothing to do with quality."""
    rng = np.random.default_rng([17, seed])
    quality = rng.normal(size=items)
    x = quality[:, None] + 0.9 * rng.normal(size=(items, judges))
    other = rng.normal(size=items)
    x[:, :copies] = np.sqrt(alike) * other[:, None] + np.sqrt(1 - alike) * rng.normal(size=(items, copies))
    return quality, matrix(x)


@pytest.mark.parametrize(("judges", "copies"), [(6, 2), (10, 2), (10, 4), (16, 6)])
@pytest.mark.parametrize("alike", [0.92, 0.99])
def test_copies_up_to_four_in_ten_cost_nothing_and_are_named(judges, copies, alike):
    for seed in range(5):
        quality, scores = with_copies(seed, judges, copies, alike=alike)
        assert gain(scores, quality) > -0.02
        details = both(scores)[0].details
        assert details["copies"] == [list(scores.judges[:copies])]
        assert "families" not in details["doubts"], "nobody declared any"


def test_copies_that_are_half_of_the_panel_are_never_clear():
    for copies in (5, 7, 8):
        _, scores = with_copies(1, 10, copies)
        assert "copies" in both(scores)[0].details["doubts"]


@pytest.mark.parametrize("seen", [0.35, 0.46])
@pytest.mark.parametrize(("good", "poor"), [(2, 6), (3, 5), (3, 7), (4, 5), (4, 8)])
def test_good_judges_that_agree_among_poor_ones_may_be_copies_or_better_and_it_is_not_clear(good, poor, seen):
    for seed in range(5):
        rng = np.random.default_rng([19, seed])
        quality, mistake = rng.normal(size=(2, 300))
        by_good = quality[:, None] + 0.35 * rng.normal(size=(300, good))
        by_poor = (seen * quality + 0.7 * mistake)[:, None] + 0.6 * rng.normal(size=(300, poor))
        scores = matrix(np.column_stack([by_good, by_poor]))
        assert "copies" in both(scores)[0].details["doubts"]


@pytest.mark.parametrize(("good", "poor"), [(2, 4), (2, 6), (3, 9), (5, 11)])
def test_good_judges_whom_nobody_follows_are_a_condition_of_the_answer_as_copies_of_noise_are(good, poor):
    """Both say one same thing and nothing that the others say; no score tells them apart."""
    for seed in range(5):
        rng = np.random.default_rng([38, seed])
        quality, mistake = rng.normal(size=(2, 300))
        by_good = quality[:, None] + 0.35 * rng.normal(size=(300, good))
        by_poor = mistake[:, None] + 0.7 * rng.normal(size=(300, poor))
        scores = matrix(np.column_stack([by_poor, by_good]))
        details = both(scores)[0].details
        assert details["doubts"] == ["counted once"]
        assert details["copies"] == [list(scores.judges[poor:])]


def test_one_declared_family_is_never_clear():
    _, scores = with_copies(3, 8, 0)
    assert both(scores)[0].details["doubts"] == []
    one = replace(scores, families=dict.fromkeys(scores.judges, "gpt"))
    assert both(one)[0].details["doubts"] == ["families"]


def by_labels(labels: np.ndarray, number: int = 20, seed: int = 0):
    """``care`` of eight good judges, with and without labels of 0 and 1 on some items drawn at random."""
    quality, scores = with_copies(seed, 8, 0)
    rows = np.random.default_rng([23, seed]).choice(300, number, replace=False)
    told = Labels(tuple(Label(scores.item_ids[k], float(labels[k])) for k in rows.tolist()))
    answer = fit_panel(scores, FitConfig(aggregators=("care",)), Anchors.of(told), solve="not").aggregates["care"]
    return answer, both(scores)[0], quality


def test_one_vendor_that_may_be_right_where_all_others_share_a_taste_is_a_condition_also_beside_texts():
    """Texts that have nothing to do with the scores say nothing of what a family shares."""
    for seed, liking in itertools.product(range(6), (0.35, 0.45)):
        rng = np.random.default_rng([41, seed])
        quality, taste, words = rng.normal(size=(3, 400))
        family = np.array([0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5])
        x = quality[:, None] + np.where(family == 0, 0.0, liking) * taste[:, None] + 0.7 * rng.normal(size=(400, 12))
        scores = matrix(x, **{f"j{k:03d}": f"v{vendor}" for k, vendor in enumerate(family)})
        answer, _ = both(replace(scores, features={"words": words}))
        assert answer.details["doubts"] == ["kin"]


def test_labels_given_at_random_move_little_and_are_told():
    told, lost = [], []
    for seed in range(8):
        at_random = np.random.default_rng([29, seed]).random(300) < 0.5
        answer, alone, quality = by_labels(at_random, 50, seed)
        lost.append(kendalltau(alone.estimate, quality)[0] - kendalltau(answer.estimate, quality)[0])
        told.append(answer.details["labels_at_random"])
    assert np.median(lost) < 0.03
    assert np.median(told) > 0.3, "by chance some agree with the judges"
    right, _, _ = by_labels(with_copies(0, 8, 0)[0] > 0)
    assert right.details["labels_at_random"] < 0.01
    assert right.details["turned"] > 0.9


def test_what_is_said_beside_the_mean_is_said_of_the_answer_with_its_labels():
    reversed_labels = with_copies(0, 8, 0)[0] < 0
    answer, alone, _ = by_labels(reversed_labels)
    assert answer.details["turned"] < 0
    assert answer.details["beside_mean"]["correlation"] < 0 < alone.details["beside_mean"]["correlation"]


def test_a_judge_that_was_asked_twice_costs_nothing_and_good_judges_are_no_copies(rng):
    quality = rng.normal(size=300)
    x = quality[:, None] + 0.9 * rng.normal(size=(300, 8))
    x[:, 3] = x[:, 2] + 0.15 * rng.normal(size=300)
    answer, _ = both(matrix(x))
    assert gain(matrix(x), quality) > -0.01
    assert answer.details["copies"] == [["j002", "j003"]]
    good = both(matrix(quality[:, None] + 0.3 * rng.normal(size=(300, 8))))[0]
    assert good.details["copies"] == []
    assert good.details["doubts"] == []


def with_taste(seed: int, rho: float = 0.0):
    """Four vendors; the judges of the largest like long answers, the others mostly quality."""
    rng = np.random.default_rng([6, seed])
    quality = rng.normal(size=300)
    taste = rho * quality + np.sqrt(1 - rho**2) * rng.normal(size=300)
    columns, families = [], {}
    for vendor, (size, liking) in {"a": (3, 1.1), "b": (2, 0.2), "c": (1, 0.3), "d": (1, 0.1)}.items():
        for _ in range(size):
            families[f"j{len(columns):03d}"] = vendor
            columns.append(np.round(5 + 0.8 * quality + liking * taste + 0.9 * rng.normal(size=300), 1))
    scores = matrix(np.column_stack(columns), **families)
    words = np.log(80 + 25 * np.clip(taste, -3, 3))
    return quality, ScoreMatrix(scores.values, scores.item_ids, scores.judges, families, {"words": words})


def test_what_one_vendor_likes_of_the_texts_is_taken_off():
    gains = []
    for seed in range(6):
        quality, scores = with_taste(seed)
        gains.append(gain(scores, quality))
        answer, _ = both(scores)
        assert "words" in answer.details["taken_off"]
    assert min(gains) > 0
    assert np.mean(gains) > 0.05


def test_what_is_taken_off_is_a_condition_before_it_can_cost_anything():
    """Some of the judges do not see the length, which is part of quality: little is taken off, and it is a loss."""
    for seed in range(30):
        rng = np.random.default_rng([31, seed])
        words, rest = rng.normal(size=(2, 300))
        quality = 0.55 * words + 0.83 * rest
        seen = rng.random(8) < 0.5
        x = np.where(seen, quality[:, None], rest[:, None]) + rng.normal(size=(300, 8))
        scores = replace(matrix(x), features={"words": words})
        answer, _ = both(scores)
        costs = gain(scores, quality) < -0.01
        assert not costs or answer.details["doubts"] or answer.details["kept"]["correlation"] < MOVED


@pytest.mark.parametrize("declared", [(), ("words",)])
def test_votes_from_which_a_feature_was_taken_off_are_no_copies(declared):
    """What is left of votes has many values, in the order of the words within each: they are no grades any more."""
    for seed in range(4):
        rng = np.random.default_rng([6, seed])
        quality, words = rng.normal(size=(2, 300))
        opinion = 0.8 * quality[:, None] + rng.uniform(0.1, 0.9, 14) * words[:, None] + 0.9 * rng.normal(size=(300, 14))
        votes = matrix((opinion > 0.5 * rng.normal(size=14)).astype(float))
        answer, _ = both(replace(votes, features={"words": words}), not_quality=declared)
        assert answer.details["copies"] == []


def test_what_is_taken_off_follows_from_scores_and_texts_together():
    """A frozen answer that knows the scores alone does not follow; with the features beside them it does."""
    _, scores = with_taste(1)
    answer, _ = both(scores)
    alone, seen = (freeze(panel, answer.estimate).fidelity for panel in (scores, with_features(scores)))
    assert alone < FAITHFUL < seen


def test_an_answer_that_follows_the_length_is_clear_only_if_length_is_quality():
    _, scores = with_taste(1, rho=0.8)
    answer, _ = both(scores)
    assert answer.details["doubts"] == ["feature"]
    assert answer.details["without"]["halves_changed"] > 20
    words = dict(zip(scores.item_ids, scores.features["words"], strict=True))
    asked = [words[item] for item in answer.details["label_first"]]
    assert np.std(asked) > np.std(list(words.values())), "short and long answers tell whether length is quality"
    lists = np.random.default_rng(5).normal(size=300)
    beside, _ = both(replace(scores, features={"lists": lists, **scores.features}))
    assert beside.details["without"] == answer.details["without"], "what it does not follow is not left out"
    declared, _ = both(scores, not_quality=("words",))
    assert abs(np.corrcoef(declared.estimate, scores.features["words"])[0, 1]) < 0.1


def test_what_a_feature_explains_is_gone_and_the_rest_stays(rng):
    w, rest = rng.normal(size=(2, 400))
    z = np.column_stack([np.exp(w / 3) + rest, rest])
    left = controlled(z, w)
    assert abs(np.corrcoef(left[:, 0], w)[0, 1]) < 1e-9
    assert np.corrcoef(left[:, 0], rest)[0, 1] > 0.98


def test_slopes_in_proportion_to_quality_are_left_alone(rng):
    """Where quality itself follows the length, all judges rise with it, and nothing is taken off."""
    w = rng.normal(size=2_000)
    quality = 0.6 * w + 0.8 * rng.normal(size=2_000)
    z = np.linspace(0.5, 0.9, 6) * quality[:, None] + 0.5 * rng.normal(size=(2_000, 6))
    left, likings = without_liking((z - z.mean(0)) / z.std(0), {"words": w}, np.arange(6))
    assert likings["words"].removed == 0
    np.testing.assert_array_equal(left, (z - z.mean(0)) / z.std(0))


def test_noise_reversed_scales_and_few_items_are_not_clear(rng):
    quality = rng.normal(size=300)
    x = quality[:, None] + rng.normal(size=(300, 10))
    assert "no common signal" in both(matrix(rng.normal(size=(300, 8))))[0].details["doubts"]
    reversed_scales = x * np.where(np.arange(10) < 6, -1, 1)
    assert both(matrix(reversed_scales))[0].details["ambiguous"]
    assert "few items" in both(matrix(x[:40]))[0].details["doubts"]
    assert "few judges" in both(matrix(x[:, :3]))[0].details["doubts"]
    assert both(matrix(x[:, :4]))[0].details["doubts"] == []
    found = [
        both(matrix(np.column_stack([x[:, :3], noise])))[0].details["doubts"] for noise in rng.normal(size=(5, 300))
    ]
    assert all(found)
    assert ["few judges"] in found, "the fourth agrees with none"
    with pytest.raises(FitError, match="all 5 judges say the same thing"):
        fit_panel(matrix(np.repeat(x[:, :1], 5, axis=1)), FitConfig(aggregators=("care",)), solve="not")


@pytest.mark.parametrize(("judges", "right", "doubts"), [(8, 0.98, []), (4, 0.98, []), (5, 0.999, ["counted once"])])
def test_votes_of_good_judges_on_easy_items_are_no_copies(judges, right, doubts):
    """They err on items of their own; only where they hardly ever differ may they be one judge."""
    for seed in range(5):
        rng = np.random.default_rng([38, seed])
        quality = rng.integers(0, 2, 500)
        votes = np.where(rng.random((500, judges)) < right, quality[:, None], 1 - quality[:, None])
        answer, mean = both(matrix(votes.astype(float)))
        assert answer.details["doubts"] == doubts
        assert kendalltau(answer.estimate, quality)[0] > kendalltau(mean, quality)[0] - 0.01


def test_one_judge_that_has_the_factor_to_itself_is_no_common_signal():
    """By sixty items chance gives one of four weak judges a loading of 1, and the others next to none."""
    states = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        quality = rng.normal(size=60)
        care, mean = both(matrix(quality[:, None] + 2.5 * rng.normal(size=(60, 4))))
        lost = kendalltau(care.estimate, quality)[0] < kendalltau(mean, quality)[0] - 0.05
        states.append(lost and not care.details["doubts"])
    assert sum(states) == 0


def test_the_answer_rests_on_the_structure(rng, monkeypatch):
    """With noise in the place of what the judges share, the answer is another one."""
    _, scores = with_copies(3, 10, 3)
    before = both(scores)[0].latent

    def noise(correlation, families, items):
        p = len(correlation)
        return robust_factor.RobustFactor(
            rng.uniform(0, 1, p), rng.uniform(0, 1, p), rng.uniform(-1, 1, p), 0.0, 0.0, 0.0
        )

    monkeypatch.setattr(module.robust_factor, "fit", noise)
    assert np.corrcoef(both(scores)[0].latent, before)[0, 1] < 0.98


def test_loadings_have_the_least_absolute_residuals(rng):
    """Against a general optimiser from many starts."""
    a = np.array([0.9, 0.8, 0.6, 0.5, 0.7, 0.4])
    c = np.outer(a, a) + np.diag(1 - a**2)
    c[0, 1] = c[1, 0] = 0.99
    c += (noise := 0.02 * rng.normal(size=(6, 6))) + noise.T
    pairs = ~np.eye(6, dtype=bool)

    def loss(x):
        return robust_factor.huber_loss(c, x, pairs)

    found = robust_factor.common_loadings(c, pairs)
    starts = [rng.uniform(0.2, 1, 6) for _ in range(10)]
    best = min(minimize(loss, s, method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-9}).fun for s in starts)
    assert loss(found) < best * 1.001
    np.testing.assert_allclose(found, a, atol=0.1)


@pytest.mark.parametrize(
    ("judges", "loading", "items"), [(5, 0.5, 400), (10, 0.3, 1000), (20, 0.5, 300), (5, 0.7, 200)]
)
def test_judges_that_are_equally_good_weigh_next_to_the_same(rng, judges, loading, items):
    """What loadings differ by is sampling error here, and is taken off: four fifths of it at least."""
    raw, kept = [], []
    for _ in range(60):
        quality = rng.normal(size=(items, 1))
        x = loading * quality + np.sqrt(1 - loading**2) * rng.normal(size=(items, judges))
        structure = robust_factor.fit(np.corrcoef(x.T), np.arange(judges), items)
        raw.append(structure.raw_loadings.std())
        kept.append(structure.loadings.std())
    assert np.mean(kept) < 0.2 * np.mean(raw)


@pytest.mark.parametrize("judges", [4, 6, 12])
@pytest.mark.parametrize("shared", [(0.05, 0.2), (0.4, 0.6), (0.6, 0.9)])
def test_residuals_that_are_sampling_error_are_no_misfit(rng, judges, shared):
    """What a factor leaves of its draws is about what is taken off, so that as often as not nothing is left."""
    loadings, left = rng.uniform(*shared, judges), []
    for _ in range(120):
        x = rng.normal(size=(400, 1)) * loadings + np.sqrt(1 - loadings**2) * rng.normal(size=(400, judges))
        left.append(robust_factor.fit(np.corrcoef(x.T), np.arange(judges), 400).misfit > 0)
    assert 0.1 < np.mean(left) < 0.8


def test_what_half_of_good_judges_share_beside_is_seen_by_few_items(rng):
    loadings = np.column_stack([np.full(10, 0.6), np.repeat([0.0, 0.6], 5)])
    correlation = loadings @ loadings.T
    np.fill_diagonal(correlation, 1.0)
    true = robust_factor.fit(correlation, np.arange(10), 1e9).misfit
    assert true > 0.05
    for items in (100, 400):
        drawn = [rng.multivariate_normal(np.zeros(10), correlation, items) for _ in range(60)]
        found = [robust_factor.fit(np.corrcoef(x.T), np.arange(10), items).misfit for x in drawn]
        assert np.sqrt(np.mean(np.square(found))) == pytest.approx(true, rel=0.15), items


def test_order_and_scale_of_judges_and_items_change_nothing(rng):
    _, scores = with_taste(2)
    base = both(scores)[0].latent
    rows, columns = rng.permutation(300), rng.permutation(len(scores.judges))
    moved = ScoreMatrix(
        scores.values[np.ix_(rows, columns)] * 7 - 3,
        tuple(scores.item_ids[k] for k in rows),
        tuple(scores.judges[k] for k in columns),
        scores.families,
        {"words": scores.features["words"][rows]},
    )
    np.testing.assert_allclose(both(moved)[0].latent, base[rows], atol=1e-8)


def test_the_names_of_judges_and_items_change_nothing_where_few_scores_and_texts_differ(rng):
    """Other names, another canonical order: scores that are equal but for rounding must not be ranked by it."""
    quality, (left, right) = rng.normal(size=400), np.log(rng.integers(1, 13, (2, 400)))
    words = left - right  # log 2 - log 1 and log 6 - log 3 are the same, and not to the last digit
    taste = (words - words.mean()) / words.std()
    x = np.column_stack([quality + liking * taste + rng.normal(size=400) for liking in (1, 1, 1, 1, 0, 0, 0, 0, 0)])
    votes = np.where(x > 0.4, 1.0, np.where(x < -0.4, 0.0, 0.5))

    def latent(rows, columns):
        families = {f"j{k:03d}": f"vendor {column // 2}" for k, column in enumerate(columns)}
        fitted, _ = both(replace(matrix(votes[np.ix_(rows, columns)], **families), features={"words": words[rows]}))
        assert fitted.details["taken_off"]
        return fitted.latent

    base = latent(np.arange(400), np.arange(9))
    for _ in range(3):
        rows = rng.permutation(400)
        np.testing.assert_allclose(latent(rows, rng.permutation(9)), base[rows], atol=1e-8)


def test_a_judge_that_says_nothing_but_the_length_is_no_constant_judge(rng):
    """Once the length is taken off, nothing of it would be left to correlate."""
    quality, words = rng.normal(size=(2, 300))
    x = np.column_stack([quality + 0.3 * words + liking * words for liking in (0.5, 0.5, 0.5, 0.0, 0.0, 0.0)])
    x = np.column_stack([x + 0.5 * rng.normal(size=x.shape), words, -2.0 * words])
    scores = replace(matrix(x), features={"words": words})
    fitted, _ = both(scores)
    assert fitted.details["taken_off"]
    assert np.isfinite(fitted.estimate).all()


def test_voices_are_numbered_in_the_order_of_the_judges_and_chains_are_one():
    c = np.full((6, 6), 0.3) + 0.7 * np.eye(6)
    for a, b in ((1, 4), (4, 5), (1, 5)):
        c[a, b] = c[b, a] = 0.95
    assert voices(Opinions(c, c, c)).tolist() == [0, 1, 2, 3, 1, 1]


def test_how_far_judges_follow_what_they_share_is_told(rng):
    """The common loading of the draws, which one factor explains."""
    quality = rng.normal(size=(2_000, 1))
    for loading in (0.4, 0.7):
        x = loading * quality + np.sqrt(1 - loading**2) * rng.normal(size=(2_000, 8))
        told = fit_panel(matrix(x), FitConfig(aggregators=("care",))).aggregates["care"].details
        assert told["signal"] == pytest.approx(loading, abs=0.06)
        assert 0 <= told["misfit"] < 0.05


def test_where_a_liking_was_taken_off_nothing_is_said_of_families_that_nobody_declared():
    for seed in range(3):
        quality, words = np.random.default_rng([41, seed]).normal(size=(2, 300))
        x = np.column_stack([quality + liking * words for liking in (0.9, 0.9, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0)])
        x += 0.7 * np.random.default_rng([42, seed]).normal(size=x.shape)
        details = both(replace(matrix(x), features={"words": words}))[0].details
        assert details["taken_off"]
        assert "families" not in details["doubts"]
