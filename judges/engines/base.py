"""The protocol that engines share, and what they are given.

Belongs here: the interface. Does not: which engine a specification asks for (``factory``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from care_ops.errors import InputError, JudgeError
from judges.items import Item, Score
from judges.prompts import Template, find
from judges.spec import JudgeSpec


class Recording(NamedTuple):  # there are millions: a dataclass takes three times as long to make
    """One recorded score: the value, and the text it was given for where the source keeps it."""

    value: float | None
    response: str | None = None


class SpendLimitError(JudgeError):
    """No more money may be spent in this run; ``scores`` are those of the batch that were paid for."""

    def __init__(self, message: str, scores: Sequence[Score] = ()) -> None:
        super().__init__(message)
        self.scores = list(scores)


@dataclass
class Ledger:
    """US dollars that a judge has spent in this run."""

    spent: float = 0.0


@dataclass(frozen=True)
class Context:
    """What an engine is given beside its specification.

    Attributes
    ----------
    root : Path
        Relative paths of programs start here; templates lie in ``root / "prompts"``.
    recordings : mapping item_id -> Recording, optional
        What a recorded judge reads from.
    ledger : Ledger, optional
        What a paid judge has spent, over the test sets of a run.
    """

    root: Path = Path()
    recordings: Mapping[str, Recording] | None = None
    ledger: Ledger | None = None

    def path(self, name: str) -> Path:
        """A file of the workspace."""
        return (self.root / name).absolute()

    def template(self, spec: JudgeSpec) -> Template:
        """The prompt template of a judge that is a language model."""
        name = spec.engine.template_name
        if name is None:
            raise InputError(
                f"judge {spec.name!r} has no prompt template, nor has the test set; add template: NAME to the judge's "
                "engine, or prompt: NAME to the test set"
            )
        return find(name, self.root / "prompts")


class Engine(Protocol):
    """Scores batches of items.

    Attributes
    ----------
    version : str
        Recorded beside each score, not part of the key.
    """

    version: str

    def score(self, items: Sequence[Item]) -> list[Score]:
        """One score for each item, in order. An item that fails gets a status, not an exception."""
        ...

    def close(self) -> None:
        """End what the engine started; it cannot score any more."""
        ...
