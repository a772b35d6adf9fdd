"""The engine of judges that are programs of somebody else's: a Python file that runs in the sandbox."""

from __future__ import annotations

import time
from collections.abc import Sequence

from care_ops.errors import JudgeError
from judges.items import Item, Score, Status, checked_score
from judges.sandbox import ProgramFile, Sandbox, SandboxDiedError, SandboxTimeoutError, available, why_unavailable
from judges.spec import ProgramEngine

_RAW_LIMIT = 500
_SCALE = (0.0, 10.0)


class SandboxedJudgeEngine:
    """Asks one program about one item at a time; the program runs in a process of its own.

    Raises ``JudgeError`` where this machine has no sandbox, and the judge's engine does not say ``unsafe: true``.
    """

    def __init__(self, engine: ProgramEngine, program: ProgramFile, scale: tuple[float, float] | None) -> None:
        kind = "none" if engine.unsafe else available()
        if kind == "none" and not engine.unsafe:
            raise JudgeError(
                f"{program.path}: {why_unavailable()}, or say unsafe: true in the judge's engine to run the file with "
                "all your rights"
            )
        self._sandbox = Sandbox(program, engine.timeout_s, engine.memory_mb, kind)
        self._scale = scale or _SCALE
        self.version = f"program file, sandbox {kind}"

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Score each item; an item on which the program fails, dies or takes too long gets a status."""
        return [self._one(item) for item in items]

    def close(self) -> None:
        """End the program's process."""
        self._sandbox.close()

    def _one(self, item: Item) -> Score:
        started = time.perf_counter()
        score: float | None = None
        raw: str | None = None
        try:
            answer = self._sandbox.ask(item.prompt or "", item.response or "")
        except SandboxTimeoutError as error:
            status, raw = Status.TIMEOUT, str(error)
        except SandboxDiedError as error:
            status, raw = Status.ENGINE_ERROR, str(error)
        else:
            if "error" in answer:
                status, raw = Status.ENGINE_ERROR, answer["error"]
            else:
                score, status = checked_score(answer["score"], self._scale)
                raw = None if status is Status.OK else repr(answer["score"])
        elapsed = 1e3 * (time.perf_counter() - started)
        return Score(item.item_id, item.key, score, status, raw[:_RAW_LIMIT] if raw else None, elapsed)
