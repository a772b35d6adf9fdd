"""The rules that lead from the facts of a fit to its verdict, and what its sentences name."""

import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from care_ops.concerns import Changed, Concern
from care_ops.results import reasons
from care_ops.results.decide import FitStatus, decide
from care_ops.results.fit_facts import FitFacts, FollowedFeature, JudgeFacts, LabelEvidence
from care_ops.results.sides import Sides
from care_ops.results.verdict import Reason, Remedies, Step, Verdict
from care_ops.scores import ScoreMatrix

REMEDIES = Remedies(
    label=Step("Label.", "care label"), use=Step("Use."), again=Step("Again.", "care run"), decide=Step("Decide.")
)
JUDGES = tuple(JudgeFacts(name, admitted=True) for name in "abcd")
CLEAR = FitFacts("e1", "2026-11-22T03:15:00+00:00", 60, JUDGES, effective_judges=2.3)
AMBIGUOUS = replace(CLEAR, concerns=("two groups",), second_factor=0.4, groups=(("a", "b"), ("c", "d")))
LABELS = LabelEvidence(12, 0.97, 0.03)
REMOVED = replace(CLEAR, feature="words", removed=("words",), kept=Changed(0.95, 9, 2, 6))


def verdict_on(facts: FitFacts | None, **standing) -> Verdict:
    return decide(facts, FitStatus(**standing), REMEDIES)


def topics(facts: FitFacts, topic: str) -> list[Reason]:
    return [reason for reason in verdict_on(facts).reasons if reason.topic == topic]


@pytest.mark.parametrize(
    ("facts", "standing", "state", "pill", "names"),
    [
        (CLEAR, {}, "clear", "Use", ("4 judges", "60 items", "labels")),
        (AMBIGUOUS, {}, "ambiguous", "Don't use yet", ("two groups",)),
        (replace(CLEAR, concerns=("alternatives",)), {}, "ambiguous", "Don't use yet", ("Two plausible ways",)),
        (replace(CLEAR, concerns=("opposed",)), {}, "ambiguous", "Don't use yet", ("other way round",)),
        (replace(CLEAR, concerns=("few items",)), {}, "too little data", "Don't use yet", ("60 items",)),
        (replace(CLEAR, concerns=("no common signal",)), {}, "no common signal", "Don't use yet", ("hardly agree",)),
        (replace(CLEAR, concerns=("one family",)), {}, "clear if", "Check", ("one family",)),
        (replace(CLEAR, concerns=("feature",), feature="words"), {}, "clear if", "Check", ("number of words is part",)),
        (
            replace(CLEAR, concerns=("duplicates",), perhaps_duplicates=("a", "b")),
            {},
            "clear if",
            "Check",
            ("a, b", "copies of one judge"),
        ),
        (REMOVED, {}, "clear if", "Check", ("number of words is not part of quality",)),
        (replace(REMOVED, kept=Changed(0.9999, 1, 0, 6)), {}, "clear", "Use", ()),
        (replace(REMOVED, labels=LABELS), {}, "settled by labels", "Use", ("12 labels", "97 %")),
        (replace(AMBIGUOUS, labels=LABELS), {}, "settled by labels", "Use", ("12 labels",)),
        (replace(CLEAR, labels=LABELS), {}, "clear", "Use", ()),
        (replace(CLEAR, labels=replace(LABELS, turned=0.3)), {}, "ambiguous", "Don't use yet", ("contradict",)),
        (replace(AMBIGUOUS, labels=replace(LABELS, turned=0.3)), {}, "settled by labels", "Use", ()),
        (replace(AMBIGUOUS, labels=replace(LABELS, turned=-0.8)), {}, "ambiguous", "Don't use yet", ("contradict",)),
        (
            replace(CLEAR, concerns=("opposed",), labels=replace(LABELS, turned=-0.8)),
            {},
            "settled by labels",
            "Use",
            (),
        ),
        (replace(CLEAR, former_concerns=("several answers",)), {}, "ambiguous", "Don't use yet", ("earlier release",)),
        (CLEAR, {"stale": (Reason("stale", "The source changed."),)}, "stale", "Waiting", ("The source changed.",)),
        (CLEAR, {"failures": ("No.",), "blocking_checks": ("Drift.",)}, "failed", "Failed", ("No.",)),
        (
            CLEAR,
            {"blocking_checks": ("it drifts",), "blocked_fit_version": "e2"},
            "held back",
            "Waiting",
            ("it drifts",),
        ),
        (
            CLEAR,
            {"blocking_checks": ("it lacks",), "changes": ("6 items came",), "incomplete_judges": ("ann", "bob")},
            "held back",
            "Waiting",
            ("ann, bob", "6 items came"),
        ),
        (None, {}, "stale", "Waiting", ()),
        (replace(CLEAR, judges=JUDGES[:2]), {}, "failed", "Failed", ("a, b",)),
        (replace(CLEAR, failure="too few items"), {}, "failed", "Failed", ("too few items",)),
    ],
)
def test_a_state_follows_from_the_facts(facts, standing, state, pill, names):
    verdict = verdict_on(facts, **standing)
    assert (verdict.state, verdict.pill) == (state, pill)
    assert verdict.headline == f"{pill.upper()}. {verdict.sentence}"
    assert [name for name in names if name not in verdict.sentence] == []
    assert verdict.next_steps
    assert str(verdict).startswith(verdict.headline)


OF_THE_PAPER = re.compile(r"\d\.\d\d|eigen|rival|Q = 1", re.IGNORECASE)


@pytest.mark.parametrize(
    "facts",
    [
        CLEAR,
        REMOVED,
        replace(CLEAR, labels=replace(LABELS, turned=-0.9)),
        AMBIGUOUS,
        *(
            replace(CLEAR, concerns=(concern,), feature="authority_markers", follows=0.4, without=Changed(0.5, 9, 2, 6))
            for concern in get_args(Concern)
        ),
    ],
)
def test_the_first_lines_are_short_and_without_numbers_of_the_method(facts):
    """Those numbers are in the details, which the page and ``--why`` have."""
    verdict = verdict_on(facts)
    assert len(verdict.sentence.split()) <= 25, verdict.sentence
    first = verdict.lines()[:-1]
    assert not OF_THE_PAPER.search("\n".join(first)), first
    assert len([line for line in first if line.startswith("  - ")]) <= 3
    assert len([line for line in first if line.startswith("        ")]) <= 1, "one command"
    everything = "\n".join(verdict.lines(everything=True))
    assert all(reason.sentence in everything and reason.detail in everything for reason in verdict.reasons)
    assert everything.count(verdict.sentence) == 1


def test_every_departure_from_the_plain_average_is_named_with_its_size():
    facts = replace(
        REMOVED,
        duplicates=(("a", "b"),),
        weak=("c",),
        factor_share=0.4,
        plain_average=Changed(0.95, 9, 2, 6),
    )
    everything = "\n".join(verdict_on(facts).lines(everything=True))
    for named in (
        "a and b give nearly identical scores",
        "c agrees with no other judge",
        "CARE has removed that effect",
    ):
        assert named in everything
    assert "2 of the top 6 items would not be in the top 6 by the plain average." in everything
    assert "40 % of the estimate is the judges' common factor" in everything


@pytest.mark.parametrize(
    ("changed", "begins"),
    [
        (Changed(0.996, 5, 0, 10), "The plain average of the judges gives nearly the same"),
        (Changed(0.995, 5, 0, 10), "5 items would be in the other half"),
        (Changed(0.999, 0, 1, 10), "1 of the top 10 items"),
        (Changed(float("nan"), 9, 2, 6), "The plain average gives every item the same"),
    ],
)
def test_the_difference_from_the_plain_average_is_counted(changed, begins):
    (reason,) = topics(replace(CLEAR, plain_average=changed), "plain average")
    assert reason.sentence.startswith(begins)
    assert "nan" not in str(reason)


def test_an_ambiguous_panel_is_the_plain_average_until_labels_decide():
    assert "the estimate is the plain average" in str(topics(AMBIGUOUS, "plain average")[0])
    assert topics(replace(AMBIGUOUS, labels=LABELS), "plain average") == []
    assert topics(replace(CLEAR, labels=replace(LABELS, turned=-0.9)), "labels") == [], "they contradict the judges"


@pytest.mark.parametrize(
    ("weak", "names"),
    [
        (replace(LABELS, labels=4), "too few to decide"),
        (replace(LABELS, better=0.6), "60 %"),
        (replace(LABELS, at_random=0.8), "unrelated"),
    ],
)
def test_few_or_unsure_labels_settle_nothing(weak, names):
    facts = replace(AMBIGUOUS, labels=weak)
    assert names in " ".join(reason.sentence for reason in verdict_on(facts).reasons)
    assert verdict_on(facts).state == ("ambiguous" if weak.at_random == 0 else "settled by labels")


def test_labels_that_do_not_agree_with_the_scores_make_a_clear_estimate_one_to_check():
    verdict = verdict_on(replace(CLEAR, labels=replace(LABELS, at_random=0.46)))
    assert verdict.pill == "Check"
    assert "46 %" in verdict.first_reasons[0]


def test_a_fit_that_waits_for_judges_is_not_to_be_accepted():
    """The next run builds another fit."""
    held = {"blocking_checks": ("7.9% are missing",), "incomplete_judges": ("ann",)}
    (step,) = verdict_on(CLEAR, **held).next_steps
    assert step.sentence.startswith("Make sure that the judges named answer, then ")
    assert step.command == REMEDIES.again.command
    assert verdict_on(CLEAR, blocking_checks=("7.9% are missing",)).next_steps == (REMEDIES.decide,)


@pytest.mark.parametrize(
    ("facts", "first", "last"),
    [
        (CLEAR, "Use.", "To be surer, label."),
        (REMOVED, "If the number of words is not part of quality, use.", "Otherwise, or if you do not know, label."),
        (replace(CLEAR, concerns=("few items",)), "Score more items, and fit again.", "Or label."),
        (replace(CLEAR, concerns=("few judges",)), "Add judges of other kinds, and fit again.", "Or label."),
        (AMBIGUOUS, "Label.", "Label."),
    ],
)
def test_the_next_steps_end_with_one_command(facts, first, last):
    steps = verdict_on(facts).first_steps
    assert (steps[0].sentence, steps[-1].sentence) == (first, last)
    assert steps[-1].command == "care label"


def test_the_last_line_states_the_condition():
    assert "(state: clear if the number of words is not part of quality; fit e1" in str(verdict_on(REMOVED))


@pytest.mark.parametrize(
    ("needs", "names"), [("labels", "1 (pass) and 0 (fail)"), ("votes", "care judges report"), ("cut", "--cut VALUE")]
)
def test_an_open_gate_names_the_command_that_decides_it(needs, names):
    (reason,) = topics(replace(CLEAR, gate_needs=needs), "labels")
    assert names in reason.sentence


def test_a_followed_feature_is_declared_by_its_name():
    facts = replace(CLEAR, concerns=("feature",), feature="sentences", follows=0.4)
    assert "--not-quality sentences" in verdict_on(facts).next_steps[0].sentence


def test_a_failed_fit_is_not_to_be_repeated_as_it_is():
    (step,) = verdict_on(replace(CLEAR, failure="care: all 4 judges give the same scores")).next_steps
    assert step.sentence == "Fix what the first sentence names, then again."


def test_lacking_texts_are_asked_for():
    (reason,) = topics(replace(AMBIGUOUS, blind=True), "followed")
    assert "--items" in reason.detail
    assert topics(AMBIGUOUS, "followed") == []


def test_a_feature_that_the_estimate_hardly_follows_is_not_suspected():
    facts = replace(CLEAR, feature="words", follows=0.05, followed=(FollowedFeature(0, "characters", 0.7, 0.1),))
    assert "hardly does" in topics(facts, "followed")[0].sentence


def test_a_fit_of_an_earlier_release_claims_nothing_about_the_estimate():
    (reason,) = topics(replace(CLEAR, followed=(FollowedFeature(0, "characters", 0.7),)), "followed")
    assert reason.sentence == "Several judges follow the number of characters."


def test_an_estimate_that_follows_a_feature_which_care_does_not_remove_is_to_be_checked():
    """Six judges that add points for emoji were called clear, and the verdict stated the opposite."""
    facts = replace(CLEAR, feature="words", follows=-0.1, followed=(FollowedFeature(0, "emoji", 0.85, 0.85),))
    assert verdict_on(facts).pill == "Check"
    assert "follows the number of emoji" in verdict_on(facts).first_reasons[0]


def test_dead_and_odd_judges_are_named_first_or_gathered():
    dead = JudgeFacts("mute", admitted=False, reason="degenerate", entropy=0.0)
    assert verdict_on(replace(CLEAR, judges=(*JUDGES, dead))).reasons[0].judges == ("mute",)
    two = verdict_on(replace(CLEAR, judges=(*JUDGES, dead, replace(dead, judge="dumb")))).reasons[0]
    assert two.judges == ("mute", "dumb")
    odd = tuple(JudgeFacts(f"odd{k}", admitted=True, notes="it is odd") for k in range(40))
    (suspects,) = topics(replace(CLEAR, judges=(*JUDGES, *odd)), "suspect judge")
    assert "40 judges" in suspects.sentence
    assert "36 more" in suspects.sentence
    assert suspects.detail.count("it is odd") == 40


def test_a_judge_is_suspect_and_never_to_be_dropped_for_its_weight():
    odd = JudgeFacts("odd", admitted=True, weight=-0.2, weight_hi=-0.05)
    unsure = JudgeFacts("unsure", admitted=True, weight=-0.02, weight_hi=0.1)
    (suspect,) = topics(replace(CLEAR, judges=(*JUDGES, odd, unsure)), "suspect judge")
    assert suspect.judges == ("odd",)
    assert "no reason to drop it" in suspect.sentence


def test_duplicates_are_not_counted_as_independent_judges():
    facts = replace(CLEAR, judges=(*JUDGES, replace(JUDGES[0], judge="e")), duplicates=(("a", "b", "c"),))
    assert "Only 3 judges score independently" in verdict_on(replace(facts, concerns=("few judges",))).sentence


@pytest.mark.parametrize(("share", "side", "shown"), [(0.8, "left", "80 %"), (0.3, "right", "70 %")])
def test_judges_who_choose_by_the_side_are_named_with_it(share, side, shown):
    (reason,) = topics(replace(CLEAR, sides=Sides(share, True, {0: share, 2: share}, known=True)), "followed")
    assert (side in reason.sentence, shown in reason.sentence) == (True, True)
    assert reason.judges == ("a", "c")


def test_groups_of_judges_that_share_no_item_are_named():
    values = np.full((20, 4), np.nan)
    values[:10, :2] = values[10:, 2:] = np.arange(20.0).reshape(10, 2)
    scores = ScoreMatrix(values, tuple(f"i{k:02}" for k in range(20)), ("a", "b", "c", "d"), {})
    message = reasons.too_few(scores, [], loosen="Loosen.", declare="Declare.")
    assert "2 groups that share no item: a, b (2 judges, 10 items); c, d (" in message


@pytest.mark.parametrize(("left", "pill"), [(1, "Use"), (2, "Check")])
def test_where_many_judges_look_misaligned_it_may_be_the_others(left, pill):
    """No score can tell which of two groups has moved."""
    shifted = "misaligned: agreement +0.13 becomes +0.65 when its rows are shifted by 1"
    judges = tuple(
        replace(CLEAR.judges[0], judge=f"j{k}", admitted=k >= left, reason=shifted if k < left else None)
        for k in range(8)
    )
    verdict = verdict_on(replace(CLEAR, judges=judges))
    assert verdict.pill == pill
    assert any("fix the rows first" in reason.sentence for reason in verdict.reasons) == (pill == "Check")
