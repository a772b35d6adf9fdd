"""Records of the JSON documents from which the verdict on a test set is computed."""

from dataclasses import dataclass

from care_ops.results.fit_facts import FitFacts

BLOCKED = "blocked"
"""Name of the document with the input version of a blocked fit's facts."""


@dataclass(frozen=True)
class FactsDocument:
    """Facts about the fit whose report page was rendered most recently."""

    facts: FitFacts


@dataclass(frozen=True)
class HeldDocument(FactsDocument):
    """Facts about the latest fit while it is unpublished, and the changes since the published fit."""

    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailuresDocument:
    """Error messages of a test set's failed assets in the last run, by asset."""

    why: dict[str, str]
