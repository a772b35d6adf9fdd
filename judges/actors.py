"""The Ray actors of one judge: they hold its loaded model, and score the batches that they are sent.

An engine that runs out of memory gets its batch again in smaller pieces, in a fresh actor. The batches of an actor
whose node is gone go to the actors that are left. A batch in pieces comes back in pieces, each of which can be stored.

Belongs here: starting actors where the cluster has room, sending batches, and what is done and said when an actor
fails. Does not belong here: connecting to Ray, and what a batch is (``pool``).
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
_LOOK_AT_NODES_EVERY_S = 5.0
_PIECES = 4
"""Into so many pieces a batch is cut that did not fit into memory; each cut means loading the model again."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """A judge as it scores one test set, and what its engine is given."""

    number: int
    spec: JudgeSpec
    context: Context


@dataclass(frozen=True)
class Piece:
    """A batch that is to be scored, or a part of it, with the batch's number."""

    number: int
    items: Sequence[Item]


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
            if is_out_of_memory(error):
                raise EngineMemoryError(str(error).strip().partition("\n")[0]) from error
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
        self._largest: int | None = None
        self._workers: list[Any] = []
        self._nodes: dict[Any, str] = {}
        self._tasks = 0
        self._told = False

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
        waiting = [Piece(number, batch) for number, batch in enumerate(batches)][::-1]
        running: dict[Any, tuple[Any, Piece]] = {}
        answered_at = time.monotonic()
        self._start(spec, min(self._room(spec), len(batches)), task)
        while waiting or running:
            if not self._workers:  # one that is lost is replaced at once only where none is left: places may be rare
                self._start(spec, min(self._room(spec), len(waiting)), task)
            self._send(task, waiting, running)
            ready, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_AT_NODES_EVERY_S)
            if ready:
                worker, piece = running.pop(ready[0])
                try:
                    scores, version = _get(spec, ready[0], _BATCH_TIMEOUT_S)
                except EngineMemoryError as error:
                    self._use_less_memory(spec, piece, error)
                    waiting += [piece, *self._give_up(worker, running)]
                else:
                    self._send(task, waiting, running)  # so that the actor has work while the caller stores the scores
                    yield piece.number, scores, version
                answered_at = time.monotonic()
            elif lost := self._on_dead_nodes():
                _log.warning("Judge %r: the node of %d of its actors is gone.", spec.name, len(lost))
                waiting += [piece for worker in lost for piece in self._give_up(worker, running)]
                answered_at = time.monotonic()
            elif time.monotonic() - answered_at > _BATCH_TIMEOUT_S:
                raise JudgeError(
                    f"judge {spec.name!r}: no batch of {spec.batch_size} came back in "
                    f"{_BATCH_TIMEOUT_S:.0f} s; lower batch_size, or see the actor's log"
                )

    def _send(self, task: Any, waiting: list[Piece], running: dict[Any, tuple[Any, Piece]]) -> None:
        """Give each actor as many pieces as it may have, none larger than has been found to fit into memory."""
        for _ in range(self._in_flight):
            for worker in self._workers:
                if waiting and sum(of is worker for of, _ in running.values()) < self._in_flight:
                    piece = waiting.pop()
                    if self._largest is not None and len(piece.items) > self._largest:
                        waiting.append(Piece(piece.number, piece.items[self._largest :]))
                        piece = Piece(piece.number, piece.items[: self._largest])
                    running[worker.score.remote(task, piece.items)] = (worker, piece)

    def _use_less_memory(self, spec: JudgeSpec, piece: Piece, error: EngineMemoryError) -> None:
        """Make batches smaller and the queue shorter, unless a single question was too much."""
        if len(piece.items) == 1:
            raise JudgeError(
                f"judge {spec.name!r} ran out of memory on a single question ({error}); give it more GPUs "
                "(tensor_parallel), or lower gpu_memory or max_length in its engine"
            ) from error
        self._largest, self._in_flight = max(1, len(piece.items) // _PIECES), 1
        sizes = spec.name, len(piece.items), self._largest
        _log.warning("Judge %r: out of memory on a batch of %d; it goes on with batches of %d, one at a time.", *sizes)

    def _give_up(self, worker: Any, running: dict[Any, tuple[Any, Piece]]) -> list[Piece]:
        """End an actor; returns the pieces that it was still to score."""
        import ray

        ray.kill(worker)
        self._workers = [other for other in self._workers if other is not worker]
        self._nodes.pop(worker, None)
        unfinished = [reference for reference, (of, _) in running.items() if of is worker]
        return [running.pop(reference)[1] for reference in unfinished]

    def _on_dead_nodes(self) -> list[Any]:
        """The actors whose node is gone. Ray would wait for another place for them, which there may never be."""
        import ray

        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        return [worker for worker in self._workers if self._nodes.get(worker) not in alive]

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
        if room < self._most and not self._told:
            self._told = True
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
        self._nodes |= dict(zip(new, _get(spec, places, _TELL_EVERY_S), strict=True))
        _log.info("Judge %r: loading in %d Ray actor(s), %g GPU(s) each.", spec.name, len(new), gpus)
        started = time.perf_counter()
        _get(spec, [worker.load.remote(task) for worker in new], _LOAD_TIMEOUT_S)
        _log.info("Judge %r: loaded after %.1f s.", spec.name, time.perf_counter() - started)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch, or of what is built on it, says that there is no memory left."""
    return any(kind.__name__ in ("OutOfMemoryError", "MemoryError") for kind in type(error).__mro__)


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
