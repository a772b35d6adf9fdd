"""The cards that say what moves a judge: their words and their slope over exchanged facts."""

import numpy as np
import pytest

from assets.report.probe_cards import ProbeCards, probe_cards
from care_ops.probes import ProbeResponses
from care_ops.scores import ScoreMatrix

ITEMS, SD = 40, 2.0
A_FACT = {"fine": -0.3, "gross": 0.0, "new": np.nan}
"""Change for each of the first two facts that are exchanged, in the judge's standard deviations."""
ALL = {"fine": -0.9, "gross": -1.5, "new": np.nan}
KINDS = ("one_fact", "two_facts", "all_facts", "padding")


def cards(kinds: tuple[str, ...] = KINDS) -> ProbeCards:
    """A panel of three judges; one sees each fact, one only that all are wrong, one was not asked."""
    rng = np.random.default_rng(7)
    ids = tuple(f"i{k:03d}" for k in range(ITEMS))
    judges = tuple(A_FACT)
    scores = rng.standard_normal((ITEMS, 3))
    scores = SD * (scores - scores.mean(axis=0)) / scores.std(axis=0, ddof=1)
    mean = {
        "one_fact": np.array(list(A_FACT.values())),
        "two_facts": 2 * np.array(list(A_FACT.values())),
        "all_facts": np.array(list(ALL.values())),
        "padding": np.zeros(3),
    }
    versions = [(item, kind) for item in ids for kind in kinds]
    changes = np.array([SD * (mean[kind] + 0.1 * rng.standard_normal(3)) for _, kind in versions])
    spoils = {kind: kind != "padding" for kind in kinds}
    probes = ProbeResponses(*map(tuple, zip(*versions, strict=True)), spoils, judges, changes)
    made = probe_cards(probes, ScoreMatrix(scores, ids, judges))
    assert made is not None
    return made


def test_a_slope_tells_finer_grades_from_gross_spoiling():
    of_judge = {card.judge: card for card in cards().cards}
    fine, gross, new = (of_judge[judge].a_fact for judge in A_FACT)
    assert fine is not None
    assert fine.mean == pytest.approx(A_FACT["fine"], abs=0.03)
    assert fine.is_right
    assert f"by {fine.shown} for each name or number that is exchanged" in of_judge["fine"].says
    assert "−0.0" not in of_judge["fine"].says, "a change that one decimal shows as nothing is none"
    assert gross is not None
    assert gross.low is not None
    assert gross.high is not None
    assert gross.low < 0 < gross.high
    assert "for each name" not in of_judge["gross"].says
    assert "by −1.5 when it has all its names and numbers exchanged" in of_judge["gross"].says
    assert new is not None
    assert new.mean is None
    assert new.shown == "–"


def test_without_graded_kinds_there_is_no_slope():
    made = cards(("all_facts", "padding"))
    assert not made.is_graded
    assert all(card.a_fact is None for card in made.cards)
    assert cards(("one_fact",)).is_graded
