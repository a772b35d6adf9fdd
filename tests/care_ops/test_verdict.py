"""The rules that lead from facts to a verdict, and the facts that are computed for it alone."""

import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.doubt import Changed, Doubt
from care_ops.records import Influence
from care_ops.results import reasons
from care_ops.results.decide import Standing, decide
from care_ops.results.fit_facts import FitFacts, FollowedFeature, JudgeFacts, LabelEvidence, ProbeEvidence
from care_ops.results.settled import probability_settled
from care_ops.results.sides import Sides
from care_ops.results.verdict import Reason, Remedies, Step
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
        (CLEAR, Standing(), "clear", "Use. 4 judges allow one answer for 60 items"),
        (AMBIGUOUS, Standing(), "ambiguous", "Don't use yet. Two sensible ways to combine your judges rank"),
        (replace(AMBIGUOUS, rival=0.2), Standing(), "ambiguous", "Don't use yet. Your judges split into camps"),
        (replace(AMBIGUOUS, labels=LABELS), Standing(), "settled by labels", "Use. 12 labels by people have settled"),
        (replace(CLEAR, labels=LABELS), Standing(), "clear", "Use. 4 judges"),
        (
            replace(CLEAR, labels=replace(LABELS, turned=0.3)),
            Standing(),
            "ambiguous",
            "Don't use yet. Your labels contra",
        ),
        (replace(AMBIGUOUS, labels=replace(LABELS, turned=0.3)), Standing(), "settled by labels", "Use. 12 labels"),
        (
            replace(AMBIGUOUS, labels=replace(LABELS, turned=-0.8)),
            Standing(),
            "ambiguous",
            "Don't use yet. Your labels",
        ),
        (
            replace(CLEAR, doubts=("opposed",), labels=replace(LABELS, turned=-0.8)),
            Standing(),
            "settled by labels",
            "Use. 12 labels",
        ),
        (
            replace(CLEAR, feature="words", taken_off=("words",), kept=Changed(0.95, 9, 2, 6)),
            Standing(),
            "clear if",
            "Check. 4 judges allow one answer for 60 items, if the number of words is no part of quality.",
        ),
        (
            replace(CLEAR, feature="words", taken_off=("words",), kept=Changed(0.95, 9, 2, 6), labels=LABELS),
            Standing(),
            "settled by labels",
            "Use. 12 labels by people have settled",
        ),
        (
            replace(CLEAR, doubts=("kin",)),
            Standing(),
            "clear if",
            "Check. 4 judges allow one answer for 60 items, if what one family shares beyond the others is its taste",
        ),
        (
            replace(CLEAR, feature="words", taken_off=("words",), kept=Changed(0.9999, 1, 0, 6)),
            Standing(),
            "clear",
            "Use. 4 judges allow one answer for 60 items, and nothing seen in scores or texts would turn it.",
        ),
        (
            replace(CLEAR, doubts=("families",), families=1),
            Standing(),
            "ambiguous",
            "Don't use yet. All your judges were declared one family",
        ),
        (
            replace(AMBIGUOUS, probes=ProbeEvidence(0.93, ("padded: quality kept", "facts exchanged: quality spoilt"))),
            Standing(),
            "settled by probes",
            "Use. Probes have settled which answer is right, if what was declared of them is true.",
        ),
        (
            replace(AMBIGUOUS, probes=ProbeEvidence(0.6, ("padded: quality kept",))),
            Standing(),
            "ambiguous",
            "Don't use yet. Two sensible ways",
        ),
        (CLEAR, Standing(stale=(Reason("stale", "The source changed."),)), "stale", "Waiting. The source changed."),
        (
            CLEAR,
            Standing(failures=("No.",), stale=(Reason("stale", "Old."),), held_back=("Drift.",)),
            "failed",
            "Failed. No.",
        ),
        (
            CLEAR,
            Standing(held_back=("it drifts",), held_edition="e2", held_made_at="2026-11-23T03:15:00+00:00"),
            "held back",
            "Waiting. A new fit waits for you: it drifts.",
        ),
        (
            CLEAR,
            Standing(held_back=("it lacks",), changes=("6 items came",), owing=("ann", "bob")),
            "held back",
            "Waiting. A new fit waits for you: not every item has been scored yet by ann, bob; 6 items came.",
        ),
        (None, Standing(), "stale", "Waiting. No fit has been made yet."),
        (replace(CLEAR, judges=JUDGES[:2]), Standing(), "failed", "Failed. Two judges (a, b) can be heard"),
        (replace(CLEAR, failure="too few items"), Standing(), "failed", "Failed. There is no answer to judge"),
    ],
)
def test_a_state_follows_from_the_facts(facts, standing, state, begins):
    verdict = decide(facts, standing, REMEDIES)
    assert (verdict.state, verdict.headline[: len(begins)]) == (state, begins)
    assert verdict.next_steps
    assert str(verdict).startswith(verdict.headline)


def test_a_fit_that_waits_for_judges_is_not_to_be_accepted():
    """As on a night on which no endpoint answers: the next run makes another fit."""
    held = Standing(held_back=("7.9% are missing",), owing=("ann",))
    (step,) = decide(CLEAR, held, REMEDIES).next_steps
    assert step.sentence.startswith("Make sure that the judges named answer, then ")
    assert step.command == REMEDIES.again.command
    (step,) = decide(CLEAR, replace(held, owing=()), REMEDIES).next_steps
    assert step == REMEDIES.decide


def test_families_in_doubt_without_texts_are_not_said_to_lead_to_another_answer():
    seen = decide(replace(CLEAR, doubts=("families",), families=4), Standing(), REMEDIES)
    assert "other declarations lead to other answers" in seen.sentence
    unseen = decide(replace(CLEAR, doubts=("families",), families=4, blind=True), Standing(), REMEDIES)
    assert "other answers" not in unseen.sentence
    assert "without texts" in unseen.sentence
    assert any("--items" in reason.detail for reason in unseen.reasons)


def test_where_the_scores_give_no_answer_it_is_not_advised_to_fit_them_again_as_they_are():
    (step,) = decide(replace(CLEAR, failure="care: all 4 judges say the same thing"), Standing(), REMEDIES).next_steps
    assert "by the same judges and scores the answer stays the same" in step.sentence
    flat = decide(replace(CLEAR, beside_mean=Changed(float("nan"), 9, 2, 6)), Standing(), REMEDIES)
    assert "nan" not in "\n".join(flat.lines(everything=True))


OF_THE_PAPER = re.compile(r"\d\.\d|factor|correlat|edition|eigen|rival|Q = 1", re.IGNORECASE)


def test_texts_of_which_nothing_counted_differs_are_not_said_to_be_lacking():
    said = decide(CLEAR, Standing(), REMEDIES).sentence
    assert "nothing counted in the texts differs" in said
    assert "without texts" not in said
    assert "without texts" in decide(replace(CLEAR, blind=True), Standing(), REMEDIES).sentence


@pytest.mark.parametrize(
    "facts",
    [
        CLEAR,
        replace(CLEAR, blind=True, feature="words"),
        AMBIGUOUS,
        replace(AMBIGUOUS, rival=0.2, parted_by="authority_markers"),
        replace(AMBIGUOUS, parted_by="authority_markers"),
        replace(AMBIGUOUS, agreement=0.99, misfit=0.13),
        replace(AMBIGUOUS, labels=LABELS),
        replace(CLEAR, labels=replace(LABELS, turned=-0.9)),
        replace(CLEAR, doubts=("families",), families=1),
        replace(CLEAR, doubts=("copies",), copies=(("a", "b"), ("c", "d", "e"))),
        replace(AMBIGUOUS, probes=ProbeEvidence(0.93, ("padded: quality kept",))),
        *(
            replace(CLEAR, doubts=(doubt,), feature="authority_markers", follows=0.4, without=Changed(0.5, 9, 2, 6))
            for doubt in get_args(Doubt)
        ),
    ],
)
def test_what_a_fit_says_first_is_short_and_in_everyday_words(facts):
    """Numbers of the paper stand in the details, which the page and ``--why`` have."""
    verdict = decide(facts, Standing(), REMEDIES)
    assert len(verdict.sentence.split()) <= 20, verdict.sentence
    first = verdict.lines()[:-1]
    assert not OF_THE_PAPER.search("\n".join(first)), first
    assert len([line for line in first if line.startswith("  - ")]) <= 3
    assert len([line for line in first if line.startswith("        ")]) <= 1, "one command"
    everything = "\n".join(verdict.lines(everything=True))
    assert all(reason.sentence in everything and reason.detail in everything for reason in verdict.reasons)


def test_the_gravest_doubt_is_said_once_and_its_numbers_where_everything_is_asked_for():
    verdict = decide(replace(AMBIGUOUS, rival=0.2), Standing(), REMEDIES)
    assert "\n".join(verdict.lines(everything=True)).count(verdict.sentence) == 1
    assert "only +0.20 with the answer" in "\n".join(verdict.lines(everything=True))
    assert "+0.20" not in str(verdict)


@pytest.mark.parametrize("weak", [replace(LABELS, labels=4), replace(LABELS, probability=0.6)])
def test_few_labels_or_unsure_ones_settle_nothing_and_are_told(weak):
    verdict = decide(replace(AMBIGUOUS, labels=weak), Standing(), REMEDIES)
    assert verdict.state == "ambiguous"
    assert f"{weak.labels} labels have not settled it" in str(verdict)


def test_labels_that_follow_nothing_or_contradict_are_not_said_to_agree():
    at_random = decide(replace(CLEAR, labels=replace(LABELS, at_random=0.8)), Standing(), REMEDIES)
    assert "12 labels have little to do with what your judges say" in str(at_random)
    against = decide(replace(CLEAR, labels=replace(LABELS, turned=-0.9)), Standing(), REMEDIES)
    assert "agree with the answer" not in "\n".join(against.lines(everything=True))


def test_what_nobody_may_overlook_stands_first():
    judges = (*JUDGES[:3], JudgeFacts("mute", admitted=False, reason="degenerate", entropy=0.0))
    verdict = decide(replace(AMBIGUOUS, judges=judges), Standing(), REMEDIES)
    assert [reason.topic for reason in verdict.reasons] == ["dead judge", "few judges", "ambiguity"]
    assert "Judge 'mute' is dead" in verdict.lines()[1]
    assert "there are only three judges" in verdict.lines()[2]
    two = decide(replace(CLEAR, judges=(*JUDGES, judges[3], replace(judges[3], judge="dumb"))), Standing(), REMEDIES)
    (dead,) = two.reasons[:-1]
    assert dead.sentence == "2 judges are dead, and are left out: mute, dumb."
    assert dead.judges == ("mute", "dumb")


def test_a_judge_is_suspect_and_never_to_be_dropped_for_its_weight():
    odd = JudgeFacts("odd", admitted=True, weight=-0.2, weight_hi=-0.05)
    unsure = JudgeFacts("unsure", admitted=True, weight=-0.02, weight_hi=0.1)
    verdict = decide(replace(CLEAR, judges=(*JUDGES, odd, unsure)), Standing(), REMEDIES)
    (suspect,) = [reason for reason in verdict.reasons if reason.topic == "suspect judge"]
    assert suspect.judges == ("odd",)
    assert "no reason to drop it" in suspect.sentence


def test_a_sentence_names_the_doubt_that_there_is():
    alike = replace(CLEAR, doubts=("several answers",), agreement=0.99, misfit=0.13)
    everything = "\n".join(decide(alike, Standing(), REMEDIES).lines(everything=True))
    assert "correlations of judges unexplained, by 0.13" in everything
    opposed = replace(CLEAR, doubts=("opposed", "feature"), feature="words", follows=0.6, without=Changed(0.5, 9, 2, 6))
    said = "\n".join(decide(opposed, Standing(), REMEDIES).lines(everything=True))
    assert "The answer follows the number of words" in said
    assert "no part of quality, 9 of 60 items change halves" in said
    few = decide(replace(CLEAR, judges=JUDGES[:3], doubts=("few judges",)), Standing(), REMEDIES)
    assert str(few).count("share a mistake") == 1


def test_an_answer_that_hardly_follows_the_texts_is_not_suspected_of_it():
    facts = replace(CLEAR, feature="words", follows=0.05, followed=(FollowedFeature(0, "characters", 0.7),))
    _, reason = decide(facts, Standing(), REMEDIES).reasons
    assert "the answer hardly does" in reason.sentence
    assert "may be that" not in reason.sentence
    _, reason = decide(replace(facts, follows=0.6), Standing(), REMEDIES).reasons
    assert "may be that" in reason.sentence


def test_what_is_clear_if_a_feature_counts_says_how_to_declare_that_it_does_not():
    facts = replace(CLEAR, doubts=("feature",), feature="sentences", follows=0.4)
    verdict = decide(facts, Standing(), REMEDIES)
    assert verdict.sentence.startswith("The answer follows the number of sentences: use it only if")
    assert "--not-quality sentences" in verdict.next_steps[0].sentence


def test_many_judges_that_deserve_a_look_are_one_reason():
    odd = tuple(JudgeFacts(f"odd{k}", admitted=True, notes="it is odd") for k in range(40))
    verdict = decide(replace(CLEAR, judges=(*JUDGES, *odd)), Standing(), REMEDIES)
    (suspects,) = [reason for reason in verdict.reasons if reason.topic == "suspect judge"]
    assert suspects.sentence == "40 judges deserve a look: odd0, odd1, odd2, odd3 and 36 more."
    assert len(suspects.judges) == 40
    assert suspects.detail.count("it is odd") == 40


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


@pytest.mark.parametrize(
    ("judges", "moved", "together", "begins"),
    [
        (9, {"a": 5, "b": 4, "c": 2}, ("a",), None),
        (10, {"a": 5, "b": 4, "c": 2}, ("a",), "Any one of a, b could change half of the best 8 items"),
        (12, {"a": 5, "b": 3}, ("a",), "a alone could change half of the best 8 items"),
        (20, {"a": 3, "b": 3}, ("a", "b"), "a, b together could change half of the best 8 items"),
        (19, {"a": 3, "b": 3}, ("a", "b"), None),
        (4, {"a": 3, "b": 3}, (), None),
    ],
)
def test_who_could_move_the_best_items_is_a_reason_where_few_suffice(judges, moved, together, begins):
    panel = tuple(JudgeFacts(f"j{k}", admitted=True) for k in range(judges))
    facts = replace(CLEAR, judges=panel, influence=Influence(moved, {}, 8, together, 5, 80))
    said = [reason.sentence for reason in decide(facts, Standing(), REMEDIES).reasons if reason.topic == "influence"]
    assert [sentence.startswith(begins) for sentence in said] == ([] if begins is None else [True])


NO_SIGNAL = "See whether all judges scored these items, and on one question; or take other judges."


def test_the_next_step_goes_on_from_the_sentence():
    taste = replace(CLEAR, feature="words", taken_off=("words",), kept=Changed(0.95, 9, 2, 6))
    few_items = replace(CLEAR, items=40, doubts=("few items",))
    few_judges = replace(CLEAR, judges=JUDGES[:3], doubts=("few judges",))
    steps = [
        (CLEAR, ["Use.", "To be surer, label."]),
        (taste, ["If that is so, use.", "If not, or if nobody can say, label."]),
        (few_items, ["Score more items, and fit again.", "Or label."]),
        (replace(CLEAR, doubts=("no common signal",)), [NO_SIGNAL, "Or label."]),
        (few_judges, ["Add judges of other kinds, and fit again.", "Or label."]),
    ]
    for facts, sentences in steps:
        verdict = decide(facts, Standing(), REMEDIES)
        assert [step.sentence for step in verdict.first_steps] == sentences
        assert verdict.first_steps[-1].command == "care label"


def test_judges_without_a_common_signal_are_not_told_twice_that_some_may_be_reversed():
    lost = replace(CLEAR, doubts=("no common signal", "opposed"), signal=0.02)
    verdict = decide(lost, Standing(), REMEDIES)
    assert verdict.sentence == (
        "Your judges hardly agree with one another, or some scales are reversed, so there is nothing to combine."
    )
    assert "the other way round" not in str(verdict.reasons)
    assert "reversed" not in decide(replace(lost, doubts=("no common signal",)), Standing(), REMEDIES).sentence


@pytest.mark.parametrize(("share", "side", "told"), [(0.8, "left", "80 %"), (0.3, "right", "70 %")])
def test_who_chooses_by_the_side_is_told_with_the_side_that_is_chosen(share, side, told):
    said = reasons._by_the_side(Sides(share, True, {0: share, 2: share}, known=True), "abcd")
    assert said.sentence.startswith(
        f"2 of 4 judges plainly choose the {side} answer more often, all together in {told}"
    )
    assert said.judges == ("a", "c")


@pytest.mark.parametrize(
    ("changed", "begins"),
    [
        (Changed(0.996, 5, 0, 10), "The plain mean of the judges would order the items nearly the same"),
        (Changed(0.995, 5, 0, 10), "5 items stand in another half"),
        (Changed(0.5, 0, 0, 10), "The plain mean of the judges would order the items nearly the same"),
        (Changed(0.999, 0, 1, 10), "1 of the best 10 items is not among the best"),
        (Changed(0.999, 0, 2, 10), "2 of the best 10 items are not among the best"),
    ],
)
def test_what_aggregating_has_changed_is_told(changed, begins):
    assert reasons._beside_the_mean(changed).sentence.startswith(begins)


def test_what_to_do_about_what_is_stale_or_was_never_made_is_to_make_it():
    """Also where the fit before would have had another remedy."""
    stale = decide(AMBIGUOUS, Standing(stale=(Reason("stale", "Its scores have changed."),)), REMEDIES)
    assert (stale.state, stale.next_steps) == ("stale", (REMEDIES.again,))
    assert decide(None, Standing(), REMEDIES).next_steps == (REMEDIES.again,)


@pytest.mark.parametrize("doubt", ["copies", "counted once"])
def test_of_several_groups_of_copies_the_first_is_named_which_is_the_one_that_is_meant(doubt):
    copies = (("a", "b"), ("c", "d", "e"))
    said = reasons._doubted(replace(AMBIGUOUS, copies=copies, doubts=(doubt,)), doubt)
    assert "a, b " in said.sentence
    assert said.judges == copies[0]


def test_a_verdict_in_a_terminal_ends_with_what_to_do_next_and_by_which_command():
    lines = decide(AMBIGUOUS, Standing(), REMEDIES).lines()
    assert "  Next: Label." in lines
    assert lines[lines.index("  Next: Label.") + 1].strip() == "care label"


def test_who_was_counted_once_is_no_voice_more():
    """Of five judges three are copies of one another, which leaves three that speak for themselves."""
    facts = replace(CLEAR, judges=(*JUDGES, replace(JUDGES[0], judge="e")), copies=(("a", "b", "c"),))
    verdict = decide(replace(facts, doubts=("few judges",)), Standing(), REMEDIES)
    assert verdict.sentence.startswith("Only 3 judges speak for themselves")


def test_few_labels_are_no_reason_to_be_surer_than_nine_in_ten():
    """By ten correct labels the answer was the right one on 26 of 29 panels of which the model said .99."""
    said = {}
    for labels, probability in [(12, 0.85), (12, 0.999), (20, 0.999)]:
        facts = replace(
            CLEAR, doubts=("several answers",), labels=replace(LABELS, labels=labels, probability=probability)
        )
        reasons = decide(facts, Standing(), REMEDIES).reasons
        said[labels, probability] = next(reason.sentence for reason in reasons if reason.topic == "labels")
    assert "85 %" in said[12, 0.85]
    assert "about 90 %" in said[12, 0.999]
    assert "above 99 %" in said[20, 0.999]


def test_a_column_that_is_no_judge_is_named_with_what_it_looks_like():
    length = JudgeFacts("len", admitted=True, looks_like="a count of characters")
    verdict = decide(replace(CLEAR, judges=(*JUDGES, length)), Standing(), REMEDIES)
    (said,) = [reason for reason in verdict.reasons if reason.topic == "no judge"]
    assert said.sentence == "Column 'len' looks like a count of characters, not like a judge."
    assert said.judges == ("len",)


@pytest.mark.parametrize(
    ("probability", "ends"),
    [(0.6, "a probability of 60 %, which is not enough."), (0.96, "of 96 %."), (0.999, "a probability above 99 %.")],
)
def test_what_probes_say_is_a_sentence_with_how_sure_it_is(probability, ends):
    probes = ProbeEvidence(probability, ("padded: quality kept",))
    reasons_given = decide(replace(AMBIGUOUS, probes=probes), Standing(), REMEDIES).reasons
    (said,) = [reason.sentence for reason in reasons_given if reason.topic == "probes"]
    assert said.endswith(ends)


def test_influence_names_the_judges_who_could_move_the_best_items_alone_or_else_together():
    panel = tuple(JudgeFacts(f"j{k}", admitted=True) for k in range(20))

    def named(moved, together):
        facts = replace(CLEAR, judges=panel, influence=Influence(moved, {}, 8, together, 5, 80))
        return [reason.judges for reason in decide(facts, Standing(), REMEDIES).reasons if reason.topic == "influence"]

    assert named({"j0": 5, "j1": 4, "j2": 1}, ("j0",)) == [("j0", "j1")]
    assert named({"j0": 3, "j1": 3}, ("j0", "j1")) == [("j0", "j1")]


def test_two_judges_that_deserve_a_look_are_one_reason_with_what_is_odd_about_each():
    odd = (
        JudgeFacts("b1", admitted=True, notes="it is late"),
        JudgeFacts("b2", admitted=True, notes="it is rude"),
    )
    verdict = decide(replace(CLEAR, judges=(*JUDGES, *odd)), Standing(), REMEDIES)
    (suspects,) = [reason for reason in verdict.reasons if reason.topic == "suspect judge"]
    assert suspects.sentence == "2 judges deserve a look: b1, b2."
    assert suspects.detail == "Judge 'b1' deserves a look: it is late. Judge 'b2' deserves a look: it is rude."


def test_where_two_groups_of_judges_share_no_item_that_is_why_none_is_admitted():
    values = np.full((20, 4), np.nan)
    values[:10, :2] = values[10:, 2:] = np.arange(20.0).reshape(10, 2)
    scores = ScoreMatrix(values, tuple(f"i{k:02}" for k in range(20)), ("a", "b", "c", "d"), {})
    said = reasons.too_few(scores, [], loosen="Loosen.", declare="Declare.")
    assert said.startswith("The judges fall into 2 groups that share no item: a, b (2 judges, 10 items); c, d (")


@pytest.mark.parametrize(("left", "pill"), [(1, "Use"), (2, "Check")])
def test_where_many_judges_look_joined_to_other_items_it_may_be_the_others_that_are(left, pill):
    """Which of two groups has moved no score can tell; one judge of many is left out, and that is all."""
    shifted = "misaligned: agreement +0.13 becomes +0.65 when its rows are shifted by 1"
    judges = tuple(
        replace(CLEAR.judges[0], judge=f"j{k}", admitted=k >= left, reason=shifted if k < left else None)
        for k in range(8)
    )
    verdict = decide(replace(CLEAR, judges=judges), Standing(), REMEDIES)
    assert verdict.pill == pill
    assert any("mend the rows first" in reason.sentence for reason in verdict.reasons) == (pill == "Check")
