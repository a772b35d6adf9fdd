"""CARE-Tensor: what its states mean, how many there are, and what it says of degenerate panels."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_svd import fit_structure
from care_ops.aggregators.care_tensor import CareTensor, confirmed_by_anchors, evidence_for, quality_by_anchors
from care_ops.anchors import Anchors
from care_ops.config import FitConfig, StructureConfig, TensorConfig
from care_ops.errors import FitError, InputError
from care_ops.fit import fit_panel
from care_ops.moments.state import accumulate
from care_ops.simulate import four_state_mixture, grouped_mixture
from care_ops.structure.bounds import tensor_rate
from tests.support.matrices import matrix


def tensor(scores, anchors=None, **settings):
    config = FitConfig(aggregators=("care_tensor",), tensor=TensorConfig(**settings))
    return fit_panel(scores, config, anchors or Anchors({})).aggregates["care_tensor"]


def two_binary_latents(rng, n=4_000, p=12):
    q, c = rng.integers(0, 2, (2, n))
    judges = 5 + np.outer(2 * q - 1, rng.uniform(0.6, 1.2, p)) + np.outer(2 * c - 1, rng.uniform(-0.6, 0.6, p))
    return q, c, judges + rng.normal(scale=0.7, size=(n, p))


def test_states_say_quality_and_confounder(rng):
    q, c, values = two_binary_latents(rng)
    scores = matrix(values)
    moments = accumulate(values)
    structure, _ = fit_structure(moments, StructureConfig())
    states = CareTensor().states(Problem(scores, moments, structure, rng))
    posterior = states.posterior
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    label = posterior.argmax(axis=1)
    assert np.mean(states.quality[label] == q) > 0.98
    assert sorted(zip(states.quality.tolist(), states.confounder.tolist(), strict=True)) == [
        (0.0, 0),
        (0.0, 1),
        (1.0, 0),
        (1.0, 1),
    ]
    # each of the four states is one (Q, C): C is found up to its naming within each Q
    for quality in (0, 1):
        of = q == quality
        assert abs(np.mean(states.confounder[label[of]] == c[of]) - 0.5) > 0.4
    assert (np.diff(states.score[np.argsort(states.quality, kind="stable")][[1, 2]]) > 0).all()


def test_anchors_turn_a_panel_that_follows_the_confounder(rng):
    n = 4_000
    q, c = rng.integers(0, 2, (2, n))
    load = np.r_[np.zeros(4), np.ones(8)]
    values = np.outer(2 * q - 1, 1 - load) + np.outer(2 * c - 1, 1.2 * load) + rng.normal(scale=0.8, size=(n, 12))
    scores = matrix(values)
    blind = tensor(scores)
    chosen = rng.choice(n, 30, replace=False)
    seeing = tensor(scores, Anchors({scores.item_ids[i]: float(q[i]) for i in chosen}))
    assert np.mean((blind.estimate > blind.threshold) == q) < 0.7
    assert np.mean((seeing.estimate > seeing.threshold) == q) > 0.95


def test_quality_of_three_classes_beside_two_confounders(rng):
    """Twelve states; sixty anchors say what each is worth."""
    n, p = 8_000, 24
    q, c = rng.integers(0, 3, n), rng.integers(0, 2, (2, n))
    values = np.outer(q - 1.0, rng.uniform(0.7, 1.3, p))
    for confounder in c:
        values = values + np.outer(2 * confounder - 1, rng.choice([-1, 1], p) * rng.uniform(0.4, 1.0, p))
    scores = matrix(values + rng.normal(scale=0.8, size=(n, p)))
    chosen = rng.choice(n, 60, replace=False)
    anchors = Anchors({scores.item_ids[i]: float(q[i]) for i in chosen})
    found = tensor(scores, anchors, states=12)
    nearest = np.clip(np.round(found.latent), 0, 2)
    print(f"\nthree classes, two confounders: {np.mean(nearest == q):.3f} in their class")
    assert np.mean(nearest == q) > 0.9
    assert found.labels_used == 60
    assert len(found.details["state_quality"]) == 12


def test_the_number_of_states_may_be_left_to_bic(rng):
    draw = four_state_mixture(rng, n=3_000, p=12, noise=0.6)
    found = tensor(matrix(draw.scores), states=0)
    assert len(found.details["state_weights"]) == 4
    assert min(found.details["bic"], key=found.details["bic"].get) == "4"


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_default_views_have_no_planted_edge_across(rng, noise):
    """By S alone there is one in nine of ten draws at noise .1."""
    draw, edges = grouped_mixture(rng, n=10_000, p=12, noise=noise)
    scores = matrix(draw.scores)
    found = tensor(scores)
    assert found.details["views_from"] == "within states"
    views = [[scores.judges.index(j) for j in group] for group in found.details["views"]]
    assert sorted(itertools.chain(*views)) == list(range(12))
    for one, other in itertools.combinations(views, 2):
        assert not edges[np.ix_(one, other)].any()


def test_views_come_from_s_where_too_few_items_are_complete(rng):
    scores = four_state_mixture(rng, n=400, p=12, noise=0.6).scores
    assert tensor(matrix(scores)).details["views_from"] == "within states"
    scores[:300, 0] = np.nan
    assert tensor(matrix(scores)).details["views_from"] == "S"
    assert tensor(matrix(scores[300:]), views="structure").details["views_from"] == "S"


def test_a_full_covariance_knows_that_judges_depend_on_one_another(rng):
    """Means and covariance of a grouped mixture by numpy beside it; a diagonal one puts fewer items in their state."""
    draw, edges = grouped_mixture(rng, n=6_000, p=12, noise=1.2)
    assert edges.any()
    values = draw.scores.copy()
    values[:50, 0] = np.nan
    errors = {}
    for covariance in ("diagonal", "full"):
        found = tensor(matrix(values), covariance=covariance)
        means = np.array(found.details["state_means"])
        errors[covariance] = min(
            float(np.linalg.norm(means[list(o)] - draw.means)) for o in itertools.permutations(range(4))
        )
        assert not np.isnan(found.estimate).any()
    print(f"\nerror of the means {errors}")
    assert errors["full"] < 0.8 * errors["diagonal"]
    with pytest.raises(InputError, match="leave observation_model out"):
        TensorConfig(observation_model="graded", covariance="full")


def test_starts_that_end_apart_are_told(rng):
    clear = matrix(four_state_mixture(rng, n=3_000, p=12, noise=0.6).scores)
    agreed = tensor(clear).details
    assert agreed["starts_agree"] is True
    assert "starts_alike" not in agreed
    quality = rng.standard_normal((300, 1))  # no states at all, and votes that are not Gaussian
    votes = matrix((quality + rng.standard_normal((300, 12)) > 0).astype(float))
    details = tensor(votes, states=10).details
    assert details["starts_agree"] is False
    assert 0.5 < details["starts_alike"] < 1
    assert sum(name.startswith("k-means") for name in details["start_likelihoods"]) == 25


def test_starts_of_votes_that_end_apart_are_told(rng):
    states = rng.integers(0, 2, (3_000, 1))
    votes = matrix((rng.random((3_000, 12)) < 0.2 + 0.6 * states).astype(float))
    assert tensor(votes, observation_model="graded", states=2).details["starts_agree"] is True
    quality = rng.standard_normal((300, 1))  # no states at all
    votes = matrix((quality + rng.standard_normal((300, 12)) > 0).astype(float))
    assert tensor(votes, observation_model="graded", states=10).details["starts_agree"] is False


def test_anchors_that_the_states_do_not_tell_are_told(rng):
    quality, _, judges = two_binary_latents(rng, n=1_000)
    scores = matrix(judges)
    chosen = rng.choice(len(quality), 30, replace=False)
    true = tensor(scores, Anchors({scores.item_ids[i]: float(quality[i]) for i in chosen})).details
    assert true["anchors_confirm"] is True
    assert true["anchors_right"] > 0.8
    unrelated = tensor(scores, Anchors({scores.item_ids[i]: float(k % 2) for k, i in enumerate(chosen)})).details
    assert unrelated["anchors_confirm"] is False
    few = tensor(scores, Anchors({scores.item_ids[i]: float(quality[i]) for i in chosen[:19]})).details
    assert "anchors_confirm" not in few


def test_a_few_labels_against_the_map_without_labels_do_not_turn_a_state():
    """Four states with labels of .8 in favour of the map; in the third, five labels of eight are against it by chance.

    The nearest map turns the third state. Where twice as many labels speak as clearly against every state, the
    labels have their way.
    """
    label_free = np.array([0.0, 0.0, 1.0, 1.0])
    posterior = np.repeat(np.eye(4), 8, axis=0)
    labels = np.concatenate([np.arange(8) < ones for ones in (1, 2, 3, 7)]).astype(float)
    assert quality_by_anchors(posterior, labels).tolist() == [0, 0, 0, 1]
    assert quality_by_anchors(posterior, labels, label_free).tolist() == [0, 0, 1, 1]
    assert quality_by_anchors(posterior, 1 - labels, label_free).tolist() == [1, 1, 1, 0]
    assert quality_by_anchors(posterior, 5 + 4 * labels, label_free).tolist() == [0, 0, 1, 1], "labels of 5 and 9"
    told = confirmed_by_anchors(posterior, labels, label_free)
    assert told["anchors_agree"]
    assert told["anchors_confirm"]
    against = confirmed_by_anchors(posterior, 1 - labels, label_free)
    assert not against["anchors_agree"]
    assert against["anchors_confirm"], "labels left out are told all the same"


def test_evidence_for_a_map_is_the_ratio_of_two_chances_of_the_labels():
    """One state of a map to 1, two labels of 1 and one of 0: integrals of the rate under both beta distributions."""
    mapped = quad(lambda rate: rate**2 * (1 - rate) * beta(4, 1).pdf(rate), 0, 1)[0]
    free = quad(lambda rate: rate**2 * (1 - rate), 0, 1)[0]
    evidence = evidence_for(np.ones(1), np.ones((3, 1)), np.array([1.0, 0.0, 1.0]))
    assert evidence == pytest.approx(np.log(mapped / free))


@pytest.mark.parametrize("model", ["graded", "categorical", "student", "scale_mixture"])
def test_judges_may_be_what_their_scores_look_like(rng, model):
    """Four votes, four grades, four real scores with outliers."""
    q, _, values = two_binary_latents(rng, p=12)
    values[:, :4] = (values[:, :4] > 5).astype(float)
    values[:, 4:8] = np.clip(np.round(values[:, 4:8]), 3, 7)
    loud = rng.random((4_000, 4)) < 0.03
    values[:, 8:] = np.where(loud, values[:, 8:] + rng.normal(scale=20, size=loud.shape), values[:, 8:])
    values[5] = np.nan
    plain, found = tensor(matrix(values)), tensor(matrix(values), observation_model=model)
    right = [np.mean((a.estimate > a.threshold)[6:] == q[6:]) for a in (plain, found)]
    print(f"\n{model}: {right[1]:.3f}, Gaussian {right[0]:.3f}")
    assert right[1] > 0.9
    assert np.isnan(found.estimate[5])
    kinds = found.details["judges"]
    assert kinds["Graded"][:4] == ["j000", "j001", "j002", "j003"]
    assert len(kinds["Graded"]) == (8 if model == "categorical" else 4)


def graded_panel(rng, copy: bool) -> np.ndarray:
    """Six votes and six grades; with ``copy`` the eighth judge gives the seventh's grade on four items of five."""
    _, _, values = two_binary_latents(rng, n=2_500)
    values[:, :6] = (values[:, :6] > 5).astype(float)
    values[:, 6:] = np.clip(np.round(values[:, 6:]), 3, 7)
    if copy:
        values[:, 7] = np.where(rng.random(len(values)) < 0.8, values[:, 6], values[:, 7])
    return values


@pytest.mark.parametrize("seed", [0, 1])
def test_edges_within_states_are_planted_ones(seed):
    """The copy blurs the states, so that a false edge may stand below it, far less clear; without one there is none."""
    alone, copied = (
        tensor(matrix(graded_panel(np.random.default_rng(seed), copy)), observation_model="graded").details
        for copy in (False, True)
    )
    assert alone["edges"] == []
    first, *others = copied["edges"]
    assert first["judges"] == ["j006", "j007"]
    assert len(others) <= 1
    assert all(edge["statistic"] < first["statistic"] / 5 for edge in others)
    assert copied["edge_items"] == 2_000


def test_edges_are_given_only_where_they_can_be_told(rng):
    """Not for Gaussian judges, whose states of votes are others; not from too few items that all judges scored."""
    values = graded_panel(rng, copy=True)
    assert "edges" not in tensor(matrix(values)).details
    values[300:, 0] = np.nan
    details = tensor(matrix(values), observation_model="graded").details
    assert "edges" not in details
    assert "there are 300" in details["why_no_edges"]


def test_edges_change_no_estimate(rng):
    """The same mixture with and without a look at its edges: a grid of penalties asks for estimates alone."""
    values = graded_panel(rng, copy=True)
    moments = accumulate(values)
    structure, _ = fit_structure(moments, StructureConfig())
    config = FitConfig(tensor=TensorConfig(observation_model="graded"))

    def fit(memo):
        return CareTensor(memo).fit(Problem(matrix(values), moments, structure, np.random.default_rng(0), config))

    looked, grid = fit(None), fit({})
    np.testing.assert_array_equal(looked.estimate, grid.estimate)
    assert "edges" in looked.details
    assert "edges" not in grid.details


def test_details_have_the_theorems_rate_of_the_fitted_mixture(rng):
    """Its gap is that of the mixture's pair moment, which at 8,000 items is near the sample's."""
    draw = four_state_mixture(rng, n=8_000, p=12, noise=0.6)
    details = tensor(matrix(draw.scores)).details
    rate = details["rate"]
    assert rate["weights"] == pytest.approx(np.sqrt(12 * np.log(12 / 0.05) / 8_000))
    assert rate["means"] == pytest.approx(rate["noise"] ** 3 / rate["gap"] * rate["weights"])
    assert rate["gap"] == pytest.approx(details["tensor"]["smallest_singular_value"], rel=0.3)
    assert rate["least_weight"] == pytest.approx(min(draw.weights), abs=0.03)


def test_two_different_rows_are_told(rng):
    rows = rng.integers(0, 2, 300)
    with pytest.raises(FitError, match="different rows"):
        tensor(matrix(np.column_stack([rows, 1 - rows, rows, rows]).astype(float)))


def test_fewer_than_three_judges_and_constant_ones_are_told(rng):
    with pytest.raises(FitError, match="three judges"):
        tensor(matrix(rng.normal(size=(100, 2))))
    values = rng.normal(size=(100, 1)) + rng.normal(size=(100, 5))
    values[:, 2] = 4.0
    with pytest.raises(FitError, match="j002"):
        tensor(matrix(values))


def test_a_state_that_is_not_there_is_warned_of_and_harms_nothing(rng):
    """Two states where four are asked for: the moment says so, and Q comes back all the same."""
    q = rng.integers(0, 2, 3_000)
    values = np.outer(2 * q - 1, np.ones(12)) + rng.normal(scale=0.8, size=(3_000, 12))
    found = tensor(matrix(values))
    assert "within sampling noise" in (found.details["tensor"].get("warning") or "within sampling noise")
    assert found.details["tensor"]["smallest_singular_value"] < 2 * found.details["tensor"]["noise"]
    assert np.mean((found.estimate > found.threshold) == q) > 0.98


def test_settings_that_cannot_be_are_told():
    with pytest.raises(InputError, match="0 to choose by BIC"):
        TensorConfig(states=1)
    with pytest.raises(InputError, match="use within, structure"):
        TensorConfig(views="both")
    with pytest.raises(InputError, match="scale_mixture"):
        TensorConfig(observation_model="poisson")


@pytest.mark.slow
def test_the_rate_of_the_theorem_bounds_the_error_by_a_constant():
    """Over a decade of n the measured error falls as the rate does: their ratio hardly moves."""
    ratios = []
    for n in (2_000, 20_000):
        errors = []
        for seed in range(5):
            draw = four_state_mixture(np.random.default_rng(seed), n=n, p=12)  # the same means at either n
            found = np.array(tensor(matrix(draw.scores)).details["state_means"])
            orders = itertools.permutations(range(4))
            error = min(np.linalg.norm(found[list(o)] - draw.means, axis=1).max() for o in orders)
            groups = tuple(np.array_split(np.arange(12), 3))
            rate = tensor_rate(draw.means, draw.weights, np.eye(12), groups, n)
            errors.append(error / rate.means)
        ratios.append(np.median(errors))
    print(f"\nerror over the rate: {ratios[0]:.3f} at 2,000, {ratios[1]:.3f} at 20,000")
    assert 0.3 < ratios[1] / ratios[0] < 3
    flat = tensor_rate(np.ones((4, 12)), np.full(4, 0.25), np.eye(12), groups, 100)
    assert flat.means > 1e6
    with pytest.raises(InputError, match="epsilon"):
        tensor_rate(np.ones((4, 12)), np.full(4, 0.25), np.eye(12), groups, 100, 1.5)


def test_the_share_of_anchors_that_are_told_right_is_one():
    """In these states whichever fold is left out the map is the same, and so many labels of eight agree with it."""
    labels = np.concatenate([np.arange(8) < ones for ones in (1, 2, 3, 7)]).astype(float)
    told = confirmed_by_anchors(np.repeat(np.eye(4), 8, axis=0), labels, np.array([0.0, 0.0, 1.0, 1.0]))
    assert told["anchors_right"] == (7 + 6 + 3 + 7) / 32


@pytest.mark.parametrize(("n", "epsilon"), [(0, 0.05), (100, 0.0), (100, 1.0), (100, -1.0)])
def test_a_rate_without_items_or_for_a_failure_that_is_certain_is_refused(n, epsilon):
    groups = tuple(np.array_split(np.arange(12), 3))
    with pytest.raises(InputError, match="epsilon must lie in"):
        tensor_rate(np.ones((4, 12)), np.full(4, 0.25), np.eye(12), groups, n, epsilon)


def test_the_rate_of_one_item_is_ten_times_that_of_a_hundred():
    groups = tuple(np.array_split(np.arange(12), 3))
    means = four_state_mixture(np.random.default_rng(0), n=10, p=12).means
    one, hundred = (tensor_rate(means, np.full(4, 0.25), np.eye(12), groups, n) for n in (1, 100))
    assert one.means == pytest.approx(10 * hundred.means)
    assert one.weights == pytest.approx(10 * hundred.weights)
    assert one.items == hundred.items
