"""Tests of which nodes of the trie of answers are computed, and of the precision without the other nodes."""

import math

import numpy as np
import pytest

from judges import scoring

SPACE, STOP = 100, 101
ANSWERS = {str(k): float(k) for k in range(101)}


def digits_of(text: str) -> list[int]:
    """Tokenize a text with one token for each digit, one for a space, and one for the rest."""
    return [SPACE if character == " " else ord(character) - 48 for character in text.removeprefix("T")]


BALLOT = scoring.ballot(digits_of, "T", ANSWERS)


class Model:
    """Next-token probabilities, drawn once for each sequence; the class counts requests."""

    def __init__(self, seed: int, peak: float, legal: float) -> None:
        self._draw, self._peak, self._legal = np.random.default_rng(seed), peak, legal
        self._known: dict[scoring.Prefix, dict[int, float]] = {}
        self.asked = 0

    def __call__(self, node: scoring.Prefix) -> dict[int, float]:
        if node not in self._known:
            tokens = [*range(10), SPACE]
            weights = self._draw.dirichlet(np.full(len(tokens), 1 / self._peak)) * self._legal
            self._known[node] = {t: math.log(max(float(w), 1e-300)) for t, w in zip(tokens, weights, strict=True)}
        self.asked += 1
        return self._known[node]


def read(model: Model, negligible: float) -> tuple[float, float, float]:
    reading = scoring.Unfolding(BALLOT)
    while nodes := reading.next_nodes(negligible):
        for node in nodes:
            reading.add(node, model(node))
    return scoring.summarise(reading.probabilities(), ANSWERS)


def test_a_scale_of_0_to_100_has_22_nodes_with_and_without_a_space():
    assert len(BALLOT.children) == 22


@pytest.mark.parametrize("peak", [1, 30])
@pytest.mark.parametrize("legal", [1.0, 0.01])
def test_leaving_out_the_improbable_keeps_expected_scores_exact(peak, legal):
    all_asked = few_asked = 0
    for seed in range(50):
        whole = Model(seed, peak, legal)
        expected, mode, mass = read(whole, 0.0)
        asked_in_full = whole.asked
        expected_by_bound, mode_by_bound, _ = read(whole, 0.9 * mass * scoring.EXACT_TO / 100)
        assert abs(expected - expected_by_bound) <= scoring.EXACT_TO
        assert mode == mode_by_bound
        all_asked += asked_in_full
        few_asked += whole.asked - asked_in_full
    print(f"\npeak {peak}, legal {legal}: {all_asked / 50:.1f} nodes an item, {few_asked / 50:.1f} by the bound")
    assert few_asked <= all_asked
    if peak == 30:
        assert few_asked < 0.5 * all_asked


def test_the_bound_is_not_loose_by_orders_of_magnitude():
    """Mass just above the limit is computed; a bound that skips all nodes would fail here."""
    reading = scoring.Unfolding(BALLOT)
    reading.add((), {**dict.fromkeys(range(10), math.log(1e-9)), SPACE: math.log(1e-5), 7: math.log(0.9)})
    assert set(reading.next_nodes(1e-6)) == {(7,), (SPACE,)}
    assert set(reading.next_nodes(1e-4)) == {(7,)}
    assert len(reading.next_nodes()) == 10
