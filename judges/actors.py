"""Sends the batches of one judge to its Ray actors, and sends again what an actor could not score.

An engine that runs out of memory gets its batch again in smaller pieces, in a fresh actor. The batches of an actor
whose node is gone go to the actors that are left. A batch in pieces comes back in pieces, each of which can be stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from care_ops.errors import JudgeError
from judges.engines.base import Context
from judges.items import Item, Score
from judges.places import Places
from judges.spec import JudgeSpec
from judges.worker import EngineMemoryError, Task, answer_of

if TYPE_CHECKING:
    from judges.questions import Batches

_BATCH_TIMEOUT_S = 600.0
_LOOK_AROUND_EVERY_S = 5.0
_PIECES = 4
"""Into so many pieces a batch is cut that did not fit into memory; each cut means loading the model again."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Piece:
    """A batch that is to be scored, or a part of it, with the batch's number."""

    number: int
    items: Sequence[Item]


class _Queue:
    """The pieces that are still to be sent: those that came back unanswered, then the batches, read one by one."""

    def __init__(self, batches: Iterator[Sequence[Item]], count: int) -> None:
        self._batches, self._unread = enumerate(batches), count
        self._returned: list[Piece] = []

    def __len__(self) -> int:
        return len(self._returned) + self._unread

    def take(self) -> Piece:
        """The next piece."""
        if self._returned:
            return self._returned.pop()
        self._unread -= 1
        return Piece(*next(self._batches))

    def give_back(self, pieces: Sequence[Piece]) -> None:
        """Take back pieces that were not scored; they come first."""
        self._returned += pieces


class Actors:
    """The actors of one judge, started when its first batches come and used for all its test sets.

    Fewer than ``actors`` are started where a test set has fewer batches, or Ray has too few GPUs. Each is given
    ``in_flight`` batches before it has answered the first of them.
    """

    def __init__(self, actors: int, in_flight: int) -> None:
        self._places = Places(actors)
        self._in_flight = in_flight
        self._largest: int | None = None
        self._tasks = 0

    def close(self) -> None:
        """End the actors, which frees their GPUs."""
        self._places.close()

    def score(self, spec: JudgeSpec, batches: Batches, context: Context) -> Iterator[tuple[int, list[Score], str]]:
        """Score each batch; yields its number, its scores and the engine's version as it, or a piece of it, comes back.

        Parameters
        ----------
        batches : Batches
            Read as the actors ask for more; what they have under way where it is stopped is given up.

        Raises
        ------
        JudgeError
            Ray has too few GPUs for one actor, an actor failed or did not answer in time, or there is too little memory
            for a single question.
        """
        import ray

        self._tasks += 1
        task = ray.put(Task(self._tasks, spec, context.for_another_machine(spec)))
        waiting = _Queue(iter(batches), len(batches))
        running: dict[Any, tuple[Any, Piece]] = {}
        self._places.start(spec, len(waiting), task)
        answered_at = time.monotonic()
        while (waiting or running) and not batches.stopped:
            if not self._places.workers:  # one that is lost is replaced only where none is left: places may be rare
                self._places.start(spec, len(waiting), task)
                answered_at = time.monotonic()
            self._send(task, waiting, running)
            awaited = [*running, *self._places.coming]
            ready, _ = ray.wait(awaited, num_returns=1, timeout=_LOOK_AROUND_EVERY_S)
            self._places.admit(spec, task)
            if ready and ready[0] in running:
                answered_at = time.monotonic()
                worker, piece = running.pop(ready[0])
                try:
                    scores, version = answer_of(spec, ready[0], _BATCH_TIMEOUT_S)
                except EngineMemoryError as error:
                    self._use_less_memory(spec, piece, error)
                    waiting.give_back([piece, *self._give_up(worker, running)])
                else:
                    self._send(task, waiting, running)  # so that the actor has work while the caller stores the scores
                    yield piece.number, scores, version
            elif lost := self._places.on_dead_nodes():
                _log.warning("Judge %r: the node of %d of its actors is gone.", spec.name, len(lost))
                waiting.give_back([piece for worker in lost for piece in self._give_up(worker, running)])
            elif time.monotonic() - answered_at > _BATCH_TIMEOUT_S:
                raise JudgeError(
                    f"judge {spec.name!r}: no batch of {spec.batch_size} came back in "
                    f"{_BATCH_TIMEOUT_S:.0f} s; lower batch_size, or see the actor's log"
                )

    def _send(self, task: Any, waiting: _Queue, running: dict[Any, tuple[Any, Piece]]) -> None:
        """Give each actor as many pieces as it may have, none larger than has been found to fit into memory."""
        for _ in range(self._in_flight):
            for worker in self._places.workers:
                if waiting and sum(other is worker for other, _ in running.values()) < self._in_flight:
                    piece = waiting.take()
                    if self._largest is not None and len(piece.items) > self._largest:
                        waiting.give_back([Piece(piece.number, piece.items[self._largest :])])
                        piece = Piece(piece.number, piece.items[: self._largest])
                    running[worker.score.remote(task, piece.items)] = (worker, piece)

    def _use_less_memory(self, spec: JudgeSpec, piece: Piece, error: EngineMemoryError) -> None:
        """Make batches smaller and the queue shorter, unless a single question was too much."""
        if len(piece.items) == 1:
            raise JudgeError(
                f"judge {spec.name!r} ran out of memory on a single question ({error}); give it more GPUs "
                "(num_gpus), or lower max_length in its engine"
            ) from error
        self._largest, self._in_flight = max(1, len(piece.items) // _PIECES), 1
        sizes = spec.name, len(piece.items), self._largest
        _log.warning("Judge %r: out of memory on a batch of %d; it goes on with batches of %d, one at a time.", *sizes)

    def _give_up(self, worker: Any, running: dict[Any, tuple[Any, Piece]]) -> list[Piece]:
        """End an actor; returns the pieces that it was still to score."""
        self._places.end(worker)
        unfinished = [reference for reference, (other, _) in running.items() if other is worker]
        return [running.pop(reference)[1] for reference in unfinished]
