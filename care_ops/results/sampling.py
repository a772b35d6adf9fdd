"""Which items to ask people about: at random, or likelier where a label tells more, with probabilities that are kept.

Labels of items that somebody picked say nothing of the others. Items may still be picked for what a label of them would
tell, if each of them has a known probability above 0: estimates then weigh it by the inverse. Half a sample at random
and half in proportion to the gain keeps every weight below twice that of a simple random sample (a defensive mixture,
Hesterberg, Technometrics 1995).
"""

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.care import disagreement
from care_ops.aggregators.label_free import label_free
from care_ops.config import FitConfig
from care_ops.errors import InputError
from care_ops.fit import problem_of
from care_ops.scores import Array, ScoreMatrix, canonical_order, restore


def expected_gain(scores: ScoreMatrix, config: FitConfig) -> Array:
    """By how much two plausible estimates differ in the rank of each item, shape (n,): a label there tells the most.

    Raises ``FitError`` where the panel has fewer than three judges or ten items, or a judge that does not vary.
    """
    found = label_free(problem_of(scores, config))
    return restore(disagreement(found), canonical_order(scores.item_ids))


def inclusion(gain: Array, size: int, chosen: float) -> Array:
    """Probability of each item to be among ``size`` of which a share ``chosen`` goes by the gain.

    Parameters
    ----------
    gain : (n,) array
        Not negative.
    size : int
        1 to n.
    chosen : float
        0 (all alike) up to below 1, so that no item is left without a chance.
    """
    n = len(gain)
    if not 1 <= size <= n:
        raise InputError(f"labels: {size} items cannot be drawn of {n}; draw between 1 and {n}")
    if not 0 <= chosen < 1:
        raise InputError(
            f"labels: the share of chosen items lies in [0, 1), so that every item has a chance; got {chosen:g}"
        )
    total = float(gain.sum())
    weight = np.full(n, 1.0 / n) if total <= 0 else (1.0 - chosen) / n + chosen * gain / total
    certain = np.zeros(n, dtype=np.bool_)
    while True:
        rest = ~certain
        if not rest.any():
            return np.ones(n)
        probability = np.where(certain, 1.0, weight * (size - certain.sum()) / weight[rest].sum())
        if (probability[rest] <= 1.0).all():
            return probability
        certain |= probability >= 1.0


def draw(probability: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows drawn with these probabilities, which add to a whole number, in random order.

    Systematic sampling of the items in random order (Madow, Annals of Mathematical Statistics 1949), which draws each
    with just its probability and always as many as these add to. Equal probabilities give a simple random sample.
    """
    order = rng.permutation(len(probability))
    edges = np.cumsum(probability[order])
    ticks = rng.random() + np.arange(round(float(edges[-1])))
    rows = order[np.minimum(np.searchsorted(edges, ticks, side="right"), len(order) - 1)]
    return rng.permutation(rows)
