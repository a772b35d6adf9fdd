"""Engines of judges that are programs: Python functions in this process, or Python files in the sandbox."""

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from care_ops.errors import JudgeError
from care_ops.visible import visible
from judges.engines.base import Engine
from judges.items import RAW_LIMIT, TEXTS, Item, Score, Status, checked_score
from judges.programs import find
from judges.redaction import Secrets
from judges.sandbox import ProgramFile, Sandbox, SandboxDiedError, SandboxTimeoutError, why_unavailable
from judges.spec import ProgramEngine

Scale = tuple[float, float]
Judged = tuple[float | None, Status, str | None]
"""Score or None, status, and reason for a missing score."""

_SCALE = (0.0, 10.0)


class _OneByOne(Engine):
    def score(self, items: Sequence[Item]) -> list[Score]:
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Score:
        started = time.perf_counter()
        texts = {name: text and visible(text) for name, text in vars(item).items() if name in TEXTS}
        score, status, raw = self._judged(replace(item, **texts))
        return Score(item.item_id, item.key, score, status, raw, 1e3 * (time.perf_counter() - started))

    @abstractmethod
    def _judged(self, item: Item) -> Judged: ...


class ProgramJudgeEngine(_OneByOne):
    """Engine that runs one registered program in this process."""

    def __init__(self, program: str, scale: Scale | None) -> None:
        self._program = find(program)
        self._scale = scale or self._program.scale
        self.version = f"program {program}"

    def _judged(self, item: Item) -> Judged:
        try:
            return _checked(self._program.function(item), self._scale)
        except Exception as error:  # it becomes the score's status
            return None, Status.ENGINE_ERROR, f"{type(error).__name__}: {error}"


class SandboxedJudgeEngine(_OneByOne):
    """Engine that runs one program file in a separate process, one item at a time.

    Raises ``JudgeError`` if this machine has no sandbox and the judge's engine does not set ``unsafe: true``.
    """

    def __init__(self, engine: ProgramEngine, program: ProgramFile, scale: Scale | None) -> None:
        kind = "none" if engine.unsafe else "bwrap"
        if not engine.unsafe and (why := why_unavailable()):
            raise JudgeError(
                f"{program.path}: {why}, or set unsafe: true in the judge's engine to run the file "
                "without a sandbox, with all your permissions"
            )
        self._sandbox = Sandbox(program, engine.timeout_s, engine.memory_mb, kind)
        self._scale = scale or _SCALE
        self.version = f"program file, sandbox {kind}"

    def close(self) -> None:
        self._sandbox.close()

    def _judged(self, item: Item) -> Judged:
        try:
            answer = self._sandbox.ask(item.prompt or "", item.response or "")
        except SandboxTimeoutError as error:
            return None, Status.TIMEOUT, str(error)
        except SandboxDiedError as error:
            return None, Status.ENGINE_ERROR, str(error)
        if "error" in answer:
            return None, Status.ENGINE_ERROR, Secrets.of_environment().hide(answer["error"], RAW_LIMIT)
        return _checked(answer["score"], self._scale)


def _checked(value: object, scale: Scale) -> Judged:
    score, status = checked_score(value, scale)
    return score, status, None if status is Status.OK else repr(value)
