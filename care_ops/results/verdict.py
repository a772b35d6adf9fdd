"""The verdict on a fit: its state, what to say of it, why it is in that state, and what to do next.

Every place that says how a fit stands (terminal, page, index, alert, ``fit.json``, database, Dagster) shows one record
of this kind, which ``decide`` makes, so that all of them say the same.
"""

from dataclasses import dataclass, replace
from typing import Literal

State = Literal[
    "clear",
    "clear if",
    "ambiguous",
    "too little data",
    "no common signal",
    "settled by labels",
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
    "duplicates",
    "independent judges",
    "weak judges",
    "condition",
    "removed effect",
    "plain average",
    "followed",
    "suspect judge",
    "missing scores",
    "injection",
    "no answer",
    "lost scores",
    "owing judge",
    "certificate",
    "publication",
    "source",
    "judge changed",
    "system changed",
    "no systems",
]

Pill = Literal["Use", "Check", "Don't use yet", "Waiting", "Failed"]
"""What a reader does with the numbers of a fit in that state."""

_PILLS: dict[State, Pill] = {
    "clear": "Use",
    "settled by labels": "Use",
    "clear if": "Check",
    "ambiguous": "Don't use yet",
    "too little data": "Don't use yet",
    "no common signal": "Don't use yet",
    "stale": "Waiting",
    "held back": "Waiting",
    "failed": "Failed",
}

_CAUTIONS = ("few judges", "few scores", "not connected", "condition", "judge changed", "lost scores")
"""Reasons for which a clear answer is to be checked all the same."""

MOST_REASONS = 3
"""So many reasons are given first; the others stand on the page, and where all are asked for."""


@dataclass(frozen=True)
class Reason:
    """One reason for a verdict.

    Attributes
    ----------
    topic : Topic
    sentence : str
        In everyday words.
    judges : tuple of str
        Those that it speaks of.
    detail : str
        The numbers behind it, and what else somebody may want to know, in whole sentences; often empty.
    """

    topic: Topic
    sentence: str
    judges: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        """The sentence and its detail."""
        return f"{self.sentence} {self.detail}".strip()


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
        What a reader needs to know first, in everyday words.
    reasons : tuple of Reason
        The most important one first.
    next_steps : tuple of Step
        The most useful one first.
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
        """The verdict as plain text: what to do with the numbers, the first reasons and the first step."""
        return "\n".join(self.lines())

    @property
    def pill(self) -> Pill:
        """What to do with the numbers, in a word or three."""
        cautious = self.state == "clear" and any(reason.topic in _CAUTIONS for reason in self.reasons)
        return "Check" if cautious else _PILLS[self.state]

    @property
    def headline(self) -> str:
        """The pill and the sentence; every place that shows the verdict begins with it."""
        return f"{self.pill.upper()}. {self.sentence}"

    @property
    def why(self) -> list[Reason]:
        """The reasons; of the one that is the sentence itself, its detail."""
        others = [
            replace(reason, sentence=reason.detail, detail="") if reason.sentence == self.sentence else reason
            for reason in self.reasons
        ]
        return [reason for reason in others if reason.sentence]

    @property
    def first_reasons(self) -> list[str]:
        """What beside the headline is to be known first, without the numbers behind it."""
        return [reason.sentence for reason in self.reasons if reason.sentence != self.sentence][:MOST_REASONS]

    @property
    def first_steps(self) -> tuple[Step, ...]:
        """The steps up to the first one that has a command."""
        with_command = next((k for k, step in enumerate(self.next_steps) if step.command is not None), 0)
        return self.next_steps[: with_command + 1]

    def lines(self, *, everything: bool = False) -> list[str]:
        """The headline, the first reasons, the first steps up to a command, and which fit this is about.

        Parameters
        ----------
        everything : bool
            Every reason with its detail, and every step.
        """
        sentences, steps = [str(reason) for reason in self.why], self.next_steps
        if not everything:
            sentences, steps = self.first_reasons, self.first_steps
        written = [self.headline, *(f"  - {sentence}" for sentence in sentences)]
        if len(sentences) < len(self.why):
            written.append(f"  ({len(self.why) - len(sentences)} more: --why, or the page)")
        for step in steps:
            written.append(f"  Next: {step.sentence}")
            if step.command is not None:
                written.append(f"        {step.command}")
        if self.edition is not None:
            written.append(f"  ({self.state}; fit {self.edition}, made {minute_of(self.made_at)} UTC)")
        return written


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
