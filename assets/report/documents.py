"""What is kept of the verdict on a test set, as records of their JSON documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from care_ops.results.fit_facts import FitFacts
from care_ops.results.verdict import Verdict
from warehouse.documents import FolderDocument


@dataclass(frozen=True)
class FactsDocument(FolderDocument):
    """What the fit says of itself whose page was drawn last."""

    NAME: ClassVar[str] = "facts"

    facts: FitFacts


@dataclass(frozen=True)
class HeldDocument(FolderDocument):
    """What the latest fit says of itself where it is held back, and how it differs from the published one.

    Attributes
    ----------
    facts : FitFacts
    changes, moves : tuple of str
        What went into it that is new, and how far its answer lies from the published one.
    """

    NAME: ClassVar[str] = "held"

    facts: FitFacts
    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerdictDocument(FolderDocument):
    """The verdict that the page, the index and the database show."""

    NAME: ClassVar[str] = "verdict"

    verdict: Verdict


@dataclass(frozen=True)
class FailureDocument(FolderDocument):
    """What failed when the test set was last brought up to date; there is none where nothing did.

    Attributes
    ----------
    failures : tuple of str
        Whole sentences.
    assets : tuple of str
        The asset that each of them is about; empty in documents of earlier releases.
    """

    NAME: ClassVar[str] = "failure"

    failures: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
