"""The protocol that engines share.

Belongs here: the interface, and building an engine from a specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from judges.items import Item, Score
from judges.spec import JudgeSpec, ProgramEngine


@dataclass(frozen=True)
class Recording:
    """One recorded score: the value, and the text it was given for where the source keeps it."""

    value: float | None
    response: str | None = None


class Engine(Protocol):
    """Scores batches of items.

    Attributes
    ----------
    revision : str
        Version of what is run; part of the judge's key.
    version : str
        Recorded beside each score, not part of the key.
    """

    revision: str
    version: str

    def score(self, items: Sequence[Item]) -> list[Score]:
        """One score for each item, in order. An item that fails gets a status, not an exception."""
        ...


def build_engine(spec: JudgeSpec, recordings: Mapping[str, Recording] | None = None) -> Engine:
    """The engine of a judge.

    Parameters
    ----------
    spec : JudgeSpec
    recordings : mapping item_id -> Recording, optional
        What a recorded judge reads from.

    Raises
    ------
    JudgeError
        The program is not registered, or a recorded judge has no recordings.
    """
    if isinstance(spec.engine, ProgramEngine):
        from judges.engines.program import ProgramJudgeEngine

        return ProgramJudgeEngine(spec.engine.program, spec.scale)
    from judges.engines.recorded import RecordedJudgeEngine

    return RecordedJudgeEngine(spec, recordings)
