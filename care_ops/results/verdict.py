"""The verdict on a fit: its state, why it is in that state, and what to do next.

Every place that says how a fit stands (terminal, page, index, alert, ``fit.json``, database, Dagster) shows the record
that ``decide`` makes here, so that all of them say the same sentence.

Belongs here: the record, and the rules that lead to it. Belongs elsewhere: what a fit says of itself (``fit_facts``),
finding that (``assets.report.verdict_facts``), what has happened to a workspace since (``assets.report.verdicts``),
printing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from care_ops.results.coverage import Coverage
from care_ops.results.fit_facts import LEAST_JUDGES, FitFacts, JudgeFacts, MovingTogether

State = Literal["clear", "ambiguous", "settled by labels", "settled by probes", "held back", "stale", "failed"]
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
    "followed",
    "suspect judge",
    "missing scores",
    "moving together",
    "owing judge",
    "certificate",
    "publication",
    "source",
]

_FEATURES_IN_WORDS = {
    "characters": "the number of characters",
    "words": "the number of words",
    "words_per_sentence": "the words per sentence",
    "list_items": "the number of list items",
    "numbers": "the number of figures",
    "authority_markers": "the number of citations and links",
    "emoji": "the number of emoji",
    "smog": "the reading grade (SMOG)",
}
"""Names of the features of texts (``interpret.FEATURES``), each of which goes on with "of the texts"."""

_FOLLOWS = 0.5
"""Rank correlation (Spearman) with a feature of the texts from which on a factor is said to follow it."""

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
        written += [f"  why: {reason.sentence}" for reason in self.further_reasons]
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
    the fit says of itself.
    """
    of_the_fit = [] if facts is None else _reasons_of(facts)
    since = _reasons_since(standing)
    state, sentence = _state(facts, standing)
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
            f"Held back: fit {standing.held_edition}, made {minute_of(standing.held_made_at)}, waits for a person: "
            f"{_ended(standing.held_back[0])} {standing.reading}"
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
    if not facts.ambiguous:
        return "clear", (
            f"Clear: {len(facts.admitted)} judges allow one answer for {facts.items:,} items (the two ways to reach it "
            f"without labels correlate at {facts.agreement:+.2f})."
        )
    if facts.labels is not None and facts.labels.settles:
        return "settled by labels", (
            f"Settled by {_count(facts.labels.labels, 'label')}: with {_probability(facts.labels.probability)} what "
            "the labels allow agrees with this answer. Without labels the panel is ambiguous."
        )
    if facts.probes is not None and facts.probes.settles:
        return "settled by probes", (
            f"Settled by probes with {_probability(facts.probes.probability)}, if what was declared of them "
            f"({'; '.join(facts.probes.kinds)}) is true. Without them the panel is ambiguous."
        )
    sentence = f"Ambiguous: {_difference(facts)}, and the scores alone cannot say which of them is quality."
    if facts.labels is not None:
        sentence += f" {_count(facts.labels.labels, 'label')} have not settled it."
    if facts.probes is not None:
        sentence += (
            f" Probes choose this answer with {_probability(facts.probes.probability)}, if what was declared of them "
            "is true: not surely enough."
        )
    return "ambiguous", sentence


def _difference(facts: FitFacts) -> str:
    """In what the defensible answers of an ambiguous panel differ; the larger difference is named."""
    if facts.rival is not None and abs(facts.rival) < facts.agreement:
        return f"several judges follow a factor that correlates at only {facts.rival:+.2f} with the answer"
    return (
        "the mean of the families and the factor that all judges share are both defensible, and correlate at only "
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
    if len(facts.admitted) == LEAST_JUDGES:
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
    reasons += [_question(group, facts.items) for group in facts.together]
    reasons += [Reason("certificate", caution) for caution in facts.cautions]
    return reasons if facts.publication is None else [*reasons, Reason("publication", facts.publication)]


def _about_the_answer(facts: FitFacts) -> list[Reason]:
    """Why the answer is clear, ambiguous or settled, and what the judges follow."""
    reasons: list[Reason] = []
    if facts.ambiguous:
        reasons.append(
            Reason(
                "ambiguity",
                f"The two ways to reach an answer without labels correlate at {facts.agreement:+.2f}"
                + ("." if facts.rival is None else f", and the rival factor at {facts.rival:+.2f} with the answer."),
            )
        )
    if facts.labels is not None:
        reasons.append(
            Reason(
                "labels",
                f"By {_count(facts.labels.labels, 'label')}, answers that agree with this one have "
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
            f"correlation {feature.correlation:+.2f}), so what looks like quality may be that.",
        )
        for feature in facts.followed
        if abs(feature.correlation) >= _FOLLOWS
    ]
    return reasons


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


def _question(group: MovingTogether, items: int) -> Reason:
    names = f"{', '.join(group.judges[:-1])} and {group.judges[-1]}"
    return Reason(
        "moving together",
        f"{names} move together beyond what all judges share (residuals correlate at {group.correlation:+.2f}). Where "
        "do they come from: one model, one vendor, one prompt, one person? If they are one family, the answer would "
        f"correlate at {group.answer_correlation:+.2f} with this one, and {group.items_changed:,} of {items:,} items "
        "would change from one half of the ranking to the other.",
        group.judges,
    )


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
    if state == "ambiguous":
        return (remedies.label,)
    return (remedies.use, remedies.label) if state == "clear" else (remedies.use,)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


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
