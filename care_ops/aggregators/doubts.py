"""Why an answer without labels may be wrong: the doubts that keep a panel from being called clear.

Each rule is about something that can be seen in the scores, and its false rate is measured on panels of known truth
(``benchmarks/studies/panels``): of the panels that no rule doubts, at most one in fifty has an answer that orders the
items worse than the plain mean does, by more than .01 in Kendall's tau.
"""

import numpy as np

from care_ops.aggregators.defensible import Defensible
from care_ops.doubt import LEAST_AGREEMENT, MAY_BE_A_FEATURE, RIVAL, Doubt
from care_ops.least import LEAST_VOICES, TELLING_ITEMS
from care_ops.models.voices import ALL_ALIKE

_LEAST_SIGNAL = 0.2
"""Least ``signal`` of a panel, and least loading of a voice that has to do with the others."""

_OPPOSED, _MOST_OPPOSED = -0.1, 0.25
"""Loading below which a voice runs against the others, and the share of such voices from which on no side is sure."""

_MOST_MISFIT = 0.05
"""Largest misfit of one common factor."""

_SPARSE_AGREEMENT = 0.9
"""The same on a panel of which most judges scored few items, where the two answers share less."""

_LEAST_ALONE = 0.99
"""How much the answer may rest on which families were declared: correlation with the answer without them."""


def doubts_of(answers: Defensible, rival: float | None, families: int) -> tuple[Doubt, ...]:
    """The doubts about the answer of a panel that no label has settled, the gravest first; none where it is clear.

    Parameters
    ----------
    rival : float or None
        Correlation with the answer of the factor that is least like it among those that several voices follow.
    families : int
        How many families the judges are of.
    """
    found: list[Doubt] = []
    voices = int(answers.voices.max()) + 1
    if voices < LEAST_VOICES:
        found.append("few judges")
    if int(answers.scored.sum()) < TELLING_ITEMS:
        found.append("few items")
    structure = answers.structure
    if structure is None:
        return (*found, "several answers") if answers.agreement < _SPARSE_AGREEMENT else tuple(found)
    loadings = structure.raw_loadings
    if signal_of(answers) < _LEAST_SIGNAL:
        found.append("no common signal")
    if answers.copied is not None and not answers.copied.unheard:
        found.append("copies")
    if float(np.mean(loadings < _OPPOSED)) >= _MOST_OPPOSED:
        found.append("opposed")
    rivalled = rival is not None and abs(rival) < RIVAL
    if rivalled or answers.agreement < LEAST_AGREEMENT or structure.misfit > _MOST_MISFIT:
        found.append("several answers")
    taken_off = any(liking.removed > 0 for liking in answers.likings.values())
    kin_share_more = not taken_off and structure.kin_share_more  # their taste, or what only they see
    other_answers = not taken_off and answers.alone < _LEAST_ALONE
    if families == 1 or other_answers or (kin_share_more and not answers.follows):
        found.append("families")
    if followed_feature(answers) is not None:
        found.append("feature")
    if not found and np.sum(np.abs(loadings) >= _LEAST_SIGNAL) < LEAST_VOICES:
        found.append("few judges")
    if not found and (answers.copied is not None or signal_of(answers) ** 2 > ALL_ALIKE):
        found.append("counted once")
    if not found and kin_share_more:
        found.append("kin")
    return tuple(found)


def signal_of(answers: Defensible) -> float:
    """How much the voices share: their mean correlation with it, or the median where one voice lifts the mean.

    By few items one voice may have all of the common factor by chance, and the others next to nothing of it.
    """
    loadings = np.ones(1) if answers.structure is None else answers.structure.raw_loadings
    return float(min(np.mean(loadings), np.median(loadings)))


def followed_feature(answers: Defensible) -> str | None:
    """The feature of the texts that the answer follows most, where it follows one."""
    name = answers.nearest
    return name if name is not None and abs(answers.follows[name]) >= MAY_BE_A_FEATURE else None
