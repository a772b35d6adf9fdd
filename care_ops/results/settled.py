"""How surely labels have settled what quality is on a panel that allows several answers.

Belongs here: the probability. Does not: the model behind it (``models.hypotheses``), what is said of it (``verdict``).
"""

from __future__ import annotations

import numpy as np

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care import candidates_of, defensible
from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.models.hypotheses import average_hypotheses
from care_ops.moments.state import accumulate
from care_ops.scores import ScoreMatrix, content_seed

AGREES = 0.9
"""Correlation from which on two answers count as the same, as where ``care`` calls a panel ambiguous."""


def probability_settled(scores: ScoreMatrix, config: FitConfig, anchors: Anchors) -> float | None:
    """Probability of the hypotheses that, given the labels, lead to an answer like the one that is given.

    Several hypotheses may come to the same answer once labels have moved them, so that the probability of the single
    most probable one says too little.

    Returns
    -------
    float or None
        None where there are no labels, or they do not differ.

    Raises
    ------
    FitError
        ``care`` gives no answer on this panel.
    """
    panel = scores.canonical()
    rng = np.random.default_rng([content_seed(panel), config.seed])
    problem = Problem(panel, accumulate(panel.values), None, rng, config, anchors)
    rows, labels = anchors.rows(panel.item_ids)
    answers = defensible(problem)
    hypotheses, judges = candidates_of(answers).hypotheses, np.nan_to_num(problem.standardised)
    whole = average_hypotheses(hypotheses, answers.factors, judges, rows, labels) if len(rows) else None
    if whole is None:
        return None
    probability = 0.0
    for hypothesis in hypotheses:
        alone = average_hypotheses([hypothesis], answers.factors, judges, rows, labels)
        if alone is not None and np.corrcoef(alone.latent, whole.latent)[0, 1] >= AGREES:
            probability += whole.weights[hypothesis.name]
    return min(probability, 1.0)
