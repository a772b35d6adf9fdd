"""Tests of the rules that derive a verdict from the facts of a fit, and of the verdict's sentences."""

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
REVERSED = replace(CLEAR, weak=("a",), judges=(replace(JUDGES[0], agreement=-0.2), *JUDGES[1:]))
REMOVED = replace(CLEAR, feature="words", removed=("words",), kept=Changed(0.95, 9, 2, 6))


def verdict_on(facts: FitFacts | None, **standing) -> Verdict:
    return decide(facts, FitStatus(**standing), REMEDIES)


def topics(facts: FitFacts, topic: str) -> list[Reason]:
    return [reason for reason in verdict_on(facts).reasons if reason.topic == topic]


@pytest.mark.parametrize(
    ("facts", "standing", "state", "pill", "names"),
    [
        (CLEAR, {}, "clear", "Use", ("4 judges", "60 items", "only labels", "mistake that most judges share")),
        (AMBIGUOUS, {}, "ambiguous", "Don't use yet", ("two groups",)),
        (replace(CLEAR, concerns=("alternatives",)), {}, "ambiguous", "Don't use yet", ("Two plausible ways",)),
        (replace(CLEAR, concerns=("opposed",)), {}, "ambiguous", "Don't use yet", ("in reverse",)),
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
        (replace(REMOVED, labels=LABELS), {}, "settled by labels", "Use", ("12 labels", "at least as well")),
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


def test_two_judges_that_differ_from_all_others_may_be_runs_of_one_model():
    steps = verdict_on(replace(AMBIGUOUS, groups=(("a", "c", "d"), ("b", "e")))).next_steps
    assert "If b, e are runs of one model" in steps[0].sentence
    assert "`--drop e`" in steps[0].sentence
    assert steps[1].sentence.startswith("Otherwise, label")
    assert verdict_on(AMBIGUOUS).next_steps == (REMEDIES.label,), "no group is smaller"
    second = replace(AMBIGUOUS, groups=(("a", "c", "d"), ("b", "e")), concerns=("alternatives", "two groups"))
    assert verdict_on(second).next_steps == (REMEDIES.label,), "another concern comes first"


def test_the_first_screen_names_the_two_groups_and_mentions_undecided_labels():
    few = replace(AMBIGUOUS, labels=replace(LABELS, better=0.5))
    assert "One group: a, b. The other group: c, d." in verdict_on(AMBIGUOUS).first_reasons
    assert verdict_on(AMBIGUOUS).sentence.endswith("scores cannot tell which group is right.")
    assert verdict_on(few).sentence.endswith("your labels do not yet show which group is right.")


def test_a_reversed_scale_can_be_declared_on_an_ambiguous_panel():
    reversed_ = tuple(replace(x, agreement=-0.6) for x in JUDGES[:2])
    facts = replace(CLEAR, concerns=("opposed",), judges=(*reversed_, *JUDGES[2:]))
    (step, *_) = verdict_on(facts).next_steps
    assert "`--scale a=HIGHEST:LOWEST --scale b=HIGHEST:LOWEST`" in step.sentence


def test_a_judge_that_looks_like_another_column_and_possible_copies_are_named():
    judge = replace(JUDGES[1], looks_like="row numbers")
    (reason,) = topics(replace(CLEAR, judges=(JUDGES[0], judge, *JUDGES[2:])), "no judge")
    assert (reason.judges, "row numbers" in reason.sentence) == (("b",), True)
    copies = replace(CLEAR, concerns=("duplicates",), perhaps_duplicates=("a", "b"))
    for facts, judges in ((copies, ("a", "b")), (replace(copies, concerns=("one family",)), ())):
        assert verdict_on(facts).reasons[0].judges == judges


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
    """The page and ``--why`` show these numbers as details."""
    verdict = verdict_on(facts)
    assert len(verdict.sentence.split()) <= 25, verdict.sentence
    first = verdict.lines()
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


@pytest.mark.parametrize(
    ("weak", "names"),
    [
        (replace(LABELS, labels=4), "cannot decide"),
        (replace(LABELS, better=0.6), "60 %"),
        (replace(LABELS, at_random=0.8), "unrelated"),
    ],
)
def test_few_or_unsure_labels_settle_nothing(weak, names):
    facts = replace(AMBIGUOUS, labels=weak)
    assert names in " ".join(reason.sentence for reason in verdict_on(facts).reasons)
    assert verdict_on(facts).state == "ambiguous"


def test_labels_that_do_not_agree_with_the_scores_make_a_clear_estimate_one_to_check():
    verdict = verdict_on(replace(CLEAR, labels=replace(LABELS, at_random=0.46)))
    assert verdict.pill == verdict_on(followed(0.85, correlation=0.85)).pill == "Check"
    assert "46 %" in verdict.first_reasons[0]


def test_a_fit_that_waits_for_judges_is_not_to_be_accepted():
    """The next run builds another fit."""
    held = {"blocking_checks": ("7.9% are missing",), "incomplete_judges": ("ann",)}
    (step,) = verdict_on(CLEAR, **held).next_steps
    assert step.sentence.startswith("Check that these judges answer, then ")
    assert step.command == REMEDIES.again.command
    assert verdict_on(CLEAR, blocking_checks=("7.9% are missing",)).next_steps == (REMEDIES.decide,)


@pytest.mark.parametrize(
    ("facts", "first", "last"),
    [
        (CLEAR, "Use.", "To be more certain, label."),
        (REMOVED, "If the number of words is not part of quality, use.", "Otherwise, or if you do not know, label."),
        (replace(CLEAR, concerns=("few items",)), "Score more items, and fit again.", "Or label."),
        (replace(CLEAR, concerns=("few judges",)), "Add judges of other kinds, and fit again.", "Or label."),
        (AMBIGUOUS, "Label.", "Label."),
        (replace(CLEAR, labels=replace(LABELS, labels=59)), "Use.", "To be more certain, label."),
        (replace(CLEAR, concerns=("no common signal",)), "Check that all judges scored the same items", "Or label."),
    ],
)
def test_the_next_steps_end_with_one_command(facts, first, last):
    steps = verdict_on(facts).first_steps
    assert steps[0].sentence.startswith(first)
    assert steps[-1] == Step(last, "care label")
    assert ("`--feature COLUMN`" in " ".join(step.sentence for step in steps)) == (verdict_on(facts).state == "clear")


def test_two_groups_that_a_declared_feature_does_not_explain_say_so():
    assert "even without the number of words;" in verdict_on(replace(AMBIGUOUS, not_quality=("words",))).sentence


@pytest.mark.parametrize(
    ("facts", "steps"),
    [
        (replace(CLEAR, labels=replace(LABELS, labels=60)), ["Use."]),
        (replace(REVERSED, labels=replace(LABELS, labels=60)), ["If a low score by a means good, declare", "Use."]),
        (replace(AMBIGUOUS, labels=LABELS), ["Use."]),
        (replace(CLEAR, judges=JUDGES[:2]), ["Add scores of more judges, then again."]),
        (
            replace(CLEAR, failure="all judges give the same scores"),
            ["Correct the reported error, then again."],
        ),
        (
            replace(CLEAR, trend=0.3),
            ["If the rows are sorted by quality, use.", "If the rows are in random order"],
        ),
        (None, ["Again."]),
    ],
)
def test_where_no_label_is_needed_none_is_asked_for(facts, steps):
    """Every item has a label, or labels change nothing."""
    found = [step.sentence for step in verdict_on(facts).next_steps]
    assert [sentence[: len(words)] for sentence, words in zip(found, steps, strict=True)] == steps


@pytest.mark.parametrize(
    ("commands", "shown"),
    [((None, "a", "b"), 2), (("a", "b"), 1), ((None, None), 2), ((None, "a", None), 2), ((), 0)],
)
def test_the_first_steps_end_at_the_first_command(commands, shown):
    steps = tuple(Step(f"Step {k}.", command) for k, command in enumerate(commands))
    assert Verdict("clear", "Good.", next_steps=steps).first_steps == steps[:shown]


@pytest.mark.parametrize(("count", "detail", "hidden"), [(5, "", 0), (6, "", 1), (8, "", 3), (5, "More.", 1)])
def test_hidden_reasons_are_counted(count, detail, hidden):
    """The detail of the headline's sentence counts as hidden, too."""
    others = tuple(Reason("labels", f"Reason {k}.") for k in range(count))
    verdict = Verdict("clear", "Good.", (Reason("ambiguity", "Good.", detail=detail), *others))
    written = [line for line in verdict.lines() if "more: --why" in line]
    assert written == ([f"  ({hidden} more: --why, or the page)"] if hidden else [])
    assert "more: --why" not in "".join(verdict.lines(everything=True))
    assert len(verdict.first_reasons) == min(count, 5)


def followed(of_estimate: float | None, correlation: float = 0.7) -> FitFacts:
    return replace(CLEAR, followed=(FollowedFeature(0, "emoji", correlation, of_estimate),))


@pytest.mark.parametrize(
    ("facts", "topic", "words"),
    [
        (replace(CLEAR, judges=JUDGES[:3]), "failure", None),
        (CLEAR, "independent judges", "about 2.3 independent judges (of 4)"),
        (replace(CLEAR, effective_judges=None), "independent judges", None),
        (replace(CLEAR, concerns=("no common signal",)), "independent judges", None),
        (replace(CLEAR, near_average=("a",)), "suspect judge", "a is nearly the average"),
        (replace(CLEAR, near_average=("a", "b")), "suspect judge", "a, b are nearly the average"),
        (replace(CLEAR, weak=("a",)), "weak judges", "a agrees with no other judge; the weight is 0."),
        (replace(CLEAR, weak=("a", "b")), "weak judges", "a, b agree with no other judge; the weight is 0."),
        (
            REVERSED,
            "weak judges",
            "a: the ranking is the reverse of the other judges'; the weight is 0.",
        ),
        (followed(0.5), "condition", "The estimate correlates with the number of emoji"),
        (followed(-0.5), "condition", "The estimate correlates with the number of emoji"),
        (followed(0.49), "condition", None),
        (followed(0.49), "followed", "Several judges' scores correlate with the number of emoji."),
        (followed(0.24), "followed", "but the estimate hardly does"),
        (followed(None), "followed", "Several judges' scores correlate with the number of emoji."),
        (followed(0.5, correlation=-0.5), "condition", "The estimate correlates with"),
        (followed(0.9, correlation=0.49), "condition", None),
        (replace(followed(0.9), concerns=("feature",), feature="words"), "condition", None),
        (
            replace(CLEAR, labels=replace(LABELS, turned=0.98)),
            "labels",
            "12 labels leave the estimate",
        ),
        (replace(CLEAR, labels=replace(LABELS, turned=0.97)), "labels", "with a probability of 97 %"),
        (replace(CLEAR, labels=replace(LABELS, labels=9)), "labels", "9 labels cannot decide"),
        (replace(AMBIGUOUS, labels=LABELS), "labels", "expected gain is +0.030 in Kendall's tau."),
        (replace(AMBIGUOUS, labels=replace(LABELS, better=0.995)), "labels", "a probability above 99 %"),
        (replace(AMBIGUOUS, labels=replace(LABELS, better=0.69)), "labels", "Add labels."),
        (replace(CLEAR, labels=replace(LABELS, at_random=0.2)), "condition", None),
        (replace(CLEAR, labels=replace(LABELS, at_random=0.21)), "condition", "12 labels do not confirm"),
        (replace(CLEAR, labels=replace(LABELS, labels=9, at_random=0.9)), "condition", None),
        (AMBIGUOUS, "plain average", "the estimate is the plain average"),
        (replace(AMBIGUOUS, labels=LABELS), "plain average", None),
        (replace(CLEAR, labels=replace(LABELS, turned=-0.9)), "labels", None),
        (replace(AMBIGUOUS, removed=("words",)), "plain average", "the estimate stays close to the plain average"),
        (replace(AMBIGUOUS, duplicates=(("a", "b"),)), "plain average", "the estimate stays close to the plain"),
        (replace(AMBIGUOUS, duplicates=(("a", "b", "c"),)), "duplicates", "a, b and c give nearly identical scores"),
        (replace(CLEAR, removed=("words",)), "removed effect", "Some judges reward the number of words"),
        (REMOVED, "removed effect", None),
        (REMOVED, "condition", "Some judges reward the number of words"),
        (replace(CLEAR, trend=0.24), "ambiguity", "4 judges give one ranking of 60 items"),
        (replace(CLEAR, trend=0.25), "ambiguity", "the scores rise along the file"),
        (replace(CLEAR, trend=-0.25), "ambiguity", "the scores fall along the file"),
        (replace(CLEAR, weak=("a",)), "ambiguity", "3 of 4 judges give one ranking"),
        (replace(CLEAR, blind=True), "followed", "longer answers. Add the texts of the items with `--items`"),
        (CLEAR, "followed", None),
        (replace(AMBIGUOUS, blind=True, labels=LABELS), "followed", None),
        (replace(CLEAR, always_left="base"), "condition", "base was on the left in every pair"),
        (replace(CLEAR, cautions=("It lacks a certificate.",)), "certificate", "It lacks a certificate."),
    ],
)
def test_a_reason_appears_exactly_where_its_condition_holds(facts, topic, words):
    """The cases include the limits of each condition."""
    found = list(map(str, topics(facts, topic)))
    assert len(found) == (words is not None), found
    assert words is None or words in found[0], found


def test_concerns_after_the_first_are_reasons_until_labels_settle_them():
    concerns: tuple[Concern, ...] = ("two groups", "alternatives", "feature")
    facts = replace(AMBIGUOUS, concerns=concerns, feature="words", follows=0.4, trend=0.4, agreement=0.6)
    facts = replace(facts, without=Changed(0.5, 9, 2, 6))
    found = " ".join(map(str, topics(facts, "ambiguity")))
    for words in (
        "One group: a, b. The other group: c, d.",
        "only +0.60",
        "9 of 60 items are in the other half of the ranking",
        "the scores rise along",
    ):
        assert found.count(words) == 1
    assert len(topics(facts, "ambiguity")) == 6
    assert "Another condition for use: the number of words is part of quality." in found
    (settled,) = topics(replace(facts, labels=LABELS), "ambiguity")
    assert settled.detail.startswith("Without labels: The judges form two groups")


def test_a_blocked_fit_reports_what_it_would_change():
    standing = {"blocking_checks": ("drift is high",), "changes": ("6 items came", "a judge went")}
    standing |= {"estimate_changes": ("9 items change halves", "2 are new")}
    verdict = verdict_on(CLEAR, published_version="Version e1 stays published.", **standing)
    assert verdict.sentence == "A new fit waits for your review: 6 items came; a judge went."
    assert [(reason.topic, reason.sentence) for reason in verdict.reasons[:4]] == [
        ("held back", f"Verdict on the new fit: USE. {verdict_on(CLEAR).sentence}"),
        ("held back", "9 items change halves; 2 are new."),
        ("publication", "Version e1 stays published."),
        ("held back", "Drift is high."),
    ]
    failed = verdict_on(replace(CLEAR, failure="no items"), blocking_checks=("it lacks",))
    assert failed.reasons[0].sentence == "It lacks."


def test_lost_scores_are_the_first_reason():
    lost = Reason("lost scores", "Ten scores were lost.")
    verdict = verdict_on(CLEAR, notes=(Reason("source", "It moved."), lost))
    assert verdict.reasons[0] == lost
    assert verdict.pill == "Check"
    assert verdict.state_in_words == "clear, with a warning"


def test_the_last_line_states_the_condition():
    assert (
        "(state: clear if the number of words is not part of quality; fit e1"
        in verdict_on(REMOVED).lines(everything=True)[-1]
    )
    assert "(state: " not in str(verdict_on(REMOVED)), "it is for programs"


@pytest.mark.parametrize(
    ("needs", "names"), [("labels", "1 (pass) and 0 (fail)"), ("votes", "care judges report"), ("cut", "--cut VALUE")]
)
def test_an_open_gate_names_the_command_that_decides_it(needs, names):
    (reason,) = topics(replace(CLEAR, gate_needs=needs), "labels")
    assert names in reason.sentence


def test_a_followed_feature_is_declared_by_its_name():
    facts = replace(CLEAR, concerns=("feature",), feature="sentences", follows=0.4)
    assert "--not-quality sentences" in verdict_on(facts).next_steps[0].sentence


def test_dead_and_odd_judges_are_named_first_or_gathered():
    dead = JudgeFacts("mute", admitted=False, reason="degenerate", entropy=0.0)
    assert verdict_on(replace(CLEAR, judges=(*JUDGES, dead))).reasons[0].judges == ("mute",)
    two = verdict_on(replace(CLEAR, judges=(*JUDGES, dead, replace(dead, judge="dumb")))).reasons[0]
    assert two.judges == ("mute", "dumb")
    odd = tuple(JudgeFacts(f"odd{k}", admitted=True, notes="it is odd") for k in range(40))
    (suspects,) = topics(replace(CLEAR, judges=(*JUDGES, *odd)), "suspect judge")
    assert suspects.sentence == "Check these judges: odd0, odd1, odd2, odd3 and 36 more (low agreement)."
    assert suspects.detail.count("it is odd") == 40


def test_the_first_screen_names_every_judge_to_check_once():
    """A judge that was left out, a weak one and duplicates were behind ``--why``."""
    shifted = "misaligned: agreement +0.13 becomes +0.65 when its rows are shifted 1 row up"
    odd = (
        JudgeFacts("mute", admitted=False, reason="degenerate", entropy=0.0),
        JudgeFacts("late", admitted=False, reason=shifted, entropy=1.0),
        JudgeFacts(
            "low",
            admitted=True,
            notes="agreement with the other judges is +0.05: did it answer the same question about the items?",
        ),
        JudgeFacts(
            "other", admitted=True, notes="agreement +0.3 becomes +0.6: are its rows joined to the right items?"
        ),
        JudgeFacts("upside", admitted=True, notes="agreement with the other judges is -0.50: is its scale reversed?"),
        JudgeFacts("minus", admitted=True, weight=-0.2, weight_hi=-0.05),
    )
    facts = replace(AMBIGUOUS, judges=(*JUDGES, *odd), duplicates=(("a", "b"),), weak=("low", "c"), near_average=("d",))
    notes = tuple(Reason("source", f"Note {k}.") for k in range(5))
    verdict = verdict_on(facts, notes=notes)
    assert verdict.first_reasons[0] == (
        "Check these judges: mute (left out); late (left out: misaligned); a, b (duplicates); low, c (weak); d (nearly "
        "the average of the others); other (perhaps wrong rows); upside (perhaps reversed); minus (negative weight)."
    )
    assert len(verdict.first_reasons) == 5
    assert f"Judge 'late' is left out: {shifted}." in "\n".join(verdict.lines(everything=True))
    (one,) = topics(replace(AMBIGUOUS, judges=(*JUDGES, odd[1])), "suspect judge")
    assert one.sentence == f"Judge 'late' is left out: {shifted}."


def test_a_judge_is_suspect_and_never_to_be_dropped_for_its_weight():
    odd = JudgeFacts("odd", admitted=True, weight=-0.2, weight_hi=-0.05)
    unsure = JudgeFacts("unsure", admitted=True, weight=-0.02, weight_hi=0.1)
    (suspect,) = topics(replace(CLEAR, judges=(*JUDGES, odd, unsure)), "suspect judge")
    assert suspect.judges == ("odd",)
    assert "no reason to drop a judge" in suspect.sentence


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


@pytest.mark.parametrize(("left", "judges", "pill"), [(1, 8, "Use"), (2, 8, "Check"), (1, 6, "Use"), (1, 5, "Check")])
def test_where_many_judges_look_misaligned_it_may_be_the_others(left, judges, pill):
    """Scores cannot show which of two groups of judges is misaligned."""
    shifted = "misaligned: agreement +0.13 becomes +0.65 when its rows are shifted 1 row up"
    judges = tuple(
        replace(CLEAR.judges[0], judge=f"j{k}", admitted=k >= left, reason=shifted if k < left else None)
        for k in range(judges)
    )
    verdict = verdict_on(replace(CLEAR, judges=judges))
    assert verdict.pill == pill
    assert any("check the rows of all" in reason.sentence for reason in verdict.reasons) == (pill == "Check")
