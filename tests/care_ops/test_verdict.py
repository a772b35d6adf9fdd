"""The rules that lead from facts to a verdict, and the facts that are computed for it alone."""

from dataclasses import replace

import numpy as np
import pytest

from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.results.fit_facts import FitFacts, JudgeFacts, LabelEvidence, MovingTogether, ProbeEvidence
from care_ops.results.residuals import groups_moving_together, moving_together
from care_ops.results.settled import probability_settled
from care_ops.results.verdict import Remedies, Standing, Step, decide
from care_ops.scores import ScoreMatrix

REMEDIES = Remedies(
    label=Step("Label.", "care label"), use=Step("Use."), again=Step("Again.", "care run"), decide=Step("Decide.")
)
JUDGES = tuple(JudgeFacts(name, admitted=True) for name in "abcd")
CLEAR = FitFacts("e1", "2026-11-22T03:15:00+00:00", 60, JUDGES, agreement=0.98)
AMBIGUOUS = replace(CLEAR, ambiguous=True, agreement=0.7)
LABELS = LabelEvidence(12, 0.97, "the judges' factor 1", 0.6)


@pytest.mark.parametrize(
    ("facts", "standing", "state", "begins"),
    [
        (CLEAR, Standing(), "clear", "Clear: 4 judges allow one answer for 60 items"),
        (AMBIGUOUS, Standing(), "ambiguous", "Ambiguous: the mean of the families and the factor"),
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
            "Ambiguous: the mean of the families and the factor",
        ),
        (CLEAR, Standing(stale=("The source changed.",)), "stale", "Stale: The source changed."),
        (CLEAR, Standing(failures=("No.",), stale=("Old.",), held_back=("Drift.",)), "failed", "Failed: No."),
        (
            CLEAR,
            Standing(held_back=("it drifts",), held_edition="e2", held_made_at="2026-11-23T03:15:00+00:00"),
            "held back",
            "Held back: fit e2, made 2026-11-23 03:15, waits for a person: it drifts.",
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


def test_judges_that_move_together_are_asked_about_and_nothing_is_declared_for_the_reader():
    facts = replace(CLEAR, together=(MovingTogether(("a", "b"), 0.6, 0.97, 4),))
    (question,) = decide(facts, Standing(), REMEDIES).reasons
    assert "Where do they come from" in question.sentence
    assert "4 of 60 items would change" in question.sentence
    assert "family:" not in str(decide(facts, Standing(), REMEDIES)), "no YAML to paste"


def panel(rng: np.random.Generator, twins: bool) -> ScoreMatrix:
    quality, shared = rng.normal(size=300), rng.normal(size=300)
    columns = [quality + rng.normal(size=300) for _ in range(6)]
    columns += [quality + (0.9 * shared if twins else 0.0) + 0.5 * rng.normal(size=300) for _ in range(2)]
    names = ("a", "b", "c", "d", "e", "f", "twin 1", "twin 2")
    return ScoreMatrix(np.column_stack(columns), tuple(f"i{k:03}" for k in range(300)), names, {})


def test_twins_are_found_and_independent_judges_are_not(rng):
    (found,) = groups_moving_together(panel(rng, twins=True))
    assert found[0] == ("twin 1", "twin 2")
    assert found[1] > 0.3
    assert groups_moving_together(panel(rng, twins=False)) == []


def test_twins_of_one_declared_family_are_no_news(rng):
    scores = panel(rng, twins=True)
    declared = ScoreMatrix(scores.values, scores.item_ids, scores.judges, {"twin 1": "x", "twin 2": "x"})
    assert groups_moving_together(declared) == []


def test_the_effect_of_one_family_is_that_of_declaring_it(rng):
    scores, config = panel(rng, twins=True), FitConfig(aggregators=("care",))
    answer = fit_panel(scores, config, solve="not").aggregates["care"].estimate
    (group,) = moving_together(scores, answer, config)
    declared = ScoreMatrix(scores.values, scores.item_ids, scores.judges, dict.fromkeys(group.judges, "one"))
    other = fit_panel(declared, config, solve="not").aggregates["care"].estimate
    assert group.answer_correlation == pytest.approx(np.corrcoef(answer, other)[0, 1])
    halves = [values > np.median(values) for values in (answer, other)]
    assert group.items_changed == int((halves[0] != halves[1]).sum())


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
