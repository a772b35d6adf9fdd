"""Three models of votes by their papers' formulas, rivals of ``care``, which know more than that judges err alone.

``ising`` lets any two judges agree beyond what the truth explains, ``random_effects`` the judges of one group, and
``bt_sigma`` weighs the judges of comparisons by how well each tells two answers apart. None has public code that could
be installed; what they are held against stands in ``tests/care_ops/test_dependent_votes.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtri

Array = NDArray[np.float64]

MOST_JUDGES = 14
"""Judges of whom ``ising`` can count all 2^p answers."""

_NODES, _MASS = np.polynomial.hermite_e.hermegauss(15)
_LOG_MASS = np.log(_MASS / _MASS.sum())


def ising(votes: Array, penalty: float, steps: int = 50) -> tuple[Array, Array]:
    """Log odds of the truth of each item, (n,), and the couplings of the pairs of judges, (p (p - 1) / 2,).

    The model of arXiv 2601.22336 whose couplings are the same for both truths: P(s | y) is proportional to
    exp(sum_k (a_k + y b_k) s_k + sum_{k<l} w_kl s_k s_l), with votes s and truth y of -1 and 1. Fitted by EM from the
    majority; each M step is a concave likelihood over all 2^p answers, less ``penalty`` / 2 sum w^2 an item.

    Parameters
    ----------
    votes : (n, p) array of 0 and 1
        Of at most ``MOST_JUDGES`` judges.
    """
    p = votes.shape[1]
    if p > MOST_JUDGES:
        raise ValueError(f"ising: it counts all answers of at most {MOST_JUDGES} judges, there are {p}")
    pairs = np.array(list(combinations(range(p), 2)))
    states = np.array(list(product((-1.0, 1.0), repeat=p)))
    statistics = np.hstack([states, states[:, pairs[:, 0]] * states[:, pairs[:, 1]]])
    s = 2 * votes - 1
    seen = np.hstack([s, s[:, pairs[:, 0]] * s[:, pairs[:, 1]]])
    theta = np.zeros(2 * p + len(pairs))
    right = expit(2 * s.sum(axis=1) / np.sqrt(p))
    for _ in range(steps):
        share, before = float(right.mean()), right
        means = np.array([seen.T @ right, seen.T @ (1 - right)]) / len(s)
        theta = minimize(_ising_loss, theta, (statistics, means, share, penalty, p), jac=True, method="L-BFGS-B").x
        odds = _ising_odds(theta, statistics, s, share)
        right = expit(odds)
        if np.abs(right - before).max() < 1e-4:
            break
    return odds * np.sign(theta[p : 2 * p].sum() or 1.0), theta[2 * p :]


def _ising_loss(theta: Array, statistics: Array, means: Array, share: float, penalty: float, p: int):
    """Negative expected log likelihood an item, and its gradient."""
    a, b, w = theta[:p], theta[p : 2 * p], theta[2 * p :]
    loss, gradient = 0.5 * penalty * float(w @ w), np.concatenate([np.zeros(2 * p), penalty * w])
    for y, weight, mean in ((1.0, share, means[0]), (-1.0, 1 - share, means[1])):
        natural = np.concatenate([a + y * b, w])
        energy = statistics @ natural
        normaliser = float(logsumexp(energy))
        excess = weight * (statistics.T @ np.exp(energy - normaliser)) - mean
        loss += weight * normaliser - float(mean @ natural)
        gradient += np.concatenate([excess[:p], y * excess[:p], excess[p:]])
    return loss, gradient


def _ising_odds(theta: Array, statistics: Array, s: Array, share: float) -> Array:
    """Log odds of y = 1: linear in the votes, as the couplings cancel but for the two normalisers."""
    p = s.shape[1]
    a, b, w = theta[:p], theta[p : 2 * p], theta[2 * p :]
    up, down = (logsumexp(statistics @ np.concatenate([a + y * b, w])) for y in (1.0, -1.0))
    return 2 * s @ b + down - up + np.log(share / (1 - share))


def random_effects(votes: Array, groups: Sequence[str]) -> tuple[Array, Array]:
    """Log odds of the truth of each item, (n,), and each judge's share of its group's effect, (p,).

    Dawid and Skene's two classes where the judges of a group share an effect of the item (Qu, Tan and Kutner,
    Biometrics 52, 1996): P(vote = 1 | y, t) = Phi(a_ky + b_k t), t standard normal, one for each group and item. Where
    no two judges share a group, one effect is common to all. By marginal maximum likelihood over 15 nodes, with a weak
    normal prior (variance 4) on a and b.
    """
    names = np.array(groups if len(set(groups)) < len(groups) else ["all"] * len(groups))
    members = [np.flatnonzero(names == name) for name in np.unique(names)]
    p, majority = votes.shape[1], expit(4 * (votes.mean(axis=1) - votes.mean()) / votes.mean(axis=1).std())
    share = np.array([majority @ votes / majority.sum(), (1 - majority) @ votes / (1 - majority).sum()])
    start = np.concatenate(
        [
            ndtri(np.clip(share, 0.02, 0.98)).ravel(),
            np.where([(names == name).sum() > 1 for name in names], 0.5, 0.0),
            [0],
        ]
    )
    fitted = minimize(_effects_loss, start, (votes, members), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    first, second, _ = _effects_likelihood(fitted, votes, members)
    above = fitted[:p].sum() >= fitted[p : 2 * p].sum()
    return (first - second + fitted[-1]) * (1 if above else -1), fitted[2 * p : 3 * p]


def _effects_likelihood(theta: Array, votes: Array, members: Sequence[NDArray[np.intp]]):
    """Log likelihood of each item under both classes, and by class and group the posterior of the nodes."""
    p = votes.shape[1]
    by_class, posteriors = np.zeros((2, len(votes))), []
    for y in (0, 1):
        for group in members:
            eta = theta[y * p + group, None] + theta[2 * p + group, None] * (_NODES if len(group) > 1 else 0 * _NODES)
            at_nodes = votes[:, group] @ log_ndtr(eta) + (1 - votes[:, group]) @ log_ndtr(-eta) + _LOG_MASS
            total = logsumexp(at_nodes, axis=1)
            by_class[y] += total
            posteriors.append((y, group, eta, np.exp(at_nodes - total[:, None])))
    return by_class[0], by_class[1], posteriors


def _effects_loss(theta: Array, votes: Array, members: Sequence[NDArray[np.intp]]):
    """Negative log posterior an item, and its gradient."""
    p, n = votes.shape[1], len(votes)
    first, second, posteriors = _effects_likelihood(theta, votes, members)
    both = np.array([first + log_expit(theta[-1]), second + log_expit(-theta[-1])])
    total = logsumexp(both, axis=0)
    of_class = np.exp(both - total)
    gradient = theta / 4
    for y, group, eta, nodes in posteriors:
        weighted = nodes * of_class[y][:, None]
        ones, all_ = votes[:, group].T @ weighted, weighted.sum(axis=0)
        density = -0.5 * eta**2 - 0.5 * np.log(2 * np.pi)
        slope = ones * np.exp(density - log_ndtr(eta)) - (all_ - ones) * np.exp(density - log_ndtr(-eta))
        gradient[y * p + group] -= slope.sum(axis=1)
        if len(group) > 1:
            gradient[2 * p + group] -= slope @ _NODES
    gradient[-1] -= float(of_class[0].sum()) - n * expit(theta[-1])
    return (theta @ theta / 8 - float(total.sum())) / n, gradient / n


def bt_sigma(votes: Array) -> tuple[Array, Array]:
    """Posterior mean of each pair's difference, (n,), and each judge's discrimination 1 / sigma, (p,).

    BT-sigma (arXiv 2602.16610): judge k prefers the left answer with probability expit(d / sigma_k), where d is the
    difference of the two answers' skills. Each answer is compared once here, so that d has a standard normal prior in
    place of the other comparisons. By marginal maximum likelihood; half a vote is a tie.
    """
    fitted = minimize(
        _bt_loss, np.zeros(votes.shape[1]), (votes,), jac=True, method="L-BFGS-B", bounds=[(-4, 4)] * votes.shape[1]
    ).x
    nodes = _bt_nodes(fitted, votes)
    return np.exp(nodes - logsumexp(nodes, axis=1, keepdims=True)) @ _NODES, np.exp(fitted)


def _bt_nodes(log_slope: Array, votes: Array) -> Array:
    """Log of likelihood times prior of each pair at each node, shape (n, nodes)."""
    eta = np.exp(log_slope)[:, None] * _NODES
    return votes @ log_expit(eta) + (1 - votes) @ log_expit(-eta) + _LOG_MASS


def _bt_loss(log_slope: Array, votes: Array):
    """Negative log likelihood a pair, with a normal prior of variance 1 on log 1 / sigma, and its gradient."""
    nodes, slope = _bt_nodes(log_slope, votes), np.exp(log_slope)
    total = logsumexp(nodes, axis=1)
    weights = np.exp(nodes - total[:, None])
    expected = weights.sum(axis=0) * expit(slope[:, None] * _NODES)
    gradient = log_slope - slope * ((votes.T @ weights - expected) @ _NODES)
    return (0.5 * float(log_slope @ log_slope) - float(total.sum())) / len(votes), gradient / len(votes)
