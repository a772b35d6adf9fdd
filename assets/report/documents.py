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
    """Facts of a latest fit that is not published, and its differences from the published fit."""

    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailuresDocument:
    """Reasons why assets of a test set failed in its last run, by asset."""

    why: dict[str, str]
