"""What is kept of the verdict on a test set, as records of their JSON documents."""

from dataclasses import dataclass
from typing import ClassVar

from care_ops.results.fit_facts import FitFacts
from warehouse.documents import FolderDocument


@dataclass(frozen=True)
class FactsDocument(FolderDocument):
    """What the fit says of itself whose page was drawn last."""

    NAME: ClassVar[str] = "facts"

    facts: FitFacts


@dataclass(frozen=True)
class HeldDocument(FactsDocument):
    """The same of the latest fit where another is published; what is new in it, and how far it moved from the other."""

    NAME: ClassVar[str] = "held"

    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailureDocument(FolderDocument):
    """Why what failed could not be made when the test set was last brought up to date, by asset."""

    NAME: ClassVar[str] = "failures"

    why: dict[str, str]
