"""The Ray actors of one judge: they hold its loaded model, and score the batches that they are sent.

Belongs here: starting actors where the cluster has room, sending batches, and what is said when an actor fails. Does
not belong here: connecting to Ray, and what a batch is (``pool``).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from care_ops.errors import JudgeError
from judges.engines.base import Context, Engine
from judges.engines.factory import LoadedModels, build_engine
from judges.items import Item, Score
from judges.spec import JudgeSpec

_BATCH_TIMEOUT_S = 600.0
_LOAD_TIMEOUT_S = 3600.0
_TELL_EVERY_S = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """A judge as it scores one test set, and what its engine is given."""

    number: int
    spec: JudgeSpec
    context: Context


class Worker:
    """The Ray actor. It loads a model once, for all test sets of its judge.

    A batch carries everything that scoring it takes, so that an actor that was restarted can score it again.
    """

    def __init__(self) -> None:
        self._models = LoadedModels()
        self._engines: dict[int, Engine] = {}

    def placed(self) -> None:
        """Answer as soon as the actor has its place on the cluster."""

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
            raise

    def _engine(self, task: Task) -> Engine:
        if task.number not in self._engines:
            for engine in self._engines.values():
                engine.close()
            self._engines = {task.number: build_engine(task.spec, task.context, self._models)}
        return self._engines[task.number]


class Actors:
    """The actors of one judge, started when its first batches come and used for all its test sets.

    Parameters
    ----------
    actors : int
        Largest number of actors. Fewer are started where a test set has fewer batches, or Ray has too few GPUs.
    in_flight : int
        Batches that each actor is given before it has answered the first of them.
    """

    def __init__(self, actors: int, in_flight: int) -> None:
        self._most, self._in_flight = actors, in_flight
        self._workers: list[Any] = []
        self._tasks = 0

    def close(self) -> None:
        """End the actors, which frees their GPUs."""
        if self._workers:
            import ray

            for worker in self._workers:
                ray.kill(worker)
            self._workers = []

    def score(
        self, spec: JudgeSpec, batches: Sequence[Sequence[Item]], context: Context
    ) -> Iterator[tuple[int, list[Score], str]]:
        """Score each batch; yields its number, its scores and the engine's version as it comes back.

        Raises
        ------
        JudgeError
            Ray has too few GPUs for one actor, or an actor failed or did not answer in time.
        """
        import ray

        self._tasks += 1
        task = ray.put(Task(self._tasks, spec, context))
        self._start(spec, min(self._room(spec), len(batches)), task)
        waiting = list(reversed(range(len(batches))))
        running: dict[Any, tuple[Any, int]] = {}

        def send(worker: Any) -> None:
            if waiting:
                number = waiting.pop()
                running[worker.score.remote(task, batches[number])] = (worker, number)

        for worker in self._workers * self._in_flight:
            send(worker)
        while running:
            ready, _ = ray.wait(list(running), num_returns=1, timeout=_BATCH_TIMEOUT_S)
            if not ready:
                raise JudgeError(
                    f"judge {spec.name!r}: no batch of {spec.batch_size} came back in "
                    f"{_BATCH_TIMEOUT_S:.0f} s; lower batch_size, or see the actor's log"
                )
            worker, number = running.pop(ready[0])
            scores, version = _get(spec, ready[0], _BATCH_TIMEOUT_S)
            send(worker)
            yield number, scores, version

    def _room(self, spec: JudgeSpec) -> int:
        """How many actors may be started: no more than Ray has GPUs for, or the rest would wait for ever."""
        import ray

        gpus = spec.engine.gpus
        if gpus <= 0:
            return self._most
        available = float(ray.cluster_resources().get("GPU", 0.0))
        if gpus > available:
            raise JudgeError(
                f"judge {spec.name!r} asks for {gpus:g} GPU(s), Ray has {available:g}; set num_gpus: 0 in its "
                "engine to run it on the CPU, or name a cluster in RAY_ADDRESS"
            )
        room = min(self._most, int(available / gpus))
        if room < self._most and not self._workers:
            counts = self._most, gpus, available, room
            _log.warning(
                "Judge %r: %d actors of %g GPU(s) were asked for, Ray has %g; %d are used.", spec.name, *counts
            )
        return room

    def _start(self, spec: JudgeSpec, wanted: int, task: Any) -> None:
        """Start the actors that are lacking, wait until they have their place, and load the model in each."""
        import ray

        gpus = spec.engine.gpus
        actor: Any = ray.remote(max_restarts=3, max_task_retries=3, num_cpus=0, num_gpus=gpus)(Worker)
        new = [actor.remote() for _ in range(wanted - len(self._workers))]
        if not new:
            return
        self._workers += new
        places = [worker.placed.remote() for worker in new]
        # Other judges may hold the GPUs for hours: whoever waits for a place is not slow to load.
        while len(ray.wait(places, num_returns=len(places), timeout=_TELL_EVERY_S)[0]) < len(places):
            _log.info("Judge %r: waiting for %g GPU(s) for each of %d actor(s).", spec.name, gpus, len(new))
        _log.info("Judge %r: loading in %d Ray actor(s), %g GPU(s) each.", spec.name, len(new), gpus)
        started = time.perf_counter()
        _get(spec, [worker.load.remote(task) for worker in new], _LOAD_TIMEOUT_S)
        _log.info("Judge %r: loaded after %.1f s.", spec.name, time.perf_counter() - started)


def _get(spec: JudgeSpec, reference: Any, timeout: float) -> Any:
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
    except ray.exceptions.GetTimeoutError as error:
        raise JudgeError(f"judge {spec.name!r} was not loaded within {timeout:.0f} s; see the actor's log") from error
    except ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise JudgeError(
            f"judge {spec.name!r}: its actor failed and could not be restarted ({last}); the batches "
            "that came back are kept, and the next run continues from there"
        ) from error
