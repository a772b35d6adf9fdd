"""The Ray actor that holds a judge's loaded model, and what is said when it fails."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from care_ops.errors import JudgeError
from judges.engines.base import Context, Engine
from judges.engines.factory import LoadedModels, build_engine
from judges.items import Item, Score
from judges.spec import JudgeSpec


@dataclass(frozen=True)
class Task:
    """A judge as it scores one test set, and what its engine is given."""

    number: int
    spec: JudgeSpec
    context: Context


class EngineMemoryError(JudgeError):
    """The engine ran out of memory while it scored; it must not be used again."""


class Worker:
    """The Ray actor. It loads a model once, for all test sets of its judge.

    A batch carries everything that scoring it takes, so that an actor that was restarted can score it again.
    """

    def __init__(self) -> None:
        self._models = LoadedModels()
        self._engines: dict[int, Engine] = {}

    def placed(self) -> str:
        """Answer as soon as the actor has its place on the cluster, with the id of its node."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def load(self, task: Task) -> None:
        """Load the model that the task needs."""
        self._engine(task)

    def score(self, task: Task, batch: Sequence[Item]) -> tuple[list[Score], str]:
        """The scores of a batch, and the version of the engine that made them."""
        try:
            engine = self._engine(task)
            return engine.score(batch), engine.version
        except Exception as error:
            if type(error).__name__ == "EngineDeadError":  # vLLM cannot recover in this process; Ray starts another
                os._exit(13)
            # of torch, or of what is built on it
            if any(kind.__name__ in ("OutOfMemoryError", "MemoryError") for kind in type(error).__mro__):
                raise EngineMemoryError(str(error).strip().partition("\n")[0]) from error
            raise

    def _engine(self, task: Task) -> Engine:
        if task.number not in self._engines:
            for engine in self._engines.values():
                engine.close()
            self._engines = {task.number: build_engine(task.spec, task.context, self._models)}
        return self._engines[task.number]


def answer_of(spec: JudgeSpec, reference: Any, timeout: float) -> Any:
    """What an actor answers.

    Raises ``EngineMemoryError`` where the engine or its machine ran out of memory, and ``JudgeError`` where the actor
    failed otherwise, or did not answer in time.
    """
    import ray
    import ray.exceptions

    try:
        return ray.get(reference, timeout=timeout)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, JudgeError):
            raise cause from error
        last = str(error).strip().splitlines()[-1]
        raise JudgeError(f"judge {spec.name!r} failed: {last}") from error
    except ray.exceptions.OutOfMemoryError as error:
        raise EngineMemoryError(str(error).strip().partition("\n")[0]) from error
    except ray.exceptions.GetTimeoutError as error:
        raise JudgeError(f"judge {spec.name!r} was not loaded within {timeout:.0f} s; see the actor's log") from error
    except ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise JudgeError(
            f"judge {spec.name!r}: its actor failed and could not be restarted ({last}); the batches "
            "that came back are kept, and the next run continues from there"
        ) from error
