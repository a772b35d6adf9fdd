"""Annotator models of the crowdsourcing literature, in which judges answer independently given an item's class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import digamma

from care_ops.blocks import blocks, by_rows
from care_ops.models.answers import Answers, softmax
from care_ops.samples import sampled_rows
from care_ops.scores import Array

_SMOOTHING = 0.01
"""Count that Dawid-Skene adds to each answer in each class; it prevents probabilities of 0."""

_SPAM_PRIOR, _STRATEGY_PRIOR = 0.5, 10.0
"""Priors of MACE: Beta(.5, .5) on whether a judge knows the class, Dirichlet(10) on the answers without knowledge."""

_LABEL_SD = 0.1
"""Prior standard deviation of P(answer | class) around the starting value in the label model."""

_RESTARTS, _MACE_ITERATIONS = 10, 50

_MOST_STEPS, _SETTLED = 500, 1e-6
"""Maximum number of steps of a fit, and the change of the mean log likelihood at which Dawid-Skene stops."""


@dataclass(frozen=True)
class Crowd:
    """Fitted annotator model.

    Attributes
    ----------
    log_odds : (n, k) array
        log P(class | answers) up to a constant for each item; unlike the probability, it does not saturate.
    skill : (p,) array
        Skill of each judge: the probability of a correct answer, or the ability in GLAD.
    log_likelihood : float
        Mean log likelihood of the items.
    """

    log_odds: Array
    skill: Array
    log_likelihood: float
    converged: bool

    @property
    def posterior(self) -> Array:
        """P(class | answers), shape (n, k); this probability is overconfident if judges share mistakes."""
        return softmax(self.log_odds)[0]


def dawid_skene(answers: Answers, *, max_iterations: int = _MOST_STEPS) -> Crowd:
    """Fit a confusion matrix for each judge by EM, starting from the vote shares (Dawid and Skene, 1979)."""
    own, last, change, joint = answers.own_class(), -np.inf, np.inf, np.empty(0)
    votes = answers.joint(own)
    total = votes.sum(axis=1, keepdims=True)
    posterior = np.where(total > 0, votes / np.maximum(total, 1.0), 1.0 / answers.classes)
    table, prior = np.empty(0), np.empty(0)
    for _ in range(max_iterations):
        prior = posterior.mean(axis=0)
        counts = answers.counts(posterior) + _SMOOTHING
        table = counts / answers.by_judge(counts)[answers.owner]
        joint = answers.joint(np.log(table)) + np.log(np.maximum(prior, 1e-300))
        posterior, likelihood = softmax(joint)
        change, last = float(likelihood.mean()) - last, float(likelihood.mean())
        if change <= _SETTLED:
            break
    return Crowd(joint, answers.by_judge(own * table) @ prior, last, change <= _SETTLED)


def mace(answers: Answers, rng: np.random.Generator) -> Crowd:
    """Fit MACE by variational Bayes: each answer is either correct or a random guess (Hovy et al., NAACL 2013).

    Ten random starts run for fifty iterations each, and the most likely result is returned. With many items,
    the starts use a sample, and fifty iterations on all items continue from the most likely result.
    """
    starts = list[tuple[Array, Array]]()
    for _ in range(_RESTARTS):
        knows, habit = rng.dirichlet((10.0, 10.0), answers.judges), rng.uniform(1.0, 1.5, len(answers.owner))
        starts.append((knows, habit / answers.by_judge(habit)[answers.owner]))
    sample = answers.of_rows(sampled_rows(answers.items, rng))
    crowd, habits = max((_mace_from(sample, start) for start in starts), key=lambda fit: fit[0].log_likelihood)
    return crowd if sample.items == answers.items else _mace_from(answers, habits)[0]


def _mace_from(answers: Answers, start: tuple[Array, Array]) -> tuple[Crowd, tuple[Array, Array]]:
    """Run fifty iterations of MACE from given parameters; return the model and the final parameters.

    The parameters are each judge's probabilities of guessing and of knowing, shape (p, 2), and distribution of guesses,
    shape (columns,). In variational Bayes, each parameter is the exponential of an expected log probability.
    """
    (knows, habit), own = start, answers.own_class()
    joint, likelihood, change = np.empty(0), -np.inf, np.inf
    for _ in range(_MACE_ITERATIONS):
        spam = (knows[answers.owner, 0] * habit)[:, None]
        table = spam + knows[answers.owner, 1][:, None] * own
        joint = answers.joint(np.log(table)) - np.log(answers.classes)
        posterior, by_item = softmax(joint)
        change, likelihood = float(by_item.mean()) - likelihood, float(by_item.mean())
        counts = answers.counts(posterior)
        by_habit = (counts * spam / table).sum(axis=1)
        spammed = answers.by_judge(by_habit)
        informed = answers.by_judge(counts.sum(axis=1)) - spammed
        parts = np.column_stack([spammed, informed]) + _SPAM_PRIOR
        knows = np.exp(digamma(parts) - digamma(parts.sum(axis=1, keepdims=True)))  # rows add to less than one
        totals = spammed + _STRATEGY_PRIOR * answers.classes
        habit = np.exp(digamma(by_habit + _STRATEGY_PRIOR) - digamma(totals[answers.owner]))
    return Crowd(joint, knows[:, 1], likelihood, abs(change) <= 1e-4), (knows, habit)


def glad(grades: NDArray[np.intp], classes: int) -> Crowd:
    """Fit GLAD: P(correct) = sigmoid(ability of the judge x ease of the item) (Whitehill et al., NIPS 2009).

    L-BFGS maximises the marginal posterior with N(1, 1) priors on ability and on log ease. The gradient equals the
    gradient of EM's expected log likelihood.

    Parameters
    ----------
    grades : (n, p) array of int
        Grades 0 ... classes - 1; -1 marks a missing answer.
    """
    n, p = grades.shape
    others = np.log(max(classes - 1, 1))
    # All items inform an ability, but only p judges inform an item's ease. In this unit the posterior has similar
    # curvature along both; without it the optimiser takes ten times as many steps and stops short of the optimum.
    unit = np.sqrt(p / max(n, 1))

    def votes_of(given: NDArray[np.intp]) -> Array:
        return np.stack([given == c for c in range(classes)]).astype(np.float64)

    def joint_of(votes: Array, support: Array, ease: Array) -> Array:
        return ease[:, None] * support.T + others * votes.sum(axis=2).T

    def climb(x: Array) -> tuple[float, Array]:
        ability, ease = unit * x[:p], np.exp(x[p:])
        value, by_judge, by_item = 0.0, np.zeros(p), np.empty(n)
        for rows in blocks(n):
            votes = votes_of(grades[rows])
            support, present, its_ease = votes @ ability, votes.sum(axis=0), ease[rows]
            posterior, likelihood = softmax(joint_of(votes, support, its_ease))
            wrong, right = _log_wrong_and_right(its_ease[:, None] * ability)
            value -= float((present * wrong).sum() + likelihood.sum())
            right *= present
            by_judge += np.tensordot(posterior.T * its_ease, votes, 2) - its_ease @ right
            by_item[rows] = its_ease * (np.sum(posterior * support.T, axis=1) - right @ ability)
        off_judges, off_items = ability - 1.0, x[p:] - 1.0
        value += 0.5 * float(off_judges @ off_judges + off_items @ off_items)
        return value, np.concatenate([unit * (off_judges - by_judge), off_items - by_item])

    start = np.concatenate([np.full(p, 1.0 / unit), np.zeros(n)])
    optimum = minimize(climb, start, jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS, "ftol": 1e-8})
    ability, ease = unit * optimum.x[:p], np.exp(optimum.x[p:])

    def joint(given: NDArray[np.intp], its_ease: Array) -> Array:
        votes = votes_of(given)
        return joint_of(votes, votes @ ability, its_ease)

    return Crowd(by_rows(joint, grades, ease), ability, -float(optimum.fun) / n, bool(optimum.success))


def _log_wrong_and_right(logit: Array) -> tuple[Array, Array]:
    """Return log(1 - sigmoid) and sigmoid of logits, computed from one exponential that cannot overflow."""
    small = np.exp(-np.abs(logit))
    return -np.maximum(logit, 0.0) - np.log(1.0 + small), np.where(logit > 0, 1.0, small) / (1.0 + small)


def label_model(answers: Answers) -> Crowd:
    """Estimate P(answer | class) from joint frequencies of answers (Ratner et al., AAAI 2019).

    Least squares fit P(answer | class) to two targets: the joint answer frequencies of each pair of judges, and the
    answer frequencies of each judge. All classes have equal probability; missing answers are ignored. Each judge starts
    with 70 % correct answers. A normal prior centred at this start matters if there are many classes and few items.
    """
    together = answers.together() / answers.items
    marginal = np.diag(together).copy()
    across = answers.owner[:, None] != answers.owner[None, :]
    balance, own = 1.0 / answers.classes, answers.own_class()
    likely = np.clip(0.7 * marginal / balance, 0.0, 1.0)
    rest = (marginal / balance - likely) / max(answers.classes - 1, 1)
    start = np.where(own > 0, likely[:, None], np.clip(rest, 0.0, 1.0)[:, None])

    def distance(x: Array) -> tuple[float, Array]:
        mu = x.reshape(start.shape)
        off = np.where(across, balance * (mu @ mu.T) - together, 0.0)
        aside = balance * mu.sum(axis=1) - marginal
        moved = mu - start
        value = float(np.sum(off**2) + np.sum(aside**2) + hold * np.sum(moved**2))
        return value, (4 * balance * (off @ mu) + 2 * balance * aside[:, None] + 2 * hold * moved).ravel()

    hold = float(together[across].mean()) / (answers.items * _LABEL_SD**2)
    floor = min(0.01, 1.0 / answers.items)
    optimum = minimize(
        distance,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(floor, 1.0 - floor)] * start.size,
        options={"maxiter": _MOST_STEPS, "ftol": 1e-14, "gtol": 1e-9},
    )
    mu = optimum.x.reshape(start.shape)
    right = balance * answers.by_judge((mu * own).sum(axis=1))
    skill = right / np.maximum(answers.by_judge(marginal), 1e-12)
    return Crowd(answers.joint(np.log(mu)), skill, -float(optimum.fun), bool(optimum.success))
