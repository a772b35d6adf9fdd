"""Records of the JSON documents from which the verdict on a test set is computed."""

from dataclasses import dataclass

from care_ops.results.fit_facts import FitFacts

BLOCKED = "blocked"
"""Name under which a fit's folder notes the versions of the results that the facts of a blocked fit rest on."""


@dataclass(frozen=True)
class FactsDocument:
    """Facts about the fit whose page was drawn last."""

    facts: FitFacts


@dataclass(frozen=True)
class HeldDocument(FactsDocument):
    """Facts about a latest fit that is not published, and its differences from the published fit."""

    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailuresDocument:
    """Error messages of the assets of a test set that failed in its last run, by asset."""

    why: dict[str, str]
