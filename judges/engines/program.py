"""Program judges: a Python function scores an item.

Belongs here: calling a registered function. Does not: the functions (``judges.programs``).
"""

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
        """Score each item; a program that raises gives ``engine_error`` with the error as raw."""
        return [self._one(item) for item in items]

    def close(self) -> None:
        """Nothing to end."""

    def _one(self, item: Item) -> Score:
        started = time.perf_counter()
        raw: str | None = None
        try:
            value = self._program.function(item)
            score, status = checked_score(value, self._scale)
            if status is not Status.OK:
                raw = repr(value)
        except Exception as error:  # a judge's own fault becomes its status, with what it said
            score, status, raw = None, Status.ENGINE_ERROR, f"{type(error).__name__}: {error}"
        elapsed = 1e3 * (time.perf_counter() - started)
        return Score(item.item_id, item.key, score, status, raw[:_RAW_LIMIT] if raw else None, elapsed)
