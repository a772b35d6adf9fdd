"""Ray actors that keep a judge's model loaded, and the loop that sends batches of items to the actors.

An actor waits in Ray until a GPU is free, while the judge's other actors score. Judges that share a cluster therefore
cannot deadlock: if two judges each wait for a second GPU, each continues to score on its first GPU.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from care_ops.errors import JudgeError
from judges.engines.base import Context, Engine
from judges.engines.factory import build_engine
from judges.items import Item, Score
from judges.spec import JudgeSpec

if TYPE_CHECKING:
    from judges.engines.factory import LoadedModels
    from judges.questions import Batches

_BATCH_TIMEOUT_S = 600.0
_REPORT_EVERY_S = 60.0
_MAX_LOST = 3
"""Maximum number of a judge's actors that may die; if another actor dies, the judge stops."""

Numbered = tuple[int, Sequence[Item]]
"""Number and items of a batch."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """Judge specification and engine context for one test set."""

    number: int
    spec: JudgeSpec
    context: Context


class _LostActorError(Exception):
    """Error raised when the process or the node of a Ray actor has died."""


class Worker:
    """Ray actor that loads a judge's model once, and scores batches from all of the judge's test sets."""

    def __init__(self) -> None:
        self._models: LoadedModels = {}
        self._engines: dict[int, Engine] = {}

    def load(self, task: Task) -> None:
        """Load the model that the task's judge needs."""
        self._engine(task)

    def score(self, task: Task, batch: Sequence[Item]) -> tuple[list[Score], str]:
        """Score a batch of items; return the scores and the engine's version."""
        try:
            engine = self._engine(task)
            return engine.score(batch), engine.version
        except Exception as error:
            if type(error).__name__ == "EngineDeadError":  # vLLM cannot recover in this process
                os._exit(13)
            raise

    def _engine(self, task: Task) -> Engine:
        if task.number not in self._engines:
            for engine in self._engines.values():
                engine.close()
            self._engines = {task.number: build_engine(task.spec, task.context, self._models)}
        return self._engines[task.number]


class Actors:
    """Group of Ray actors that score all test sets of one judge.

    The group starts at most ``actors`` actors, and no more actors than batches. Each actor has at most ``in_flight``
    unfinished batches at a time. If an actor dies, its unfinished batches are sent to other actors.
    """

    def __init__(self, actors: int, in_flight: int) -> None:
        self._most, self._in_flight = actors, in_flight
        self._workers: list[Any] = []
        self._coming: dict[Any, Any] = {}  # waiting for a place, or loading
        self._running: dict[Any, tuple[Any, Numbered]] = {}
        self._unread: Iterator[Numbered] = iter(())
        self._returned: list[Numbered] = []
        self._tasks = self._lost = 0

    def close(self) -> None:
        """Stop all actors of the judge and free their GPUs."""
        for worker in [*self._workers, *self._coming.values()]:
            self._end(worker)

    def score(self, spec: JudgeSpec, batches: Batches, context: Context) -> Iterator[tuple[int, list[Score], str]]:
        """Score all batches; yield the batch number, the scores and the engine's version for each batch.

        Raises ``JudgeError`` if Ray has too few GPUs for one actor, too many actors die, or no batch is scored in time.
        """
        import ray

        self._tasks += 1
        self._running, self._returned, self._unread, unanswered = {}, [], enumerate(batches), len(batches)
        task = ray.put(Task(self._tasks, spec, context.for_another_machine(spec)))
        _must_fit(ray, spec)
        answered_at = reported_at = time.monotonic()
        while unanswered and not batches.stopped:
            self._start(ray, spec, unanswered, task)
            self._send(task)
            ready, _ = ray.wait([*self._running, *self._coming], num_returns=1, timeout=5.0)
            now = time.monotonic()
            if ready or not self._running:
                answered_at = now
            if not ready and now - reported_at > _REPORT_EVERY_S and not self._workers:
                reported_at = now
                _must_fit(ray, spec)  # a node may have left the cluster
                _log.info(
                    "Judge %r waits until Ray assigns GPUs (needed: %g) and an actor has loaded the model.",
                    *(spec.name, spec.engine.gpus),
                )
            if now - answered_at > _BATCH_TIMEOUT_S:
                raise JudgeError(
                    f"judge {spec.name!r} scored no batch (batch_size: {spec.batch_size}) in {_BATCH_TIMEOUT_S:.0f} s; "
                    "lower batch_size in the judge's file, or read the reason in the Ray actor's log"
                )
            for reference in ready:
                worker = self._running[reference][0] if reference in self._running else self._coming[reference]
                try:
                    answer = _answer_of(spec, reference)
                    if reference in self._coming:
                        self._workers.append(self._coming.pop(reference))
                        _log.info("Judge %r: a Ray actor has loaded the model.", spec.name)
                        continue
                    scores, version = answer
                    _, (number, _) = self._running.pop(reference)
                    unanswered -= 1
                    self._send(task)  # the actor works while the caller stores the scores
                    yield number, scores, version
                except _LostActorError as error:
                    self._lost += 1
                    if self._lost > _MAX_LOST:
                        raise JudgeError(
                            f"judge {spec.name!r} stopped because {self._lost} of its Ray actors died ({error}); CARE "
                            "has stored the finished batches; read the actors' logs, then run again to continue"
                        ) from error
                    _log.warning("Judge %r: a Ray actor died (%s); CARE sends its batches again.", spec.name, error)
                    self._end(worker)

    def _start(self, ray: Any, spec: JudgeSpec, wanted: int, task: Any) -> None:
        for _ in range(min(self._most, wanted) - len(self._workers) - len(self._coming)):  # nearly always none
            worker: Any = ray.remote(num_cpus=0, num_gpus=spec.engine.gpus)(Worker).remote()
            self._coming[worker.load.remote(task)] = worker

    def _send(self, task: Any) -> None:
        for _ in range(self._in_flight):
            for worker in self._workers:
                if sum(other is worker for other, _ in self._running.values()) < self._in_flight:
                    batch = self._returned.pop() if self._returned else next(self._unread, None)
                    if batch is None:
                        return
                    self._running[worker.score.remote(task, batch[1])] = (worker, batch)

    def _end(self, worker: Any) -> None:
        import ray

        ray.kill(worker)
        self._workers = [other for other in self._workers if other is not worker]
        self._coming = {reference: other for reference, other in self._coming.items() if other is not worker}
        held = [reference for reference, (other, _) in self._running.items() if other is worker]
        self._returned += [self._running.pop(reference)[1] for reference in held]


def _must_fit(ray: Any, spec: JudgeSpec) -> None:
    """Raise ``JudgeError`` if Ray has too few GPUs for one actor; without this check, the actor would wait forever."""
    gpus, available = spec.engine.gpus, float(ray.cluster_resources().get("GPU", 0.0))
    if gpus > available:
        raise JudgeError(
            f"judge {spec.name!r} needs {gpus:g} GPU(s), but Ray has {available:g}; set num_gpus: 0 in its engine to "
            "run it on the CPU, or set RAY_ADDRESS or ray.address in care.yaml to a cluster with more GPUs"
        )


def _answer_of(spec: JudgeSpec, reference: Any) -> Any:
    import ray
    import ray.exceptions

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, JudgeError):
            raise error.cause from error
        reason = str(error).strip().splitlines()[-1]
        raise JudgeError(
            f"judge {spec.name!r} failed in its Ray actor ({reason}); read the actor's log. If GPU memory ran out, "
            "raise num_gpus or lower max_length in the judge's engine"
        ) from error
    except ray.exceptions.RayError as error:
        raise _LostActorError(str(error).strip().splitlines()[-1]) from error
