"""The engine of judges that are built-in programs: a Python function scores each item."""

from __future__ import annotations

import time
from collections.abc import Sequence

from judges.items import Item, Score, Status, checked_score
from judges.programs import find

_RAW_LIMIT = 500


class ProgramJudgeEngine:
    """Runs one registered program in this process."""

    def __init__(self, program: str, scale: tuple[float, float] | None) -> None:
        self._program = find(program)
        self._scale = scale or self._program.scale
        self.version = f"program {program}"

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Score each item; if the program raises, the status is ``engine_error`` and ``raw`` holds the error."""
        return [self._one(item) for item in items]

    def close(self) -> None:
        """Do nothing: a built-in program runs in this process."""

    def _one(self, item: Item) -> Score:
        started = time.perf_counter()
        raw: str | None = None
        try:
            value = self._program.function(item)
            score, status = checked_score(value, self._scale)
            if status is not Status.OK:
                raw = repr(value)
        except Exception as error:  # an error of the judge is its status
            score, status, raw = None, Status.ENGINE_ERROR, f"{type(error).__name__}: {error}"
        elapsed = 1e3 * (time.perf_counter() - started)
        return Score(item.item_id, item.key, score, status, raw[:_RAW_LIMIT] if raw else None, elapsed)
