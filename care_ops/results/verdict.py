"""The verdict on a fit: its state, why it is in that state, and what to do next.

Every place that says how a fit stands (terminal, page, index, alert, ``fit.json``, database, Dagster) shows the record
that ``decide`` makes here, so that all of them say the same sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from care_ops.doubt import LEAST_AGREEMENT, MAY_BE_A_FEATURE, RIVAL, Changed, Doubt
from care_ops.errors import counted
from care_ops.least import FOLLOWS, LEAST_JUDGES, TELLING_ITEMS
from care_ops.results.coverage import Coverage
from care_ops.results.fit_facts import FitFacts, JudgeFacts

State = Literal[
    "clear",
    "clear if",
    "ambiguous",
    "too little data",
    "no common signal",
    "settled by labels",
    "settled by probes",
    "held back",
    "stale",
    "failed",
]
"""How a fit stands; ``docs/verdict.md`` explains each state to a reader."""

Topic = Literal[
    "failure",
    "held back",
    "stale",
    "few judges",
    "few scores",
    "not connected",
    "no judge",
    "dead judge",
    "ambiguity",
    "labels",
    "probes",
    "copies",
    "taken off",
    "beside the mean",
    "followed",
    "suspect judge",
    "missing scores",
    "owing judge",
    "certificate",
    "publication",
    "source",
]

_FEATURES_IN_WORDS = {
    "characters": "the number of characters",
    "words": "the number of words",
    "sentences": "the number of sentences",
    "words_per_sentence": "the words per sentence",
    "list_items": "the number of list items",
    "numbers": "the number of figures",
    "authority_markers": "the number of citations and links",
    "emoji": "the number of emoji",
    "smog": "the reading grade (SMOG)",
}
"""Names of the features of texts (``interpret.FEATURES``), each of which goes on with "of the texts"."""

_MOST_SUSPECTS = 5
"""So many judges that deserve a look are named in plain text, lest they bury what else there is to know."""

_IN_THE_SENTENCE: tuple[Topic, ...] = ("few judges", "few scores", "not connected", "no judge", "dead judge")
"""Topics that the sentence of a verdict names, because nobody should read an estimate without them."""


@dataclass(frozen=True)
class Reason:
    """One reason for a verdict, in whole sentences; ``judges`` are those that it speaks of."""

    topic: Topic
    sentence: str
    judges: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """Something to do next, and the exact command where there is one."""

    sentence: str
    command: str | None = None


@dataclass(frozen=True)
class Verdict:
    """How one fit stands.

    Attributes
    ----------
    state : State
    sentence : str
        The state and what nobody should overlook; every place that shows the verdict begins with it.
    reasons : tuple of Reason
        The most important one first.
    next_steps : tuple of Step
    edition, made_at : str or None
        Of the fit that the verdict is about: its id, and when it was made (ISO 8601). None where there is no fit.
    """

    state: State
    sentence: str
    reasons: tuple[Reason, ...] = ()
    next_steps: tuple[Step, ...] = ()
    edition: str | None = None
    made_at: str | None = None

    def __str__(self) -> str:
        """The verdict as plain text, a line for each reason and each step."""
        return "\n".join(self.lines())

    @property
    def further_reasons(self) -> list[Reason]:
        """The reasons that the sentence does not already give word for word."""
        return [reason for reason in self.reasons if reason.sentence not in self.sentence]

    def lines(self) -> list[str]:
        """The sentence, the fit that it is about, each reason, and each step with its command."""
        written = [self.sentence]
        if self.edition is not None:
            written.append(f"  fit {self.edition}, made {minute_of(self.made_at)} (UTC)")
        suspects = [reason for reason in self.further_reasons if reason.topic == "suspect judge"]
        rest = {id(reason) for reason in suspects[_MOST_SUSPECTS:]}
        written += [f"  why: {reason.sentence}" for reason in self.further_reasons if id(reason) not in rest]
        if rest:
            written.append(f"  why: {counted(len(rest), 'more judge')} deserve a look; the page says of each why.")
        for step in self.next_steps:
            written.append(f"  next: {step.sentence}")
            if step.command is not None:
                written.append(f"        {step.command}")
        return written


@dataclass(frozen=True)
class Standing:
    """What has happened to a test set since its fit was made; each text is a whole sentence.

    Attributes
    ----------
    failures : tuple of str
        What failed when it was last brought up to date.
    held_back : tuple of str
        What the checks found that hold the latest fit back.
    held_edition, held_made_at : str or None
        The fit that is held back, and when it was made.
    changes, moves : tuple of str
        What went into the fit that is held back and not into the published one, and how far its answer lies from that.
    reading : str
        What people read meanwhile.
    stale : tuple of str
        What the fit does not know yet.
    notes : tuple of Reason
        What else to know, such as judges of which single scores are lacking.
    """

    failures: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()
    held_edition: str | None = None
    held_made_at: str | None = None
    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    reading: str = ""
    stale: tuple[str, ...] = ()
    notes: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Remedies:
    """What to do where a fit was made, one entry for each occasion.

    Attributes
    ----------
    label : Step
        Label items and fit again with the labels.
    use : Step
        Read the estimates.
    again : Step
        Make the fit again.
    decide : Step
        Look at a fit that is held back, and publish it if it is right.
    """

    label: Step
    use: Step
    again: Step
    decide: Step


def minute_of(moment: str | None) -> str:
    """An ISO moment to the minute, as people read it."""
    return (moment or "")[:16].replace("T", " ")


def refusal(judges: Sequence[str]) -> str:
    """Why a panel of so few judges is refused."""
    count = ("no judge", "one judge", "two judges")[len(judges)]
    named = f" ({', '.join(judges)})" if judges else ""
    return (
        f"{count}{named} can be heard, and a panel needs three: where fewer disagree, nothing says which of "
        "them is wrong"
    )


def decide(facts: FitFacts | None, standing: Standing, remedies: Remedies) -> Verdict:
    """The verdict on a fit, or on a test set that has none yet.

    What happened last counts first: a failure, then a fit that is held back, then one that is stale, and only then what
    the fit says of itself. Where a fit is held back, the facts are those of that fit.
    """
    of_the_fit = [] if facts is None else _reasons_of(facts)
    since = _reasons_since(standing)
    state, sentence = _state(facts, standing)
    if state == "held back" and facts is not None:
        since.append(Reason("held back", f"The new fit by itself: {_state(facts, Standing())[1]}"))
    if state not in ("failed", "held back", "stale"):
        sentence = " ".join([sentence, *(r.sentence for r in of_the_fit if r.topic in _IN_THE_SENTENCE)])
    edition, made_at = (None, None) if facts is None else (facts.edition, facts.made_at)
    if state == "held back":
        edition, made_at = standing.held_edition, standing.held_made_at
    return Verdict(state, sentence, (*since, *of_the_fit), _steps(state, facts, remedies), edition, made_at)


def _state(facts: FitFacts | None, standing: Standing) -> tuple[State, str]:
    """The state, and the sentence that says so."""
    if standing.failures:
        return "failed", f"Failed: {standing.failures[0]}"
    if standing.held_back:
        return "held back", (
            f"Held back: the new fit {standing.held_edition}, made {minute_of(standing.held_made_at)}, waits for a "
            f"person: {_ended('; '.join([*standing.changes, *standing.moves]) or standing.held_back[0])} "
            f"{standing.reading}"
        )
    if facts is None:
        waiting = standing.stale[0] if standing.stale else "no fit has been made yet."
        return "stale", f"Stale: {waiting}"
    refused = _refused(facts)
    if refused is not None:
        return "failed", f"Failed: {_ended(refused)}"
    if standing.stale:
        return "stale", f"Stale: {standing.stale[0]}"
    return _state_of_fit(facts)


def _refused(facts: FitFacts) -> str | None:
    """Why the fit gives no answer that could be trusted; None where it gives one."""
    if len(facts.admitted) < LEAST_JUDGES:
        return refusal(facts.admitted)
    return None if facts.failure is None else f"there is no answer to judge ({facts.failure})"


def _state_of_fit(facts: FitFacts) -> tuple[State, str]:
    """The state of a fit that gives an answer and is up to date."""
    if not facts.doubts:
        return "clear", (
            f"Clear: {len(facts.admitted)} judges allow one answer for {facts.items:,} items, "
            + (
                "as far as scores can tell; without texts nobody sees what else the judges follow."
                if facts.feature is None
                else "and nothing that can be seen in their scores or in the texts would turn it."
            )
        )
    if facts.labels is not None and facts.labels.settles:
        return "settled by labels", (
            f"Settled by {counted(facts.labels.labels, 'label')}: with {_probability(facts.labels.probability)} what "
            "the labels allow agrees with this answer. Without labels it is not clear."
        )
    if facts.probes is not None and facts.probes.settles:
        return "settled by probes", (
            f"Settled by probes with {_probability(facts.probes.probability)}, if what was declared of them "
            f"({'; '.join(facts.probes.kinds)}) is true. Without them it is not clear."
        )
    state, sentence = _doubted(facts, facts.doubts[0])
    if facts.labels is not None:
        sentence += f" {counted(facts.labels.labels, 'label')} have not settled it."
    if facts.probes is not None:
        sentence += (
            f" Probes choose this answer with {_probability(facts.probes.probability)}, if what was declared of them "
            "is true: not surely enough."
        )
    return state, sentence


def _doubted(facts: FitFacts, doubt: Doubt) -> tuple[State, str]:
    """The state that the gravest doubt leads to, and the sentence that says so."""
    why = _why(facts, doubt)
    if doubt in ("few judges", "few items"):
        return "too little data", f"Too little data: {why}"
    if doubt == "no common signal":
        return "no common signal", f"No common signal: {why}"
    if doubt == "feature":
        return "clear if", f"Clear if {feature_in_words(str(facts.feature))} is part of quality: {why}"
    return "ambiguous", f"Ambiguous: {why}"


def _why(facts: FitFacts, doubt: Doubt) -> str:
    """What a doubt is about, as a sentence that goes on after a colon."""
    if doubt == "few judges":
        alone = len(facts.admitted) - sum(len(names) - 1 for names in facts.copies)
        return (
            f"{alone} judges speak for themselves, and four are needed: where two of three share a mistake, nothing "
            "shows it."
        )
    if doubt == "few items":
        return f"by {counted(facts.items, 'item')} the judges cannot be told apart; {TELLING_ITEMS} are needed."
    if doubt == "no common signal":
        return (
            f"the judges hardly agree with one another (each correlates with what all share by {facts.signal:+.2f} on "
            "average), so that there is nothing to aggregate."
        )
    if doubt == "feature":
        without, changed = facts.without, ""
        if without is not None:
            changed = (
                f" If that is no part of quality, {without.halves_changed:,} of {facts.items:,} items change halves of "
                "the ranking."
            )
        return (
            f"the answer follows {feature_in_words(str(facts.feature))} (correlation {facts.follows:+.2f}), and the "
            f"scores cannot say whether it should.{changed}"
        )
    if doubt == "copies":
        return "copies of one judge make up half of the panel or more, and nothing says whether they are right."
    if doubt == "opposed":
        return (
            "a quarter of the judges or more run against the others, and nothing says which side is right; look "
            "whether some scales are reversed."
        )
    if doubt == "families":
        return "the answer rests on which judges were declared one family, and other declarations lead to others."
    return f"{_difference(facts)}, and the scores alone cannot say which of them is quality."


def _difference(facts: FitFacts) -> str:
    """In what the defensible answers of an ambiguous panel differ."""
    if facts.rival is not None and abs(facts.rival) < RIVAL:
        return f"several judges follow a factor that correlates at only {facts.rival:+.2f} with the answer"
    if facts.agreement >= LEAST_AGREEMENT and facts.misfit > 0:
        return (
            "the judges share more than one thing: one common factor leaves correlations unexplained "
            f"({facts.misfit:.2f} on average)"
        )
    return (
        "the mean of the judges and the factor that they share are both defensible, and correlate at only "
        f"{facts.agreement:+.2f}"
    )


def _reasons_since(standing: Standing) -> list[Reason]:
    reasons = [Reason("failure", sentence) for sentence in standing.failures]
    reasons += [Reason("held back", _ended(sentence)) for sentence in standing.held_back]
    if standing.reading:
        reasons.append(Reason("publication", standing.reading))
    reasons += [Reason("stale", sentence) for sentence in standing.stale]
    return [*reasons, *standing.notes]


def _reasons_of(facts: FitFacts) -> list[Reason]:
    """Every reason that the fit itself gives, those of the sentence first."""
    refused = _refused(facts)
    reasons = [] if refused is None else [Reason("failure", _capital(_ended(refused)))]
    if len(facts.admitted) == LEAST_JUDGES and _state_of_fit(facts)[0] != "too little data":
        reasons.append(
            Reason(
                "few judges",
                "Caution: there are only three judges, and where two of them share a mistake nothing shows it.",
                tuple(facts.admitted),
            )
        )
    if facts.coverage is not None:
        reasons += _on_coverage(facts.coverage)
    reasons += _no_judges(facts.judges)
    reasons += _dead(facts.judges)
    if refused is None:
        reasons += _about_the_answer(facts)
    reasons += _suspects(facts.judges)
    reasons += [Reason("certificate", caution) for caution in facts.cautions]
    return reasons if facts.publication is None else [*reasons, Reason("publication", facts.publication)]


def _about_the_answer(facts: FitFacts) -> list[Reason]:
    """Why the answer is clear, ambiguous or settled, and what the judges follow."""
    reasons: list[Reason] = []
    reasons += [Reason("ambiguity", _capital(_why(facts, doubt))) for doubt in facts.doubts[1:]]
    if facts.blind and facts.doubts:
        reasons.append(
            Reason(
                "followed",
                "No text of the items is known, so nobody can see whether judges follow the length of answers or the "
                "like: give the texts too (`--items`, or the items of the test set).",
            )
        )
    for names in facts.copies:
        said = f"{', '.join(names[:-1])} and {names[-1]} say the same thing, and are counted once."
        reasons.append(Reason("copies", said, names))
    if facts.taken_off:
        features = " and ".join(feature_in_words(name) for name in facts.taken_off)
        reasons.append(
            Reason(
                "taken off", f"What single judges like about {features} beyond the others is taken off their scores."
            )
        )
    if facts.beside_mean is not None:
        reasons.append(_beside_the_mean(facts.beside_mean))
    if facts.labels is not None:
        reasons.append(
            Reason(
                "labels",
                f"By {counted(facts.labels.labels, 'label')}, answers that agree with this one have "
                f"{_probability(facts.labels.probability)}. The single most probable thing that quality follows is "
                f"{facts.labels.hypothesis}, with {_probability(facts.labels.hypothesis_probability)}.",
            )
        )
    if facts.probes is not None:
        reasons.append(
            Reason(
                "probes",
                f"The probes choose the answer with {_probability(facts.probes.probability)}, if they are what was "
                f"declared ({'; '.join(facts.probes.kinds)}).",
            )
        )
    reasons += [
        Reason(
            "followed",
            f"Factor {feature.factor + 1} of the judges follows {feature_in_words(feature.feature)} of the texts (rank "
            f"correlation {feature.correlation:+.2f}), {_so(facts)}.",
        )
        for feature in facts.followed
        if abs(feature.correlation) >= FOLLOWS
    ]
    return reasons


def _so(facts: FitFacts) -> str:
    """What follows for the answer where a factor follows a feature of the texts."""
    if facts.feature is None or abs(facts.follows) >= MAY_BE_A_FEATURE:
        return "so what looks like quality may be that"
    most = feature_in_words(facts.feature)
    return f"and the answer hardly does: what it follows most is {most}, by {facts.follows:+.2f}"


def _beside_the_mean(mean: Changed) -> Reason:
    """What aggregating changed at all."""
    if mean.top_changed == 0 and mean.correlation > 0.995:
        return Reason("beside the mean", "The plain mean of the judges would order the items nearly the same.")
    return Reason(
        "beside the mean",
        f"Beside the plain mean of the judges: rank correlation {mean.correlation:+.2f}, and "
        f"{mean.top_changed:,} of the best {mean.top:,} items are others.",
    )


def _on_coverage(coverage: Coverage) -> list[Reason]:
    """What is to be known of items with few scores, of judges that share no item, and of scores that are absent."""
    few_scores: Topic = "few scores" if coverage.mostly_few else "missing scores"
    said: list[tuple[Topic, str | None]] = [
        (few_scores, coverage.on_few_scores()),
        ("not connected", coverage.on_groups()),
        ("missing scores", coverage.on_missing_scores()),
    ]
    return [Reason(topic, sentence) for topic, sentence in said if sentence is not None]


def _no_judges(judges: Sequence[JudgeFacts]) -> list[Reason]:
    return [
        Reason("no judge", f"Column {judge.judge!r} looks like {judge.looks_like}, not like a judge.", (judge.judge,))
        for judge in judges
        if judge.looks_like is not None
    ]


def _dead(judges: Sequence[JudgeFacts]) -> list[Reason]:
    return [
        Reason("dead judge", f"Judge {judge.judge!r} is dead: {judge.dead}, and it is left out.", (judge.judge,))
        for judge in judges
        if judge.dead is not None
    ]


def _suspects(judges: Sequence[JudgeFacts]) -> list[Reason]:
    """Judges to look at. None of them is to be dropped for that: only labels can say that a judge is bad."""
    reasons: list[Reason] = []
    for judge in judges:
        if judge.dead is not None:
            continue
        name = f"Judge {judge.judge!r}"
        if not judge.admitted:
            reasons.append(Reason("suspect judge", f"{name} is left out: {_ended(str(judge.reason))}", (judge.judge,)))
        elif judge.notes is not None:
            reasons.append(Reason("suspect judge", f"{name} deserves a look: {_ended(judge.notes)}", (judge.judge,)))
        elif judge.counts_against:
            reasons.append(
                Reason(
                    "suspect judge",
                    f"{name} runs against the answer (weight {judge.weight:+.2f}): look whether its scale is reversed. "
                    "Disagreement alone is no reason to drop it.",
                    (judge.judge,),
                )
            )
    return reasons


def _steps(state: State, facts: FitFacts | None, remedies: Remedies) -> tuple[Step, ...]:
    """What to do, the most useful step first."""
    if state == "held back":
        return (remedies.decide,)
    if state == "stale" or facts is None:
        return (remedies.again,)
    if state == "failed" and len(facts.admitted) < LEAST_JUDGES:
        return (Step("Give scores of more judges, then fit again.", remedies.again.command),)
    if state == "failed":
        return (remedies.again,)
    if state == "clear if":
        return (
            Step(
                f"If {feature_in_words(str(facts.feature))} is no part of quality, declare it: `not_quality` of a fit, "
                f"which is `--not-quality {facts.feature}` at the command line."
            ),
            remedies.label,
        )
    if state in ("ambiguous", "no common signal"):
        return (remedies.label,)
    if state == "too little data":
        return (remedies.label, Step("Add judges of other kinds, or items, too."))
    return (remedies.use, remedies.label) if state == "clear" else (remedies.use,)


def _probability(value: float) -> str:
    """A probability in words; one that rounds to certainty is not called certain."""
    return "a probability above 0.99" if value > 0.99 else f"probability {value:.2f}"


def _ended(sentence: str) -> str:
    """The sentence with a full stop, where it has no mark at its end."""
    sentence = sentence.strip()
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def feature_in_words(feature: str) -> str:
    """A feature of texts as people name it, such as "the number of words"."""
    return _FEATURES_IN_WORDS.get(feature.replace(" ", "_"), f"the {feature.replace('_', ' ')}")
