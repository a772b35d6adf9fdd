"""Verdict on a fit: its state, the reasons and the next steps.

``decide`` builds the verdict. The terminal, pages, alerts, ``fit.json``, the database and Dagster show it.
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
"""State of a fit (docs/verdict.md)."""

Topic = Literal[
    "failure",
    "held back",
    "stale",
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
    "no systems",
]

Pill = Literal["Use", "Check", "Don't use yet", "Waiting", "Failed"]
"""Advice to a reader on the use of the estimates."""

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

_CAUTIONS = ("few scores", "not connected", "condition", "judge changed", "lost scores")
"""Topics that change the advice on a clear estimate from *Use* to *Check*."""

_ABOUT_JUDGES = ("dead judge", "duplicates", "weak judges", "suspect judge")
"""Topics about judges that were left out or need a check; these topics come first."""

MOST_NAMED = 4
"""Maximum number of judges that a sentence names; ``Reason.detail`` names all judges."""

MOST_REASONS = 5
"""Maximum number of reasons on the first screen; ``--why`` and the page show all reasons."""


@dataclass(frozen=True)
class Reason:
    """Reason for a verdict: a sentence, the judges that it names, and a ``detail`` with more numbers (often empty)."""

    topic: Topic
    sentence: str
    judges: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.detail}".strip()


@dataclass(frozen=True)
class Step:
    """Next step for the user, and its command if there is one."""

    sentence: str
    command: str | None = None


@dataclass(frozen=True)
class Verdict:
    """Verdict on one fit: its state, the reasons and the next steps.

    Attributes
    ----------
    sentence : str
        The consequence for a user of the estimates.
    reasons, next_steps : tuples
        Reasons and next steps, the most important first.
    fit_version, made_at : str or None
        Id and time (ISO 8601) of the fit; None if there is no fit.
    """

    state: State
    sentence: str
    reasons: tuple[Reason, ...] = ()
    next_steps: tuple[Step, ...] = ()
    fit_version: str | None = None
    made_at: str | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def pill(self) -> Pill:
        """Short advice on whether to use the estimates, such as ``Use`` or ``Check``."""
        cautious = self.state == "clear" and any(reason.topic in _CAUTIONS for reason in self.reasons)
        return "Check" if cautious else _PILLS[self.state]

    @property
    def state_in_words(self) -> str:
        """State of the fit in words, with the condition for use or a note that there is a warning."""
        if self.state == "clear if":
            return f"clear if {condition_in(self.sentence)}"
        return "clear, with a warning" if self.state == "clear" and self.pill == "Check" else self.state

    @property
    def headline(self) -> str:
        """Advice on the use of the estimates, followed by the sentence of the verdict."""
        return f"{self.pill.upper()}. {self.sentence}"

    @property
    def why(self) -> list[Reason]:
        """All reasons; the reason in the headline is reduced to its detail."""
        others = [
            replace(reason, sentence=reason.detail, detail="") if reason.sentence == self.sentence else reason
            for reason in self.reasons
        ]
        return [reason for reason in others if reason.sentence]

    @property
    def first_reasons(self) -> list[str]:
        """Sentences of the first reasons after the headline, without their details."""
        others = [reason for reason in self.reasons if reason.sentence != self.sentence]
        if self.pill not in ("Waiting", "Failed"):
            others.sort(key=lambda reason: reason.topic not in _ABOUT_JUDGES)
        if self.state == "clear":  # the cause of *Check* comes first
            others.sort(key=lambda reason: reason.topic not in _CAUTIONS)
        return [reason.sentence for reason in others][:MOST_REASONS]

    @property
    def first_steps(self) -> tuple[Step, ...]:
        """Next steps up to the first one that has a command; all next steps if none has a command."""
        ends = [k for k, step in enumerate(self.next_steps, 1) if step.command is not None]
        return self.next_steps[: ends[0]] if ends else self.next_steps

    def lines(self, *, everything: bool = False) -> list[str]:
        """Return headline, first reasons and steps; with ``everything``, all reasons, details, steps and the state."""
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
        if everything and self.fit_version is not None:
            made = minute_of(self.made_at)
            written.append(f"  (state: {self.state_in_words}; fit {self.fit_version}, made {made} UTC)")
        return written


PASS_MARK = "VALUE is the score above which an item passes"
OF_ONE_JUDGE = "JUDGE is the name of a judge; an item passes if this judge's score is above VALUE"
"""Explanations of the placeholders in commands."""


def label_values(single: str = "1 (pass) and 0 (fail)", *, pairs: bool, right: bool = False) -> str:
    """Explain the label values; for pairs, 1 means that the left answer is better, or the right one if ``right``."""
    first, second = ("right", "left") if right else ("left", "right")
    return f"1 if the {first} answer is better, 0 if the {second} one is, and 0.5 for a tie" if pairs else single


@dataclass(frozen=True)
class Remedies:
    """Instructions for one user interface: how to label items, use estimates, fit again and decide on a blocked fit.

    ``report`` states how to compare judges with binary labels, and ``label_values`` explains these labels.
    ``cut`` states how to set the pass mark.
    """

    label: Step
    use: Step
    again: Step
    decide: Step
    report: str = "run `care judges report`"
    cut: str = f"`--cut VALUE`; {PASS_MARK}"
    label_values: str = label_values(pairs=False)


def condition_in(sentence: str) -> str:
    """Extract the condition from a sentence such as "Use these scores only if ..."."""
    return sentence.partition(" only if ")[2].partition(":")[0].rstrip(".")


def minute_of(moment: str | None) -> str:
    """Format an ISO time to the minute."""
    return (moment or "")[:16].replace("T", " ")
