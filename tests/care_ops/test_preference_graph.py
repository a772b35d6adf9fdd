"""GED: cycles go, and the order that is left follows the votes."""

import itertools

import numpy as np
import pytest

from care_ops.aggregators.preference_graph import standings
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from tests.support.matrices import matrix


def test_a_graph_without_cycles_keeps_every_edge(rng):
    order = rng.permutation(6)
    net = np.zeros((6, 6))
    for a, b in itertools.combinations(range(6), 2):
        net[order[a], order[b]] = rng.integers(1, 5)
    found, dropped = standings(net - net.T)
    assert dropped == 0
    assert found[order].tolist() == [5, 4, 3, 2, 1, 0]


def test_the_weakest_edge_of_a_cycle_goes():
    net = np.array([[0.0, 5, -1], [-5, 0, 4], [1, -4, 0]])  # 0 beats 1, 1 beats 2, and 2 just beats 0
    found, dropped = standings(net)
    assert (found.tolist(), dropped) == ([2, 1, 0], 1)


def test_reachability_is_that_of_the_kept_edges(rng):
    for _ in range(20):
        net = np.triu(rng.integers(-2, 3, (7, 7)).astype(float), 1)
        net = net - net.T
        found, dropped = standings(net)
        assert 0 <= dropped < 11
        ahead = {(a, b) for a in range(7) for b in range(7) if found[a] > found[b] and net[a, b] > 0}
        behind = {(a, b) for a in range(7) for b in range(7) if found[a] <= found[b] and net[a, b] > 0}
        assert len(behind) <= dropped  # a kept edge puts its tail above its head
        assert len(ahead) + len(behind) == int((net > 0).sum())


def test_judges_cycles_are_denoised(rng):
    strength, items, pairs, right = np.linspace(1.5, -1.5, 5), [], {}, []
    for prompt in range(60):
        for a, b in itertools.combinations(range(5), 2):
            left, other = (a, b) if rng.random() < 0.5 else (b, a)
            pairs[f"i{len(items):05d}"] = (f"s{left}", f"s{other}", f"p{prompt}")
            chance = 1 / (1 + np.exp(strength[other] - strength[left]))
            items.append((rng.random(5) < chance).astype(float))
            right.append(left < other)
    scores = matrix(np.array(items))
    config = FitConfig(aggregators=("mv", "ged"), cut=0.5)
    found = fit_panel(scores, config, pairs=pairs).aggregates
    accuracy = {name: np.mean((a.estimate > a.threshold) == np.array(right)) for name, a in found.items()}
    assert accuracy["ged"] > accuracy["mv"] + 0.01
    assert found["ged"].details["edges_dropped"] > 0
    assert set(np.unique(np.sign(found["ged"].estimate - 0.5))) <= {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("count", [2, 3, 6])
def test_who_beats_all_the_others_is_at_the_top_of_the_scale(count):
    """The estimate of the best against the worst is 1, and of neighbours a step of an equal share above a half."""
    pairs, votes = {}, []
    for a, b in itertools.combinations(range(count), 2):
        for left, right in ((a, b), (b, a)):
            pairs[f"i{len(votes):05d}"] = (f"s{left}", f"s{right}", "p")
            votes.append([float(left < right)] * 3)
    found = fit_panel(matrix(np.array(votes)), FitConfig(aggregators=("ged",), cut=0.5), pairs=pairs).aggregates["ged"]
    of = {pair[:2]: value for pair, value in zip(pairs.values(), found.estimate, strict=True)}
    assert of["s0", f"s{count - 1}"] == 1.0
    assert of[f"s{count - 1}", "s0"] == 0.0
    assert of["s0", "s1"] == pytest.approx(0.5 + 0.5 / (count - 1))


def test_without_pairs_it_says_what_to_declare(rng):
    with pytest.raises(FitError, match=r"systems: \[left, right\]"):
        fit_panel(matrix(rng.random((30, 4))), FitConfig(aggregators=("ged",), cut=0.5))


def test_systems_that_were_not_compared_do_not_stand_above_one_another():
    """One prompt, two pairs that share no system: whoever wins a pair stands above one of the three others."""
    pairs = {"i00000": ("a", "b", "prompt"), "i00001": ("c", "d", "prompt")}
    scores = matrix(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]]))
    ged = fit_panel(scores, FitConfig(aggregators=("ged",), cut=0.5), pairs=pairs).aggregates["ged"]
    np.testing.assert_allclose(ged.estimate, [0.5 + 0.5 / 3, 0.5 - 0.5 / 3])
    assert ged.details["edges_dropped"] == 0
