"""What is kept of the verdict on a test set, as records of their JSON documents."""

from dataclasses import dataclass

from care_ops.results.fit_facts import FitFacts

BLOCKED = "blocked"
"""Name under which a fit's folder notes the versions of the results that the facts of a blocked fit rest on."""


@dataclass(frozen=True)
class FactsDocument:
    """What the fit says of itself whose page was drawn last."""

    facts: FitFacts


@dataclass(frozen=True)
class HeldDocument(FactsDocument):
    """The same of the latest fit where another is published; what is new in it, and how far it moved from the other."""

    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailuresDocument:
    """Why what failed could not be made when the test set was last brought up to date, by asset."""

    why: dict[str, str]
