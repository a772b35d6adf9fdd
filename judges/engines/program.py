"""The engine of judges that are built-in programs: a Python function scores each item."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from judges.items import Item, Score, Status, checked_score
from judges.programs import find

Scale = tuple[float, float]
Judged = tuple[float | None, Status, str | None]
"""A score, its status, and what was said instead of one."""


class OneByOne(ABC):
    """An engine that is asked about one item at a time."""

    version: str

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Score each item; one on which the program fails gets a status, and ``raw`` says why."""
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Score:
        started = time.perf_counter()
        score, status, raw = self._judged(item)
        return Score(item.item_id, item.key, score, status, raw, 1e3 * (time.perf_counter() - started))

    @abstractmethod
    def _judged(self, item: Item) -> Judged: ...


class ProgramJudgeEngine(OneByOne):
    """Runs one registered program in this process."""

    def __init__(self, program: str, scale: Scale | None) -> None:
        self._program = find(program)
        self._scale = scale or self._program.scale
        self.version = f"program {program}"

    def close(self) -> None:
        """Do nothing: a built-in program runs in this process."""

    def _judged(self, item: Item) -> Judged:
        try:
            return checked(self._program.function(item), self._scale)
        except Exception as error:  # an error of the judge is its status
            return None, Status.ENGINE_ERROR, f"{type(error).__name__}: {error}"


def checked(value: object, scale: Scale) -> Judged:
    """The score and status of what a program returned, and the value itself where there is no score."""
    score, status = checked_score(value, scale)
    return score, status, None if status is Status.OK else repr(value)
