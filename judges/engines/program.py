"""Engine of judges that are built-in programs: a Python function scores each item."""

from judges.engines.base import Judged, OneByOne, Scale, checked, seen
from judges.items import Item, Status
from judges.programs import find


class ProgramJudgeEngine(OneByOne):
    """Runs one registered program in this process."""

    def __init__(self, program: str, scale: Scale | None) -> None:
        self._program = find(program)
        self._scale = scale or self._program.scale
        self.version = f"program {program}"

    def _judged(self, item: Item) -> Judged:
        try:
            return checked(self._program.function(seen(item)), self._scale)
        except Exception as error:  # it becomes the score's status
            return None, Status.ENGINE_ERROR, f"{type(error).__name__}: {error}"
