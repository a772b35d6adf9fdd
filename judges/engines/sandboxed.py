"""Engine of judges that are Python files, which run in the sandbox."""

from care_ops.errors import JudgeError
from judges.engines.base import Judged, OneByOne, Scale, checked, seen
from judges.items import RAW_LIMIT, Item, Status
from judges.redaction import Secrets
from judges.sandbox import ProgramFile, Sandbox, SandboxDiedError, SandboxTimeoutError, available, why_unavailable
from judges.spec import ProgramEngine

_SCALE = (0.0, 10.0)


class SandboxedJudgeEngine(OneByOne):
    """Asks one program, in a process of its own, about one item at a time.

    Raises ``JudgeError`` if this machine has no sandbox and the judge's engine has no ``unsafe: true``.
    """

    def __init__(self, engine: ProgramEngine, program: ProgramFile, scale: Scale | None) -> None:
        kind = "none" if engine.unsafe else available()
        if kind == "none" and not engine.unsafe:
            raise JudgeError(
                f"{program.path}: {why_unavailable()}, or set unsafe: true in the judge's engine to run the file with "
                "all your rights"
            )
        self._sandbox = Sandbox(program, engine.timeout_s, engine.memory_mb, kind)
        self._scale = scale or _SCALE
        self.version = f"program file, sandbox {kind}"

    def close(self) -> None:
        """End the program's process."""
        self._sandbox.close()

    def _judged(self, item: Item) -> Judged:
        item = seen(item)
        try:
            answer = self._sandbox.ask(item.prompt or "", item.response or "")
        except SandboxTimeoutError as error:
            return None, Status.TIMEOUT, str(error)
        except SandboxDiedError as error:
            return None, Status.ENGINE_ERROR, str(error)
        if "error" in answer:
            return None, Status.ENGINE_ERROR, Secrets.of_environment().hide(answer["error"], RAW_LIMIT)
        return checked(answer["score"], self._scale)
