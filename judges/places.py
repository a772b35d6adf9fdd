"""The actors of one judge, from asking Ray for a place to their end: waiting, loading, at work, or on a dead node.

Actors that have loaded do not wait long for others that have no place yet: two judges that each held one GPU and waited
for a second one would wait for ever.
"""

import logging
import time
from typing import Any

from care_ops.errors import JudgeError
from judges.spec import JudgeSpec
from judges.worker import Worker, answer_of

_LOAD_TIMEOUT_S = 3600.0
_TELL_EVERY_S = 60.0
_PATIENCE_S = 30.0
"""Time that the loaded actors wait for others to get a place before they begin without them."""

_log = logging.getLogger(__name__)


class Places:
    """The actors of one judge.

    Parameters
    ----------
    most : int
        Largest number of actors.

    Attributes
    ----------
    workers : list of Ray actors
        Those that have loaded the model.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._told_of_fewer = False
        self._nodes: dict[Any, str] = {}
        self._placing: dict[Any, Any] = {}
        self._loading: dict[Any, tuple[Any, float]] = {}
        self.workers: list[Any] = []

    def start(self, spec: JudgeSpec, wanted: int, task: Any) -> None:
        """Ask for the actors that are lacking, and wait until those that get a place have loaded the model.

        Raises ``JudgeError`` where Ray has too few GPUs for one actor, or the model cannot be loaded.
        """
        import ray

        gpus = spec.engine.gpus
        actor: Any = ray.remote(max_restarts=3, max_task_retries=3, num_cpus=0, num_gpus=gpus)(Worker)
        there = len(self.workers) + len(self._loading) + len(self._placing)
        for _ in range(min(self._room(spec), wanted) - there):
            worker = actor.remote()
            self._placing[worker.placed.remote()] = worker
        told = since = time.monotonic()
        while self.coming:
            ready, _ = ray.wait(self.coming, num_returns=1, timeout=1.0)
            self.admit(spec, task)
            now = time.monotonic()
            if ready or self._loading:
                since = now
            elif self.workers and now - since > _PATIENCE_S:
                break
            if self._placing and now - told > _TELL_EVERY_S:
                told = now
                self._room(spec)  # which may be gone with a node of the cluster
                counts = spec.name, gpus, len(self._placing)
                _log.info("Judge %r: waiting for %g GPU(s) for each of %d actor(s).", *counts)

    @property
    def coming(self) -> list[Any]:
        """What is answered when an actor has got its place, or has loaded its model."""
        return [*self._placing, *self._loading]

    def admit(self, spec: JudgeSpec, task: Any) -> None:
        """Have those actors load the model that have got a place, and take in those that have loaded it."""
        import ray

        placed = _ready(ray, self._placing)
        for reference in placed:
            worker = self._placing.pop(reference)
            self._nodes[worker] = answer_of(spec, reference, _TELL_EVERY_S)
            self._loading[worker.load.remote(task)] = (worker, time.monotonic())
        if placed:
            _log.info("Judge %r: loading in %d Ray actor(s), %g GPU(s) each.", spec.name, len(placed), spec.engine.gpus)
        for reference in _ready(ray, self._loading):
            worker, since = self._loading.pop(reference)
            self.workers.append(worker)  # before its answer is read, so that one that failed is ended with the others
            answer_of(spec, reference, _TELL_EVERY_S)
            _log.info("Judge %r: loaded after %.1f s.", spec.name, time.monotonic() - since)
        if any(time.monotonic() - since > _LOAD_TIMEOUT_S for _, since in self._loading.values()):
            raise JudgeError(f"judge {spec.name!r} was not loaded within {_LOAD_TIMEOUT_S:.0f} s; see the actor's log")

    def end(self, worker: Any) -> None:
        """End one actor."""
        import ray

        ray.kill(worker)
        self.workers = [other for other in self.workers if other is not worker]
        self._nodes.pop(worker, None)

    def close(self) -> None:
        """End all actors, which frees their GPUs."""
        everyone = [*self.workers, *self._placing.values(), *(worker for worker, _ in self._loading.values())]
        self._placing, self._loading = {}, {}
        for worker in everyone:
            self.end(worker)

    def on_dead_nodes(self) -> list[Any]:
        """The actors at work whose node is gone. Ray would wait for another place for them, which may never come."""
        import ray

        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        return [worker for worker in self.workers if self._nodes.get(worker) not in alive]

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
                "engine to run it on the CPU, or name a cluster in RAY_ADDRESS or care.yaml"
            )
        room = min(self._most, int(available / gpus))
        if room < self._most and not self._told_of_fewer:
            self._told_of_fewer = True
            counts = self._most, gpus, available, room
            _log.warning(
                "Judge %r: %d actors of %g GPU(s) were asked for, Ray has %g; %d are used.", spec.name, *counts
            )
        return room


def _ready(ray: Any, references: dict[Any, Any]) -> list[Any]:
    """The references whose answer is there."""
    return ray.wait(list(references), num_returns=len(references), timeout=0)[0] if references else []
