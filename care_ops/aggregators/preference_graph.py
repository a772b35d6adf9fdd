"""GED: judges' pairwise preferences as one graph, its cycles removed."""

import numpy as np

from care_ops.aggregators.base import Problem
from care_ops.errors import FitError
from care_ops.records import Aggregate
from care_ops.scores import Array


class PreferenceGraph:
    """``ged``: for pairs of systems, the order that the fewest votes contradict.

    All answers to one prompt are a graph, with an edge for each pair, weighted by the votes for one side less those
    for the other. Edges against the greedy order (Eades, Lin and Smyth, 1993) are dropped, which leaves no cycle; a
    system stands as high as the systems that can be reached from it. The estimate is .5 + half the difference of two
    systems' standing over the largest possible.
    """

    name = "ged"
    uses_labels = False

    def fit(self, problem: Problem) -> Aggregate:
        """Rank; raises ``FitError`` where the test set declares no pairs of systems or no cut."""
        if not problem.pairs or problem.cut is None:
            raise FitError(
                "ged: it ranks systems that are compared in pairs; declare `systems: [left, right]` and `cut` of the "
                "test set"
            )
        values = problem.scores.values
        margin = np.where(np.isnan(values), 0.0, np.sign(values - problem.cut)).sum(axis=1)
        graphs: dict[str, list[int]] = {}
        for row, item in enumerate(problem.scores.item_ids):
            if item in problem.pairs and not np.isnan(values[row]).all():
                graphs.setdefault(problem.pairs[item][2], []).append(row)
        estimate, dropped = np.full(len(margin), np.nan), 0
        for rows in graphs.values():
            pairs = [problem.pairs[problem.scores.item_ids[row]] for row in rows]
            names = sorted({name for left, right, _ in pairs for name in (left, right)})
            place = {name: k for k, name in enumerate(names)}
            net = np.zeros((len(names), len(names)))
            for row, (left, right, _) in zip(rows, pairs, strict=True):
                net[place[left], place[right]] += margin[row]
                net[place[right], place[left]] -= margin[row]
            standing, lost = standings(net)
            dropped += lost
            most = max(len(names) - 1, 1)
            for row, (left, right, _) in zip(rows, pairs, strict=True):
                estimate[row] = 0.5 + 0.5 * (standing[place[left]] - standing[place[right]]) / most
        details = {"graphs": len(graphs), "edges_dropped": dropped}
        return Aggregate(self.name, estimate, threshold=0.5, latent=estimate, details=details)


def standings(net: Array) -> tuple[Array, int]:
    """Number of vertices that can be reached from each vertex once no cycle is left, (k,), and of edges dropped.

    Parameters
    ----------
    net : (k, k) antisymmetric array
        Votes for the row less votes for the column; positive is an edge.
    """
    wins = np.maximum(net, 0.0)
    k = len(wins)
    left, order = list(range(k)), list[int]()
    while left:
        balance = wins[np.ix_(left, left)].sum(axis=1) - wins[np.ix_(left, left)].sum(axis=0)
        order.append(left.pop(int(np.argmax(balance))))
    position = np.empty(k, dtype=int)
    position[order] = np.arange(k)
    kept = (wins > 0) & (position[:, None] < position[None, :])
    reached = kept.copy()
    for vertex in reversed(order):  # vertices later in the order have their reach already
        reached[vertex] |= reached[kept[vertex]].any(axis=0)
    return reached.sum(axis=1).astype(np.float64), int((wins > 0).sum() - kept.sum())
