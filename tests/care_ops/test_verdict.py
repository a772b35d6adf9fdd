"""The rules that lead from facts to a verdict, and the facts that are computed for it alone."""

from dataclasses import replace

import numpy as np
import pytest

from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.doubt import Changed
from care_ops.results.fit_facts import FitFacts, FollowedFeature, JudgeFacts, LabelEvidence, ProbeEvidence
from care_ops.results.settled import probability_settled
from care_ops.results.verdict import Remedies, Standing, Step, decide
from care_ops.scores import ScoreMatrix

REMEDIES = Remedies(
    label=Step("Label.", "care label"), use=Step("Use."), again=Step("Again.", "care run"), decide=Step("Decide.")
)
JUDGES = tuple(JudgeFacts(name, admitted=True) for name in "abcd")
CLEAR = FitFacts("e1", "2026-11-22T03:15:00+00:00", 60, JUDGES, agreement=0.98)
AMBIGUOUS = replace(CLEAR, doubts=("several answers",), agreement=0.7)
LABELS = LabelEvidence(12, 0.97, "the judges' factor 1", 0.6)


@pytest.mark.parametrize(
    ("facts", "standing", "state", "begins"),
    [
        (CLEAR, Standing(), "clear", "Clear: 4 judges allow one answer for 60 items"),
        (AMBIGUOUS, Standing(), "ambiguous", "Ambiguous: the mean of the judges and the factor"),
        (replace(AMBIGUOUS, rival=0.2), Standing(), "ambiguous", "Ambiguous: several judges follow a factor"),
        (replace(AMBIGUOUS, labels=LABELS), Standing(), "settled by labels", "Settled by 12 labels: with probability"),
        (replace(CLEAR, labels=LABELS), Standing(), "clear", "Clear: "),
        (
            replace(AMBIGUOUS, probes=ProbeEvidence(0.93, ("padded: quality kept", "facts exchanged: quality spoilt"))),
            Standing(),
            "settled by probes",
            "Settled by probes with probability 0.93, if what was declared of them (padded: quality kept; facts "
            "exchanged: quality spoilt) is true.",
        ),
        (
            replace(AMBIGUOUS, probes=ProbeEvidence(0.6, ("padded: quality kept",))),
            Standing(),
            "ambiguous",
            "Ambiguous: the mean of the judges and the factor",
        ),
        (CLEAR, Standing(stale=("The source changed.",)), "stale", "Stale: The source changed."),
        (CLEAR, Standing(failures=("No.",), stale=("Old.",), held_back=("Drift.",)), "failed", "Failed: No."),
        (
            CLEAR,
            Standing(held_back=("it drifts",), held_edition="e2", held_made_at="2026-11-23T03:15:00+00:00"),
            "held back",
            "Held back: the new fit e2, made 2026-11-23 03:15, waits for a person: it drifts.",
        ),
        (None, Standing(), "stale", "Stale: no fit has been made yet."),
        (replace(CLEAR, judges=JUDGES[:2]), Standing(), "failed", "Failed: two judges (a, b) can be heard"),
        (replace(CLEAR, failure="too few items"), Standing(), "failed", "Failed: there is no answer to judge"),
    ],
)
def test_a_state_follows_from_the_facts(facts, standing, state, begins):
    verdict = decide(facts, standing, REMEDIES)
    assert (verdict.state, verdict.sentence[: len(begins)]) == (state, begins)
    assert verdict.next_steps
    assert str(verdict).startswith(verdict.sentence)


@pytest.mark.parametrize("weak", [replace(LABELS, labels=4), replace(LABELS, probability=0.6)])
def test_few_labels_or_unsure_ones_settle_nothing_and_are_told(weak):
    verdict = decide(replace(AMBIGUOUS, labels=weak), Standing(), REMEDIES)
    assert verdict.state == "ambiguous"
    assert f"{weak.labels} labels have not settled it." in verdict.sentence


def test_the_sentence_names_what_nobody_may_overlook_and_the_reasons_do_not_repeat_it():
    judges = (*JUDGES[:3], JudgeFacts("mute", admitted=False, reason="degenerate", entropy=0.0))
    verdict = decide(replace(CLEAR, judges=judges), Standing(), REMEDIES)
    assert "there are only three judges" in verdict.sentence
    assert "Judge 'mute' is dead" in verdict.sentence
    assert {reason.topic for reason in verdict.reasons} == {"few judges", "dead judge"}
    assert verdict.further_reasons == []


def test_a_judge_is_suspect_and_never_to_be_dropped_for_its_weight():
    odd = JudgeFacts("odd", admitted=True, weight=-0.2, weight_hi=-0.05)
    unsure = JudgeFacts("unsure", admitted=True, weight=-0.02, weight_hi=0.1)
    verdict = decide(replace(CLEAR, judges=(*JUDGES, odd, unsure)), Standing(), REMEDIES)
    (suspect,) = [reason for reason in verdict.reasons if reason.topic == "suspect judge"]
    assert suspect.judges == ("odd",)
    assert "no reason to drop it" in suspect.sentence


def test_a_sentence_names_the_doubt_that_there_is():
    alike = replace(CLEAR, doubts=("several answers",), agreement=0.99, misfit=0.13)
    assert "one common factor leaves correlations unexplained (0.13" in decide(alike, Standing(), REMEDIES).sentence
    opposed = replace(CLEAR, doubts=("opposed", "feature"), feature="words", follows=0.6, without=Changed(0.5, 9, 2, 6))
    said = [reason.sentence for reason in decide(opposed, Standing(), REMEDIES).reasons]
    assert any(
        "The answer follows the number of words (correlation +0.60)" in each and "no part of quality, 9 of" in each
        for each in said
    )
    few = decide(replace(CLEAR, judges=JUDGES[:3], doubts=("few judges",)), Standing(), REMEDIES)
    assert few.sentence.count("share a mistake") == 1


def test_an_answer_that_hardly_follows_the_texts_is_not_suspected_of_it():
    facts = replace(CLEAR, feature="words", follows=0.05, followed=(FollowedFeature(0, "characters", 0.7),))
    (reason,) = decide(facts, Standing(), REMEDIES).reasons
    assert "the answer hardly does" in reason.sentence
    assert "may be that" not in reason.sentence
    (reason,) = decide(replace(facts, follows=0.6), Standing(), REMEDIES).reasons
    assert "may be that" in reason.sentence


def test_what_is_clear_if_a_feature_counts_says_how_to_declare_that_it_does_not():
    facts = replace(CLEAR, doubts=("feature",), feature="sentences", follows=0.4)
    verdict = decide(facts, Standing(), REMEDIES)
    assert verdict.sentence.startswith("Clear if the number of sentences is part of quality")
    assert "--not-quality sentences" in verdict.next_steps[0].sentence


def test_many_judges_that_deserve_a_look_do_not_bury_the_rest():
    odd = tuple(JudgeFacts(f"odd{k}", admitted=True, notes="it is odd") for k in range(40))
    verdict = decide(replace(CLEAR, judges=(*JUDGES, *odd)), Standing(), REMEDIES)
    assert len(verdict.lines()) < 12
    assert "35 more judges deserve a look" in str(verdict)
    assert len(verdict.reasons) == 40


def test_labels_settle_two_factors_and_no_labels_settle_nothing(rng):
    quality, style = rng.normal(size=(2, 120))
    columns = [factor + 0.5 * rng.normal(size=120) for factor in (quality,) * 4 + (style,) * 4]
    ids = tuple(f"i{k:03}" for k in range(120))
    scores = ScoreMatrix(np.column_stack(columns), ids, tuple("abcdefgh"), {})
    labels = Anchors({ids[k]: float(quality[k]) for k in range(20)})
    assert probability_settled(scores, FitConfig(), Anchors({})) is None
    probability = probability_settled(scores, FitConfig(), labels)
    assert probability is not None
    assert probability > 0.9
