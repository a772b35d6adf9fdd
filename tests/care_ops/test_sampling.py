"""Which items are drawn for a label: probabilities, draws, and estimates by labels that were drawn so."""

import numpy as np
import pytest

from care_ops.config import FitConfig
from care_ops.errors import InputError
from care_ops.labels import Label, Labels
from care_ops.results.sampling import draw, expected_gain, inclusion
from care_ops.scores import ScoreMatrix


def test_probabilities_add_to_the_size_and_leave_nobody_out():
    gain = np.array([0.0, 1.0, 2.0, 50.0, 3.0, 0.0])
    probability = inclusion(gain, 3, 0.5)
    assert probability.sum() == pytest.approx(3.0)
    assert (probability > 0).all()
    assert probability[3] == 1.0
    assert probability[4] > probability[2] > probability[1] > probability[0] == probability[5]
    np.testing.assert_allclose(inclusion(gain, 3, 0.0), 0.5)
    np.testing.assert_allclose(inclusion(np.zeros(4), 2, 0.5), 0.5)
    with pytest.raises(InputError, match="7 items cannot be drawn of 6"):
        inclusion(gain, 7, 0.0)
    with pytest.raises(InputError, match="every item has a chance"):
        inclusion(gain, 2, 1.0)


def test_items_are_drawn_with_just_their_probability():
    rng = np.random.default_rng(0)
    probability = inclusion(rng.exponential(size=30), 8, 0.7)
    counts = np.zeros(30)
    for _ in range(4000):
        rows = draw(probability, rng)
        assert len(set(rows.tolist())) == 8
        counts[rows] += 1
    error = np.sqrt(probability * (1 - probability) / 4000)
    assert (np.abs(counts / 4000 - probability) <= 4.5 * error + 1e-12).all()


def test_weighted_labels_of_a_mixed_draw_do_not_lean_to_what_was_likelier_drawn():
    """The gain goes with the label, so that unweighted labels are wrong by a quarter."""
    rng = np.random.default_rng(1)
    gain = rng.exponential(size=400)
    gold = (gain > np.median(gain)).astype(float)
    probability = inclusion(gain, 60, 0.5)
    weighted, plain = [], []
    for _ in range(300):
        rows = draw(probability, rng)
        labels = Labels(tuple(Label(f"{k}", gold[k], "chosen", probability[k]) for k in rows))
        inverse = np.array([1 / labels.sample[f"{k}"] for k in rows])
        weighted.append(inverse @ gold[rows] / inverse.sum())
        plain.append(gold[rows].mean())
    assert np.mean(plain) - 0.5 > 0.1
    assert abs(np.mean(weighted) - 0.5) < 0.015


def test_a_label_tells_most_where_two_answers_part():
    """Six judges follow quality and six, of one family, a style; what tells the two apart is where they differ."""
    rng = np.random.default_rng(2)
    quality, style = rng.normal(size=(2, 300))
    values = np.column_stack([t[:, None] + 0.6 * rng.normal(size=(300, 6)) for t in (quality, style)])
    ids, judges = tuple(f"i{k}" for k in range(300)), tuple(f"j{k:02}" for k in range(12))
    scores = ScoreMatrix(values, ids, judges, dict.fromkeys(judges[6:], "style"))
    gain = expected_gain(scores, FitConfig())
    assert np.corrcoef(gain, np.abs(quality - style))[0, 1] > 0.4
    order = rng.permutation(300)
    shuffled = ScoreMatrix(values[order], tuple(ids[k] for k in order), judges, scores.families)
    np.testing.assert_allclose(expected_gain(shuffled, FitConfig()), gain[order])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [6, 7, 13, 29])  # n times 1 / n is more than 1 in floating point
def test_every_item_of_a_whole_sample_is_certain(n):
    np.testing.assert_array_equal(inclusion(np.zeros(n), n, 0.0), 1.0)
