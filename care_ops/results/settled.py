"""How surely labels, or probes, have settled what quality is on a panel that allows several answers.

Several hypotheses may come to the same answer, so that the probability of the single most probable one says too little.
What counts is the probability of all whose answer is like the one that is given.
"""

from dataclasses import replace

import numpy as np

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care import averaging, candidates_of, defensible, told_by_probes
from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import FitConfig
from care_ops.models.probes import evidence_of
from care_ops.moments.state import of_panel
from care_ops.probes import NO_PROBES, ProbeResponses
from care_ops.scores import Array, ScoreMatrix, content_seed

AGREES = 0.9
"""Correlation from which on two answers count as the same, as where ``care`` calls a panel ambiguous."""


def probability_settled(
    scores: ScoreMatrix, config: FitConfig, anchors: Anchors, probes: ProbeResponses = NO_PROBES
) -> float | None:
    """Probability of the hypotheses that, given the labels, lead to an answer like the one that is given.

    Returns
    -------
    float or None
        None where there are no labels, or they do not differ.

    Raises
    ------
    FitError
        ``care`` gives no answer on this panel.
    """
    problem = problem_of(scores, config, anchors, probes)
    if not anchors.labels:
        return None
    answers = defensible(problem)
    hypotheses, _ = told_by_probes(problem, candidates_of(answers).hypotheses)
    average = averaging(problem, answers)
    whole = average(hypotheses)
    if whole is None:
        return None
    probability = 0.0
    for hypothesis in hypotheses:
        alone = average([replace(hypothesis, prior=1.0)])
        if alone is not None and _agree(alone.latent, whole.latent):
            probability += whole.weights[hypothesis.name]
    return min(probability, 1.0)


def probability_by_probes(scores: ScoreMatrix, config: FitConfig, probes: ProbeResponses) -> float | None:
    """Probability, by the probes alone, that the answer is at least as good as the plain mean of the judges.

    It is that of the hypotheses whose answer is like the one that they lead to, as far as chance would not make the
    falls fit how judges agree (``FallsAndMoves.by_chance``). Where it would, the answer is better or worse with the
    same probability. On most corpora of planted truth it is too low, on some small ones too high.

    Returns
    -------
    float or None
        None where there are no probes, or no judge responds to them.

    Raises
    ------
    FitError
        ``care`` gives no answer on this panel.
    """
    problem = problem_of(scores, config, NO_ANCHORS, probes)
    _, alone = told_by_probes(problem, candidates_of(defensible(problem)).hypotheses)
    responses = evidence_of(problem.panel_probes, problem.scale)
    if responses is None:
        return None
    asked = np.nan_to_num(problem.standardised)[:, responses.asked]
    chance = responses.by_chance(asked.T @ asked / len(asked))
    answer = np.sum([h.prior * h.score for h in alone], axis=0)
    return min(1.0, sum(h.prior for h in alone if _agree(h.score, answer))) * (1 - chance / 2)


def problem_of(
    scores: ScoreMatrix, config: FitConfig, anchors: Anchors = NO_ANCHORS, probes: ProbeResponses = NO_PROBES
) -> Problem:
    """What ``care`` is asked about a panel; no structure is solved."""
    panel = scores.canonical()
    rng = np.random.default_rng([content_seed(panel), config.seed])
    return Problem(panel, of_panel(panel.values), None, rng, config, anchors, probes=probes)


def _agree(one: Array, other: Array) -> bool:
    return bool(np.corrcoef(one, other)[0, 1] >= AGREES)
