"""JSON documents of a test set's verdict, as records."""

from dataclasses import dataclass

from care_ops.results.fit_facts import FitFacts

BLOCKED = "blocked"
"""Name under which a fit's folder notes the versions of the results that the facts of a blocked fit rest on."""


@dataclass(frozen=True)
class FactsDocument:
    """Facts of the fit whose page was drawn last."""

    facts: FitFacts


@dataclass(frozen=True)
class HeldDocument(FactsDocument):
    """Facts of the latest fit where another is published, and how the two differ."""

    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailuresDocument:
    """Why assets of a test set failed in its last run, by asset."""

    why: dict[str, str]
