"""Runs one judge over its pending items, inline or on Ray actors, and hands each batch to a sink.

Belongs here: batching, actors, what is in flight. Does not: which items are pending, or where a batch is
kept; both are the caller's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from care_ops.errors import JudgeError
from judges.engines.base import Engine, Recording, build_engine
from judges.items import Item, Score
from judges.spec import JudgeSpec, RecordedEngine

Sink = Callable[[Sequence[Score]], None]

_BATCH_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class PoolConfig:
    """How judges are run.

    Attributes
    ----------
    mode : {"inline", "ray"}
        ``inline`` runs in this process; ``ray`` starts actors on ``RAY_ADDRESS`` or an embedded Ray.
    actors : int
        Actors a judge.
    in_flight : int
        Batches handed to each actor ahead of its answers.
    num_gpus : float
        GPUs an actor asks for.
    """

    mode: str = "inline"
    actors: int = 1
    in_flight: int = 2
    num_gpus: float = 0.0


class Pool:
    """Runs judges one after the other; a context that ends what it started.

    Ray is started when the first batch needs it, once for all judges of the block: at ``RAY_ADDRESS``,
    or embedded. One that was up before stays up.

    Parameters
    ----------
    config : PoolConfig

    Raises
    ------
    JudgeError
        The mode is neither ``inline`` nor ``ray``.
    """

    def __init__(self, config: PoolConfig) -> None:
        if config.mode not in ("inline", "ray"):
            raise JudgeError(f"pool: no mode {config.mode!r}; use inline or ray")
        self._config = config
        self._started_ray = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._started_ray:
            import ray

            ray.shutdown()
            self._started_ray = False

    def run(
        self,
        spec: JudgeSpec,
        items: Sequence[Item],
        sink: Sink,
        recordings: Mapping[str, Recording] | None = None,
    ) -> int:
        """Score ``items`` and hand each finished batch to ``sink`` in this process.

        Parameters
        ----------
        spec : JudgeSpec
        items : sequence of Item
            The pending ones only.
        sink : callable
            Given a batch of scores; returns once the batch is safe. A batch counts as done only then.
        recordings : mapping, optional
            For recorded judges.

        Returns
        -------
        int
            Items scored.

        Raises
        ------
        JudgeError
            The judge cannot be built, or an actor did not answer in time.
        """
        batches = [items[k : k + spec.batch_size] for k in range(0, len(items), spec.batch_size)]
        if not batches:
            return 0
        looked_up = isinstance(spec.engine, RecordedEngine)  # nothing to compute, hence nothing to spread
        answers = self._on_ray if self._config.mode == "ray" and not looked_up else _inline
        done = 0
        for scores in answers(spec, batches, recordings):
            sink(scores)
            done += len(scores)
        return done

    def _on_ray(
        self, spec: JudgeSpec, batches: Sequence[Sequence[Item]], recordings: Mapping[str, Recording] | None
    ) -> Iterator[list[Score]]:
        import ray
        import ray.exceptions

        self._start_ray()
        config = self._config
        actor: Any = ray.remote(max_restarts=2, max_task_retries=2, num_cpus=0, num_gpus=config.num_gpus)(_Worker)
        workers = [actor.remote(spec, recordings) for _ in range(min(config.actors, len(batches)))]
        try:
            waiting = list(reversed(batches))
            running: dict[Any, Any] = {}
            for worker in workers * config.in_flight:
                if waiting:
                    running[worker.score.remote(waiting.pop())] = worker
            while running:
                ready, _ = ray.wait(list(running), num_returns=1, timeout=_BATCH_TIMEOUT_S)
                if not ready:
                    raise JudgeError(
                        f"judge {spec.name!r}: no batch of {spec.batch_size} came back in "
                        f"{_BATCH_TIMEOUT_S:.0f} s; lower batch_size, or see the actor's log"
                    )
                worker = running.pop(ready[0])
                try:
                    scores: list[Score] = ray.get(ready[0])
                except ray.exceptions.RayError as error:
                    last = str(error).strip().splitlines()[-1]
                    raise JudgeError(
                        f"judge {spec.name!r}: its actor failed and was not to be revived ({last}); the batches "
                        "that came back are kept, the next run goes on from there"
                    ) from error
                if waiting:
                    running[worker.score.remote(waiting.pop())] = worker
                yield scores
        finally:
            for worker in workers:
                ray.kill(worker)

    def _start_ray(self) -> None:
        import ray

        if ray.is_initialized():
            return
        address = os.environ.get("RAY_ADDRESS")
        options: dict[str, Any] = {} if address else {"num_cpus": 2, "include_dashboard": False}
        ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
        self._started_ray = True


def _inline(
    spec: JudgeSpec, batches: Sequence[Sequence[Item]], recordings: Mapping[str, Recording] | None
) -> Iterator[list[Score]]:
    engine = build_engine(spec, recordings)
    yield from (engine.score(batch) for batch in batches)


class _Worker:
    """Holds one engine; batches are stateless, so a restarted actor can answer them again."""

    def __init__(self, spec: JudgeSpec, recordings: Mapping[str, Recording] | None) -> None:
        self._engine: Engine = build_engine(spec, recordings)

    def score(self, batch: Sequence[Item]) -> list[Score]:
        return self._engine.score(batch)
