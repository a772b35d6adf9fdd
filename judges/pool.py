"""Pool that runs judges on their pending items, in this process or on Ray actors.

The pool reads a batch only when needed, and drops the batch after storing the scores, to save memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt

from care_ops.errors import JudgeError
from judges.bill import Bill
from judges.engines.base import Context, StoppedError
from judges.engines.factory import build_engine
from judges.items import MAY_PASS, Item, Score
from judges.ray_cluster import FROM_ENVIRONMENT, RayConfig
from judges.spec import JudgeSpec, OpenAIEngine

if TYPE_CHECKING:
    from judges.actors import Actors
    from judges.engines.factory import LoadedModels
    from judges.questions import Batches, Questions

Sink = Callable[[Sequence[Score], str], None]
"""Function that stores a batch of scores; it receives the scores and the engine's version."""

BATCHES_AHEAD = 2
"""Number of batches that an engine processes at the same time; a killed process loses their scores."""

STORED_EVERY_S = 5.0
"""Maximum time in seconds until an endpoint's answers are stored, even if their batch is incomplete."""

_log = logging.getLogger(__name__)


class DownError(JudgeError):
    """Error raised when a judge was stopped because too many items of a batch failed."""


@dataclass(frozen=True)
class Progress:
    """Progress of a judge through its pending items.

    Attributes
    ----------
    done, total : int
        Number of scored items, and number of all pending items.
    seconds : float
        Seconds since the judge received its first batch.
    """

    done: int
    total: int
    seconds: float

    def __str__(self) -> str:
        rate = self.done / self.seconds if self.seconds > 0 else 0.0
        left = f", {(self.total - self.done) / rate:,.0f} s left" if 0 < self.done < self.total else ""
        return f"{self.done:,} of {self.total:,} items, {rate:,.1f} items/s{left}"


@dataclass(frozen=True)
class PoolConfig:
    """Settings of the pool that runs judges.

    Attributes
    ----------
    mode : {"auto", "inline", "ray"}
        ``inline`` runs judges in this process, ``ray`` in Ray actors. ``auto`` uses Ray for models that are loaded on
        this machine or cluster, and this process for all other judges.
    actors : int
        Maximum number of Ray actors for each judge. Each actor loads a copy of the judge's model.
    side_by_side : int
        Maximum number of judges without a GPU that run at the same time. Judges on GPUs run when Ray has free GPUs.
    spend_limit : float, optional
        Maximum amount in US dollars that all judges together may spend in a day (UTC). The limits in the judges' files
        also apply. With a limit, endpoints without prices receive no requests.
    leave_out_flagged : bool
        Whether to leave items out of a test set if their response addresses the judge (``care_ops.injections``) or
        contains invisible characters.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    mode: Literal["auto", "inline", "ray"] = "auto"
    actors: Annotated[int, Ge(1)] = 1
    side_by_side: Annotated[int, Ge(1)] = 1
    spend_limit: Annotated[float, Gt(0)] | None = None
    leave_out_flagged: bool = False


class Stop:
    """Flag that asks a pool to end its work early."""

    def __init__(self) -> None:
        self.requested = False
        self._callbacks: list[Callable[[], None]] = []

    def request(self) -> None:
        """Stop the pool, but still store the answers to open requests; any thread may call this method."""
        self.requested = True
        for callback in [*self._callbacks]:
            callback()
        _log.info("CARE was asked to stop; it sends no further requests to judges.")

    def on_request(self, callback: Callable[[], None]) -> None:
        """Register a callback for ``request``, or run it immediately if a stop has already been requested."""
        self._callbacks.append(callback)
        if self.requested:
            callback()


class Pool(ExitStack):
    """Context manager that runs judges; on exit it shuts down Ray, unless Ray was already running.

    The pool starts Ray, or connects to a Ray cluster, when the first judge needs Ray; all judges then share it.
    """

    def __init__(self, config: PoolConfig, ray: RayConfig = FROM_ENVIRONMENT) -> None:
        super().__init__()
        self._config, self._ray = config, ray
        self._starting = threading.Lock()
        self._without_gpu = threading.Semaphore(config.side_by_side)
        self.stop = Stop()

    @contextmanager
    def session(self, gpus: float = 0.0) -> Generator[Session]:
        """Open a session that keeps a model loaded until a judge needs another model.

        If ``gpus`` is positive, the session opens immediately, and Ray decides when the judge gets its GPUs. Otherwise
        the session opens when fewer than ``side_by_side`` sessions without GPUs are open.
        """
        on_ray = gpus > 0 and self._config.mode != "inline"
        with nullcontext() if on_ray else self._without_gpu:
            session = Session(self._config, self._start_ray, self.stop)
            try:
                yield session
            finally:
                session.close()

    def _start_ray(self) -> None:
        import ray

        from judges.ray_cluster import connect

        with self._starting:
            if ray.is_initialized():
                return
            connect(self._ray)
            self.callback(ray.shutdown)


class Session:
    """Session in which a pool runs judges one after another and keeps the last model loaded."""

    def __init__(self, config: PoolConfig, start_ray: Callable[[], None], stop: Stop) -> None:
        self._config, self._start_ray, self._stop = config, start_ray, stop
        self._models: LoadedModels = {}
        self._actors: Actors | None = None
        self._loaded: tuple[object, ...] = ()

    def close(self) -> None:
        """Release the loaded model and stop its Ray actors."""
        if self._actors is not None:
            self._actors.close()
        self._models, self._actors = {}, None

    def run(
        self,
        spec: JudgeSpec,
        items: Questions | Sequence[Item],
        sink: Sink,
        context: Context | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> int:
        """Score items; pass each finished batch to ``sink`` in this process, and return the number of scored items.

        Parameters
        ----------
        items : Questions or sequence of Item
            Pending items of one test set.
        sink : callable
            Function that stores a batch of scores; the batch is done when the function returns.
        context : Context, optional
            Folders, costs and callbacks that the engine needs in addition to the judge's specification.
        progress : callable, optional
            Function that receives the progress after every batch.

        Raises
        ------
        JudgeError
            If the engine cannot be built, a Ray actor did not answer in time, too large a share of a batch failed, or
            the spend limit is reached. The sink has already received every answered batch.
        """
        from judges.questions import Batches, ItemsInMemory, Questions

        questions = items if isinstance(items, Questions) else Questions(ItemsInMemory(items), spec)
        by_file = context is not None and context.batches is not None
        if not len(questions) and not by_file:
            return 0
        if spec.engine.loaded not in ((), self._loaded):
            self.close()
            self._loaded = spec.engine.loaded
        batches = Batches(questions, spec.batch_size, lambda: self._stop.requested)
        try:
            return self._run(spec, questions, batches, sink, context or Context(), progress)
        except BaseException:  # its actors may still be at work
            self.close()
            raise

    def _run(
        self,
        spec: JudgeSpec,
        questions: Questions,
        batches: Batches,
        sink: Sink,
        context: Context,
        progress: Callable[[Progress], None] | None,
    ) -> int:
        by_file = context.batches is not None
        mode, needs = self._config.mode, spec.engine.needs
        uses_ray = not needs.endpoint and (mode == "ray" or (mode == "auto" and needs.model))
        score_batches = self._on_ray if uses_ray else self._inline
        done, started, down, judged = 0, time.perf_counter(), "", list[Score]()
        _log.info(
            "Judge %r has %d pending items with %d distinct questions in %d batches.",
            *(spec.name, questions.items, len(questions), len(batches)),
        )
        for number, scores, version in score_batches(spec, batches, context):
            item_scores = questions.of_items(scores)
            if context.ledger and not needs.endpoint:
                context.ledger.add(Bill.of(scores))
            sink(item_scores, version)
            whole = min(spec.batch_size, questions.items - done + len(judged))
            judged += item_scores
            down = _why_down(spec, judged, whole * (not by_file)) or down * (not by_file)  # a file counts as a whole
            judged = judged if by_file or down or len(judged) < whole else []
            batches.down = bool(down)  # open requests are still stored: they are paid for
            done += len(item_scores)
            state = Progress(done, questions.items, time.perf_counter() - started)
            _log.debug("Judge %r: batch %d was stored; %s.", spec.name, number, state)
            if progress is not None:
                progress(state)
        if down:
            raise DownError(down)
        if self._stop.requested:
            raise JudgeError(f"judge {spec.name!r} was interrupted; `care run` continues with the remaining items")
        return done

    def _on_ray(self, spec: JudgeSpec, batches: Batches, context: Context) -> Iterator[tuple[int, list[Score], str]]:
        from judges.actors import Actors

        self._start_ray()
        if self._actors is None:
            self._actors = Actors(self._config.actors, BATCHES_AHEAD)
        return self._actors.score(spec, batches, context)

    def _inline(self, spec: JudgeSpec, batches: Batches, context: Context) -> Iterator[tuple[int, list[Score], str]]:
        if isinstance(spec.engine, OpenAIEngine) and context.batches is not None:
            from judges.engines.batches import BatchJudgeEngine

            with closing(BatchJudgeEngine(spec, spec.engine, context, context.batches)) as by_file:
                self._stop.on_request(by_file.stop)
                yield from ((number, scores, by_file.version) for number, scores in enumerate(by_file.run(batches)))
        elif isinstance(spec.engine, OpenAIEngine):
            yield from self._overlapping(spec, spec.engine, batches, context)
        else:
            with closing(build_engine(spec, context, self._models)) as engine:
                for number, batch in enumerate(batches.until_stopped()):
                    yield number, engine.score(batch), engine.version

    def _overlapping(
        self, spec: JudgeSpec, settings: OpenAIEngine, batches: Batches, context: Context
    ) -> Iterator[tuple[int, list[Score], str]]:
        """Send concurrent questions to an endpoint; yield the scores after each batch or every few seconds.

        The first question is sent alone. Until the first batch is complete, no question of a second batch is sent.
        """
        from judges.engines.openai import OpenAIJudgeEngine

        most, whole = BATCHES_AHEAD + settings.concurrency, min(spec.batch_size, len(batches.questions))
        waiting = batches.until_stopped(context.template(spec).unread)
        results = SimpleQueue[Future[tuple[list[Score], JudgeError | None]]]()
        kept, number, since = list[Score](), 0, 0.0
        to_begin, begun, under_way = 1, 0, 0
        stopped: JudgeError | None = None

        def score(batch: list[Item]) -> tuple[list[Score], JudgeError | None]:
            try:
                scores, failure = engine.score(batch), None
            except JudgeError as error:
                scores, failure = error.scores if isinstance(error, StoppedError) else [], error
            if context.ledger is not None:  # which has each request already
                context.ledger.add(Bill(len(scores)))
            if context.answered is not None and scores:
                context.answered(batches.questions.of_items(scores), engine.version)
            return scores, failure

        with closing(OpenAIJudgeEngine(spec, settings, context)) as engine, ThreadPoolExecutor(most) as threads:
            self._stop.on_request(engine.stop)
            try:
                while True:
                    for batch in islice(waiting, to_begin):
                        threads.submit(score, batch).add_done_callback(results.put)
                        under_way += 1
                    if not under_way:
                        break
                    left = max(0.0, since + STORED_EVERY_S - time.monotonic()) if kept else None
                    with suppress(Empty):
                        scores, failure = results.get(timeout=left).result()
                        under_way -= 1
                        stopped = stopped or failure
                        since = since if kept else time.monotonic()
                        kept += scores
                    is_late = time.monotonic() >= since + STORED_EVERY_S
                    if kept and (len(kept) >= whole or is_late or _why_down(spec, kept, whole)):
                        yield number, kept[:whole], engine.version
                        number, kept = number + 1, kept[whole:]
                    begun += to_begin
                    to_begin = 0 if stopped else min(most - under_way, most if number else whole - begun)
            finally:
                engine.stop()
            if kept:
                yield number, kept, engine.version
        if stopped is not None:
            raise stopped


def _why_down(spec: JudgeSpec, scores: Sequence[Score], of: int) -> str:
    failed = [score for score in scores if score.status in MAY_PASS]
    if not spec.engine.needs.template or len(failed) <= spec.most_failing * max(of, len(scores)):
        return ""
    counts = ", ".join(f"{count} {status}" for status, count in Counter(str(s.status) for s in failed).items())
    return (
        f"CARE stopped judge {spec.name!r}: {len(failed)} of {len(scores)} items of a batch failed ({counts}; first "
        f"reason: {failed[0].raw!r}); the limit in the judge's file is `most_failing: {spec.most_failing:g}`. Make "
        "sure that the model answers, then run again: CARE scores the failed items again, and then the other items"
    )
