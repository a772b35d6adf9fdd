"""Runs one judge over its pending items, inline or on Ray actors, and hands each batch to a sink.

Items of equal texts are one question, asked once. Models get questions in the order of their texts, so that they find
what they have read already in their cache.

Belongs here: batching, actors, what is in flight. Does not: which items are pending, or where a batch is
kept; both are the caller's.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge

from care_ops.errors import JudgeError
from judges.engines.base import Context, Engine, SpendLimitError
from judges.engines.factory import build_engine
from judges.items import MAY_PASS, Item, Score
from judges.spec import JudgeSpec

Sink = Callable[[Sequence[Score], str], None]
"""Given the scores of a batch and the version of the engine that made them."""

_BATCH_TIMEOUT_S = 600.0
_LOAD_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Progress:
    """How far a judge is.

    Attributes
    ----------
    done, total : int
        Items.
    questions : int
        Different ones among them.
    seconds : float
        Since the judge was ready.
    tokens : int
        Read so far.
    """

    done: int
    total: int
    questions: int
    seconds: float
    tokens: int

    def __str__(self) -> str:
        rate = self.done / self.seconds if self.seconds > 0 else 0.0
        left = f", {(self.total - self.done) / rate:,.0f} s left" if 0 < self.done < self.total else ""
        tokens = f", {self.tokens / self.seconds:,.0f} tokens/s" if self.tokens and self.seconds > 0 else ""
        return (
            f"{self.done:,} of {self.total:,} items ({self.questions:,} questions), {rate:,.1f} items/s{tokens}{left}"
        )


@dataclass(frozen=True)
class PoolConfig:
    """How judges are run.

    Attributes
    ----------
    mode : {"auto", "inline", "ray"}
        Where judges run: ``inline`` in this process, ``ray`` in actors on ``RAY_ADDRESS`` or an embedded Ray; ``auto``
        takes Ray for models that are loaded here and this process for the rest.
    actors : int
        Ray actors for each judge, each with a copy of its model.
    in_flight : int
        Batches handed to each actor ahead of its answers.
    side_by_side : int
        Judges that run at the same time, where the machine has room for their models.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    mode: Literal["auto", "inline", "ray"] = "auto"
    actors: Annotated[int, Ge(1)] = 1
    in_flight: Annotated[int, Ge(1)] = 2
    side_by_side: Annotated[int, Ge(1)] = 1


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
        There is no such mode.
    """

    def __init__(self, config: PoolConfig) -> None:
        if config.mode not in ("auto", "inline", "ray"):
            raise JudgeError(f"pool: no mode {config.mode!r}; use auto, inline or ray")
        self._config = config
        self._started_ray = False
        self._starting = threading.Lock()

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
        context: Context | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> int:
        """Score ``items`` and hand each finished batch to ``sink`` in this process.

        Parameters
        ----------
        spec : JudgeSpec
        items : sequence of Item
            The pending ones only.
        sink : callable
            Given a batch of scores; returns once the batch is safe. A batch counts as done only then.
        context : Context, optional
            What the engine needs beside its specification.
        progress : callable, optional
            Told after every batch.

        Returns
        -------
        int
            Items scored.

        Raises
        ------
        JudgeError
            The judge cannot be built, an actor did not answer in time, too much of a batch failed, or no more money may
            be spent. Batches that were answered are with the sink.
        """
        if not items:
            return 0
        groups = _questions(items, spec)
        batches = [groups[k : k + spec.batch_size] for k in range(0, len(groups), spec.batch_size)]
        asked = [[group[0] for group in batch] for batch in batches]
        answers = self._on_ray if self._uses_ray(spec) else _inline
        done = tokens = 0
        started = time.perf_counter()
        for number, scores, version in answers(spec, asked, context or Context()):
            members = {group[0].key: group for group in batches[number]}
            full = [score.of(item) for score in scores for item in members[score.item_key]]
            sink(full, version)
            _must_not_be_down(spec, full)
            done += len(full)
            tokens += sum(score.tokens_in or 0 for score in scores)
            if progress is not None:
                progress(Progress(done, len(items), len(groups), time.perf_counter() - started, tokens))
        return done

    def _uses_ray(self, spec: JudgeSpec) -> bool:
        """Recorded scores and endpoints compute nothing here, hence have nothing to spread."""
        needs = spec.engine.needs
        if needs.recordings or needs.endpoint:
            return False
        return self._config.mode == "ray" or (self._config.mode == "auto" and needs.model)

    def _on_ray(
        self, spec: JudgeSpec, batches: Sequence[Sequence[Item]], context: Context
    ) -> Iterator[tuple[int, list[Score], str]]:
        import ray

        self._start_ray()
        config = self._config
        gpus = spec.engine.gpus
        there = float(ray.cluster_resources().get("GPU", 0.0))
        if gpus > there:
            raise JudgeError(
                f"judge {spec.name!r} asks for {gpus:g} GPU(s), Ray has {there:g}; set num_gpus: 0 in its engine to "
                "run it on the CPU, or name a cluster in RAY_ADDRESS"
            )
        actor: Any = ray.remote(max_restarts=3, max_task_retries=3, num_cpus=0, num_gpus=gpus)(_Worker)
        workers = [actor.remote(spec, context) for _ in range(min(config.actors, len(batches)))]
        try:
            self._get(spec, [worker.ready.remote() for worker in workers], _LOAD_TIMEOUT_S)
            waiting = list(reversed(range(len(batches))))
            running: dict[Any, tuple[Any, int]] = {}

            def send(worker: Any) -> None:
                if waiting:
                    number = waiting.pop()
                    running[worker.score.remote(batches[number])] = (worker, number)

            for worker in workers * config.in_flight:
                send(worker)
            while running:
                ready, _ = ray.wait(list(running), num_returns=1, timeout=_BATCH_TIMEOUT_S)
                if not ready:
                    raise JudgeError(
                        f"judge {spec.name!r}: no batch of {spec.batch_size} came back in "
                        f"{_BATCH_TIMEOUT_S:.0f} s; lower batch_size, or see the actor's log"
                    )
                worker, number = running.pop(ready[0])
                scores, version = self._get(spec, ready[0], _BATCH_TIMEOUT_S)
                send(worker)
                yield number, scores, version
        finally:
            for worker in workers:
                ray.kill(worker)

    @staticmethod
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
            raise JudgeError(
                f"judge {spec.name!r} was not loaded within {timeout:.0f} s; see the actor's log"
            ) from error
        except ray.exceptions.RayError as error:
            last = str(error).strip().splitlines()[-1]
            raise JudgeError(
                f"judge {spec.name!r}: its actor failed and was not to be revived ({last}); the batches "
                "that came back are kept, the next run goes on from there"
            ) from error

    def _start_ray(self) -> None:
        import ray

        with self._starting:
            if ray.is_initialized():
                return
            address = os.environ.get("RAY_ADDRESS")
            options: dict[str, Any] = {} if address else {"num_cpus": 2, "include_dashboard": False}
            ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
            self._started_ray = True


def _must_not_be_down(spec: JudgeSpec, scores: Sequence[Score]) -> None:
    """``JudgeError`` where so much of a batch failed that the rest would fail too, and cost time and money."""
    failed = [score for score in scores if score.status in MAY_PASS]
    if not spec.engine.needs.template or len(failed) <= spec.most_failing * len(scores):
        return
    counts = ", ".join(f"{count} {status}" for status, count in Counter(str(s.status) for s in failed).items())
    raise JudgeError(
        f"judge {spec.name!r} was stopped: {len(failed)} of {len(scores)} items of a batch failed ({counts}; the first "
        f"says {failed[0].raw!r}), more than `most_failing: {spec.most_failing:g}` in its file allows. See that its "
        "model answers, and run again: what failed and what is left is asked then"
    )


def _questions(items: Sequence[Item], spec: JudgeSpec) -> list[list[Item]]:
    """Items of equal texts together; recordings are of items, not of texts."""
    if spec.engine.needs.recordings:
        return [[item] for item in items]
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.text_key, []).append(item)
    found = list(groups.values())
    if spec.engine.needs.template:
        found.sort(key=lambda group: (*(text or "" for text in group[0].texts), group[0].item_id))
    return found


def _inline(
    spec: JudgeSpec, batches: Sequence[Sequence[Item]], context: Context
) -> Iterator[tuple[int, list[Score], str]]:
    with closing(build_engine(spec, context)) as engine:
        for number, batch in enumerate(batches):
            try:
                yield number, engine.score(batch), engine.version
            except SpendLimitError as reached:
                yield number, reached.scores, engine.version
                raise


class _Worker:
    """Holds one engine; batches are stateless, so a restarted actor can answer them again."""

    def __init__(self, spec: JudgeSpec, context: Context) -> None:
        self._engine: Engine = build_engine(spec, context)

    def ready(self) -> str:
        return self._engine.version

    def score(self, batch: Sequence[Item]) -> tuple[list[Score], str]:
        try:
            return self._engine.score(batch), self._engine.version
        except Exception as error:
            if type(error).__name__ == "EngineDeadError":  # it would answer nothing else for ever; Ray starts another
                os._exit(13)
            raise
