"""Runs one judge over its pending items, in this process or on Ray actors, and hands each batch of scores to a sink.

Items with equal texts are one question, which is asked once. A language model gets its questions sorted by their texts,
so that the prefix that successive prompts share is already in the model's cache.

Belongs here: batching, Ray actors, and the batches that are being scored. Does not belong here: which items are pending
and where scores are kept; the caller decides both.
"""

from __future__ import annotations

import logging
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
from judges.ray_cluster import connect
from judges.spec import JudgeSpec

Sink = Callable[[Sequence[Score], str], None]
"""A function that stores a batch: it gets the scores and the version of the engine that made them."""

_BATCH_TIMEOUT_S = 600.0
_LOAD_TIMEOUT_S = 3600.0
_RECORDINGS_A_BATCH = 131_072
"""Recorded scores that are stored at once, in one part: one that is lost in a kill costs nothing to make again."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """How far a judge has come with its pending items.

    Attributes
    ----------
    done, total : int
        Number of items that are scored, and of all pending items.
    questions : int
        Number of different questions among all pending items.
    seconds : float
        Time since the judge was asked for its first batch.
    tokens : int
        Number of prompt tokens that the model has read.
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
        uses Ray for models that are loaded here and this process for all other judges.
    actors : int
        Ray actors for each judge, each with a copy of its model.
    in_flight : int
        Batches that each actor is given before it has answered the first of them.
    side_by_side : int
        Judges that run at the same time, if the machine has room for their models.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    mode: Literal["auto", "inline", "ray"] = "auto"
    actors: Annotated[int, Ge(1)] = 1
    in_flight: Annotated[int, Ge(1)] = 2
    side_by_side: Annotated[int, Ge(1)] = 1


class Pool:
    """Runs judges; use it as a context manager, which shuts down the Ray that it has started.

    Ray is started when the first judge needs it, and serves all judges of the ``with`` block: the cluster at
    ``RAY_ADDRESS``, or an embedded Ray. A Ray that was running before stays up.

    Parameters
    ----------
    config : PoolConfig

    Raises
    ------
    JudgeError
        ``config.mode`` is not one of the known modes.
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
            The pending items only.
        sink : callable
            Called with each finished batch of scores; returns once the batch is stored. Only then does the batch count
            as done.
        context : Context, optional
            What the engine needs besides its specification.
        progress : callable, optional
            Called after every batch.

        Returns
        -------
        int
            Number of items scored.

        Raises
        ------
        JudgeError
            The judge cannot be built, an actor did not answer in time, too large a share of a batch failed, or the
            spend limit is reached. The sink has every batch that was answered before.
        """
        if not items:
            return 0
        groups = _questions(items, spec)
        size = max(spec.batch_size, _RECORDINGS_A_BATCH) if spec.engine.needs.recordings else spec.batch_size
        batches = [groups[k : k + size] for k in range(0, len(groups), size)]
        questions = [[group[0] for group in batch] for batch in batches]
        score_batches = self._on_ray if self._uses_ray(spec) else _inline
        done = tokens = 0
        started = time.perf_counter()
        sizes = len(items), len(groups), len(batches)
        _log.info("Judge %r: %d pending items, %d different questions, in %d batches.", spec.name, *sizes)
        for number, scores, version in score_batches(spec, questions, context or Context()):
            members = {group[0].key: group for group in batches[number]}
            item_scores = [score.of(item) for score in scores for item in members[score.item_key]]
            sink(item_scores, version)
            _must_not_be_down(spec, item_scores)
            done += len(item_scores)
            tokens += sum(score.tokens_in or 0 for score in scores)
            state = Progress(done, len(items), len(groups), time.perf_counter() - started, tokens)
            _log.debug("Judge %r: batch %d is stored; %s.", spec.name, number, state)
            if progress is not None:
                progress(state)
        return done

    def _uses_ray(self, spec: JudgeSpec) -> bool:
        """Whether the judge runs on Ray; recorded scores and endpoints compute nothing here, so they never do."""
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
        available_gpus = float(ray.cluster_resources().get("GPU", 0.0))
        if gpus > available_gpus:
            raise JudgeError(
                f"judge {spec.name!r} asks for {gpus:g} GPU(s), Ray has {available_gpus:g}; set num_gpus: 0 in its "
                "engine to run it on the CPU, or name a cluster in RAY_ADDRESS"
            )
        actor: Any = ray.remote(max_restarts=3, max_task_retries=3, num_cpus=0, num_gpus=gpus)(_Worker)
        workers = [actor.remote(spec, context) for _ in range(min(config.actors, len(batches)))]
        try:
            _log.info("Judge %r: loading in %d Ray actor(s), %g GPU(s) each.", spec.name, len(workers), gpus)
            started = time.perf_counter()
            self._get(spec, [worker.ready.remote() for worker in workers], _LOAD_TIMEOUT_S)
            _log.info("Judge %r: loaded after %.1f s.", spec.name, time.perf_counter() - started)
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
                f"judge {spec.name!r}: its actor failed and could not be restarted ({last}); the batches "
                "that came back are kept, and the next run continues from there"
            ) from error

    def _start_ray(self) -> None:
        import ray

        with self._starting:
            if ray.is_initialized():
                return
            connect()
            self._started_ray = True


def _must_not_be_down(spec: JudgeSpec, scores: Sequence[Score]) -> None:
    """Raise ``JudgeError`` if so much of a batch failed that asking for the rest would waste time and money."""
    failed = [score for score in scores if score.status in MAY_PASS]
    if not spec.engine.needs.template or len(failed) <= spec.most_failing * len(scores):
        return
    counts = ", ".join(f"{count} {status}" for status, count in Counter(str(s.status) for s in failed).items())
    raise JudgeError(
        f"judge {spec.name!r} was stopped: {len(failed)} of {len(scores)} items of a batch failed ({counts}; the first "
        f"says {failed[0].raw!r}), more than `most_failing: {spec.most_failing:g}` in its file allows. Make sure that "
        "its model answers, and run again: the items that failed and the remaining ones are asked then"
    )


def _questions(items: Sequence[Item], spec: JudgeSpec) -> list[list[Item]]:
    """Group items with equal texts into one question; a recorded judge has a score for each item instead."""
    if spec.engine.needs.recordings:
        return [[item] for item in items]
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.text_key, []).append(item)
    questions = list(groups.values())
    if spec.engine.needs.template:
        questions.sort(key=lambda group: (*(text or "" for text in group[0].texts), group[0].item_id))
    return questions


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
    """The Ray actor, which holds one engine; batches are stateless, so a restarted actor can score them again."""

    def __init__(self, spec: JudgeSpec, context: Context) -> None:
        self._engine: Engine = build_engine(spec, context)

    def ready(self) -> str:
        return self._engine.version

    def score(self, batch: Sequence[Item]) -> tuple[list[Score], str]:
        try:
            return self._engine.score(batch), self._engine.version
        except Exception as error:
            if type(error).__name__ == "EngineDeadError":  # vLLM cannot recover in this process; Ray starts another
                os._exit(13)
            raise
