"""Probes: what responses say of judges, of hypotheses, and when they must say nothing."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.errors import InputError
from care_ops.fit import fit_panel
from care_ops.models.probes import (
    ORDINARY_NUISANCE,
    WORTH,
    FallsAndMoves,
    evidence_of,
    measured,
    responses_by_kind,
)
from care_ops.probes import NO_PROBES, ProbeResponses
from care_ops.results.uncertainty import weight_intervals
from care_ops.scores import ScoreMatrix
from tests.care_ops.probed_draws import ProbedDraw, Probing, item_id, probed_panel

DRAWS = 20
CARE = FitConfig(aggregators=("care",))


def scores_of(draw: ProbedDraw) -> ScoreMatrix:
    ids = tuple(item_id(k) for k in range(len(draw.scores)))
    return ScoreMatrix(draw.scores, ids, draw.probes.judges)


def care(draw: ProbedDraw, probes: ProbeResponses = NO_PROBES, labels: int = 0, seed: int = 0):
    rng = np.random.default_rng([seed, labels])
    rows = rng.choice(len(draw.quality), labels, replace=False)
    anchors = Anchors({item_id(int(k)): float(draw.quality[k] + 0.5 * rng.normal()) for k in rows})
    return fit_panel(scores_of(draw), CARE, anchors, solve="not", probes=probes).aggregates["care"]


def drawn(probing: Probing, draws: int = DRAWS) -> list[ProbedDraw]:
    return [probed_panel(np.random.default_rng([seed, 20]), probing) for seed in range(draws)]


def gains(panels: list[ProbedDraw], labels: int = 0) -> np.ndarray:
    """Correlation of care with quality by probes, less that without them; the labels are the same."""

    def correlation(draw: ProbedDraw, probes: ProbeResponses, seed: int) -> float:
        return float(np.corrcoef(care(draw, probes, labels, seed).estimate, draw.quality)[0, 1])

    return np.array([correlation(d, d.probes, k) - correlation(d, NO_PROBES, k) for k, d in enumerate(panels)])


def test_truthful_probes_gain_without_a_label_and_beside_ten():
    panels = drawn(Probing())
    alone, beside_labels = gains(panels), gains(panels, labels=10)
    assert alone.mean() > 0.1
    assert np.quantile(alone, 0.05) > -0.02
    assert beside_labels.mean() > 0.03
    assert np.quantile(beside_labels, 0.05) > -0.02


def test_judges_that_do_not_respond_leave_every_number_as_it_was():
    draw = probed_panel(np.random.default_rng(5), Probing(respond=False))
    with_probes, without = care(draw, draw.probes), care(draw)
    np.testing.assert_array_equal(with_probes.estimate, without.estimate)
    assert "by_probes" not in with_probes.details
    only_kept = ProbeResponses(
        draw.probes.item_ids, draw.probes.kinds, dict.fromkeys(draw.probes.spoils, False), draw.probes.judges,
        draw.probes.changes,
    )  # fmt: skip
    np.testing.assert_array_equal(care(draw, only_kept).estimate, without.estimate)


@pytest.mark.parametrize("heavy_tails", [False, True])
def test_chance_moves_the_answer_by_no_more_than_a_hundredth(heavy_tails):
    """Versions are other items' answers to which nobody responds, so that a judge falls by chance alone."""
    by_chance = gains(drawn(Probing(respond=False, exchanged=True, heavy_tails=heavy_tails), 60))
    assert np.quantile(by_chance, 0.02) > -0.01
    assert by_chance.min() > -0.02
    assert np.mean(by_chance == 0) > 0.85, "on nineteen panels of twenty nothing changes at all"


def test_the_greatest_of_many_chances_is_no_response():
    """As on FRANK: of 17 judges one falls by three standard errors, the others by less than one or not at all."""
    noise = np.random.default_rng(13).standard_normal((60, 17))
    noise = (noise - noise.mean(axis=0)) / noise.std(axis=0, ddof=1)
    errors = np.array([3.0, *(0.8, -0.8) * 8])
    falls = (noise + errors / np.sqrt(60))[:, None]
    assert FallsAndMoves(np.ones(17, dtype=bool), falls, np.zeros((60, 0, 17))).signal < 0.05


def test_a_fall_by_next_to_nothing_tells_next_to_nothing_however_sure_it_is():
    rng = np.random.default_rng(12)
    falls = 0.3 * rng.standard_normal((60, 1, 12))
    falls[:, 0, 0] = 0.03 + 0.001 * rng.standard_normal(60)  # 200 standard errors
    faint = FallsAndMoves(np.ones(12, dtype=bool), falls, np.zeros((60, 0, 12)))
    assert faint.signal < 0.1
    falls[:, 0, 0] += 1.0
    assert FallsAndMoves(np.ones(12, dtype=bool), falls, np.zeros((60, 0, 12))).signal > 0.9


def test_chance_is_the_share_of_all_ways_to_deal_the_falls_that_fit_as_well():
    """Beside every one of the 120 ways of five judges, and the inverse by a solve."""
    rng = np.random.default_rng(13)
    for _ in range(10):
        loadings, falls = rng.uniform(0.2, 1.0, (2, 5))
        covariance = np.outer(loadings, loadings) + np.diag(1 - loadings**2)
        evidence = FallsAndMoves(np.ones(5, dtype=bool), np.tile(falls, (30, 2, 1)), np.zeros((30, 0, 5)))
        ways = np.array(list(permutations(falls)))
        unlike = (ways * np.linalg.solve(covariance + ORDINARY_NUISANCE * np.eye(5), ways.T).T).sum(axis=1)
        assert evidence.by_chance(covariance) == pytest.approx(np.mean(unlike <= unlike[0] + 1e-9), abs=0.06)


def test_judges_that_fall_as_others_should_settle_nothing_though_hypotheses_agree():
    """The declaration is true, and falls say nothing of finer grades: then they do not fit how the judges agree."""
    said = {"own": [], "others'": []}
    for draw in drawn(Probing(), 12):
        said["own"].append(care(draw, draw.probes).details.get("probes_better"))
        turned = draw.probes.changes / draw.scores.std(axis=0)
        spoilt = np.array([draw.probes.spoils[kind] for kind in draw.probes.kinds])
        turned[spoilt] = turned[spoilt][:, ::-1]
        others = replace(draw.probes, changes=turned * draw.scores.std(axis=0))
        said["others'"].append(care(draw, others).details.get("probes_better"))
    settled = {whose: np.mean([p is not None and p >= 0.9 for p in ps]) for whose, ps in said.items()}
    assert settled["own"] >= 0.5
    assert settled["others'"] <= 0.25


def test_a_wrong_declaration_misleads_no_further_than_the_cap_and_labels_override_it():
    """Every dress costs more quality than an exchanged fact does."""
    panels = drawn(Probing(dress_costs=2.0))
    misled, with_fifty = gains(panels), gains(panels, labels=50)
    assert np.quantile(misled, 0.05) < 0  # probes are as true as what is declared of them
    assert np.quantile(misled, 0.05) > -0.25
    assert abs(with_fifty.mean()) < 0.03


def test_spoilt_versions_that_style_betrays_gain_less_but_gain():
    plain, betrayed = gains(drawn(Probing())), gains(drawn(Probing(betrays=1.5)))
    assert 0 < betrayed.mean() < plain.mean()


def test_a_rival_style_is_recognised_and_the_evidence_told():
    draw = probed_panel(np.random.default_rng(11), Probing(), style=1.2)
    aggregate = care(draw, draw.probes)
    shares = aggregate.details["by_probes"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["probes"] > 0.25  # its prior
    assert "labels_better" not in aggregate.details
    assert aggregate.details["declared"]["dress 1"] == "keeps"


def test_intervals_of_weights_know_of_probes():
    draw = probed_panel(np.random.default_rng(8), Probing(), style=1.2)
    whole = {"care": care(draw, draw.probes)}
    intervals = weight_intervals(scores_of(draw), replace(CARE, resamples=20), whole=whole, probes=draw.probes)["care"]
    assert whole["care"].weights is not None
    assert np.mean((intervals.lo <= whole["care"].weights) & (whole["care"].weights <= intervals.hi)) > 0.7


def test_four_hundred_items_count_no_more_than_the_cap():
    draw = probed_panel(np.random.default_rng(3), Probing(items=400), n=600)
    evidence = evidence_of(draw.probes, draw.scores.std(axis=0))
    assert evidence is not None
    assert evidence.worth == WORTH
    few = probed_panel(np.random.default_rng(3), Probing(items=12), n=600)
    evidence = evidence_of(few.probes, few.scores.std(axis=0))
    assert evidence is not None
    assert evidence.worth == WORTH


def test_versions_of_one_item_count_once():
    """Each version twice: the same means, the same intervals, the same evidence."""
    draw = probed_panel(np.random.default_rng(4), Probing())
    p = draw.probes
    twice = ProbeResponses(p.item_ids * 2, p.kinds * 2, p.spoils, p.judges, np.vstack([p.changes, p.changes]))
    sd = draw.scores.std(axis=0)
    for one, two in zip(responses_by_kind(p, sd), responses_by_kind(twice, sd), strict=True):
        np.testing.assert_allclose(one.low, two.low)
        np.testing.assert_array_equal(one.items, two.items)
    np.testing.assert_allclose(care(draw, p).estimate, care(draw, twice).estimate)


def test_intervals_cover_the_planted_response():
    """The mean response of a judge to a dress is its loading on the style, over 200 draws of the versions."""
    covered = []
    for seed in range(200):
        draw = probed_panel(np.random.default_rng([1, seed]), Probing(), n=400)
        sd = draw.scores.std(axis=0)
        response = next(r for r in responses_by_kind(draw.probes, sd) if r.kind == "dress 1")
        truth = draw.loadings[:, 1] / sd
        covered.append((response.low <= truth) & (truth <= response.high))
    assert 0.93 < np.mean(covered) < 0.97


def test_recorded_judges_beside_probed_ones():
    draw = probed_panel(np.random.default_rng(6), Probing())
    half = draw.probes.of_judges(draw.probes.judges[:6])
    aggregate = care(draw, half)
    assert np.isfinite(aggregate.estimate).all()
    assert "by_probes" in aggregate.details


def test_bad_responses_are_refused():
    good = probed_panel(np.random.default_rng(2), Probing()).probes
    with pytest.raises(InputError, match="not declared whether 'dress 1' keeps"):
        replace(good, spoils={"one": True, "three": True, "other": True})
    changes = good.changes.copy()
    changes[3, 1] = np.inf
    with pytest.raises(InputError, match="changes infinitely"):
        replace(good, changes=changes)
    with pytest.raises(InputError, match="changes have shape"):
        replace(good, changes=good.changes[1:])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.1, 100.0), missing=st.floats(0.0, 0.5))
def test_order_scale_and_holes_do_no_harm(seed, scale, missing):
    """The estimate does not depend on the unit of scores or the order of versions; it is finite whatever is missing."""
    rng = np.random.default_rng(seed)
    draw = probed_panel(rng, Probing(items=30), n=80, p=6)
    p = draw.probes
    changes = np.where(rng.random(p.changes.shape) < missing, np.nan, p.changes)
    holed = replace(p, changes=changes)
    order = rng.permutation(len(p))
    shuffled = ProbeResponses(
        tuple(p.item_ids[k] for k in order), tuple(p.kinds[k] for k in order), p.spoils, p.judges, changes[order]
    )
    unit = np.full(6, scale)
    rescaled = replace(draw, scores=draw.scores * unit)
    expected = care(draw, holed)
    assert np.isfinite(expected.estimate).all()
    np.testing.assert_allclose(care(draw, shuffled).latent, expected.latent, atol=1e-8)
    np.testing.assert_allclose(
        care(rescaled, replace(holed, changes=changes * unit)).latent, expected.latent, atol=1e-6
    )


def test_only_a_version_that_is_spoilt_is_a_measurement():
    """Versions that keep quality say how far judges move, and by themselves nothing of who falls."""

    def given(*kinds: str) -> ProbeResponses:
        items = tuple(f"i{k}" for k in range(len(kinds)))
        return ProbeResponses(items, kinds, {"cut": True, "padded": False}, ("a", "b"), np.full((len(kinds), 2), -1.0))

    sd = np.array([1.0, 2.0])
    assert measured(given("padded", "padded"), sd) is None
    assert measured(NO_PROBES, sd) is None
    found = measured(given("cut", "padded"), sd)
    assert found.asked.tolist() == [True, True]
    assert np.nanmax(found.falls[..., 0]) == 1.0
    assert np.nanmax(found.falls[..., 1]) == 0.5
    assert measured(given("cut", "cut"), sd) is not None


def test_of_falls_by_one_point_on_every_item_chance_explains_what_a_mean_of_signs_does():
    """The sum of 60 signs over 60 is normal with the variance 1/60, and of its upper 5 % the least is 1.645 errors."""
    falls = np.ones((60, 1, 1))
    signal = FallsAndMoves(np.ones(1, dtype=bool), falls, np.zeros((60, 0, 1))).signal
    assert signal == pytest.approx(1 - 1.645**2 / 60, abs=0.02)


def test_two_versions_are_enough_for_a_mean_and_its_error_and_one_is_not():
    changes = np.array([[1.0, 4.0], [3.0, np.nan]])
    probes = ProbeResponses(("a", "b"), ("padded",) * 2, {"padded": False}, ("j", "k"), changes)
    (response,) = responses_by_kind(probes, np.ones(2))
    assert response.items.tolist() == [2, 1]
    assert response.mean[0] == 2.0
    # the error of a mean of two is half of their range, and with one degree of freedom t is Cauchy's distribution
    assert (response.high[0] - response.low[0]) / 2 == pytest.approx(1.0 * np.tan(0.475 * np.pi))
    assert np.isnan([response.mean[1], response.low[1], response.high[1]]).all()
