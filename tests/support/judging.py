"""Function that runs one judge in a pool."""

from collections.abc import Callable, Sequence
from typing import Any

from judges.items import Item, Score
from judges.pool import Pool
from judges.questions import Questions
from judges.spec import JudgeSpec

Sink = Callable[[Sequence[Score], str], Any]


def run_judge(pool: Pool, spec: JudgeSpec, items: Questions | Sequence[Item], sink: Sink, *more, **options) -> int:
    """Score the items of one test set in a new session of the pool."""
    with pool.session(spec.engine.gpus) as session:
        return session.run(spec, items, sink, *more, **options)
