"""CPU time of a call: median over repeats, on one BLAS thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from threadpoolctl import threadpool_limits


def cpu_seconds(call: Callable[[], object], repeats: int) -> float:
    """Median CPU seconds of ``call`` after one that is not counted."""
    with threadpool_limits(limits=1):
        call()
        times: list[float] = []
        for _ in range(repeats):
            started = time.process_time()
            call()
            times.append(time.process_time() - started)
    return statistics.median(times)
