"""Dask workers of a run; they start if the remaining work is large enough."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from annotated_types import Ge

from care_ops.config import NOTHING_ELSE
from care_ops.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

A = TypeVar("A")
R = TypeVar("R")

_SCHEDULER = "DASK_SCHEDULER_ADDRESS"
"""Environment variable with the address of a Dask scheduler."""

WORTH_S = 20.0
"""Seconds of remaining work from which starting local workers saves time."""

_MOST_PROCESSES = 8
"""Default maximum number of local workers; each takes half a gigabyte."""

HERE, LOCAL = "this process", "local cluster"

_CONNECT_TIMEOUT_S = 10
_TASKS_A_THREAD = 4
"""Number of tasks to submit for each worker thread, so that no thread waits for a task."""


@dataclass(frozen=True)
class DaskConfig:
    """Settings of the Dask workers.

    Attributes
    ----------
    address : str, optional
        Address of a running Dask scheduler, such as tcp://host:8786; its workers compute moments, bootstrap
        resamples and experiments. The environment variable ``DASK_SCHEDULER_ADDRESS`` overrides the address.
    workers : int, optional
        Number of local Dask workers that a run starts if enough work is left and no scheduler is named. The default is
        one per core, at most eight; 0 starts none.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    address: str | None = None
    workers: Annotated[int, Ge(0)] | None = None

    def scheduler(self) -> str | None:
        return os.environ.get(_SCHEDULER) or self.address

    def source(self) -> str:
        """Return the name of the setting that gives the scheduler's address."""
        return _SCHEDULER if os.environ.get(_SCHEDULER) else "dask.address in care.yaml"


class Workers:
    """Dask workers of one run; CARE starts them, or connects to them, at the first use.

    If care.yaml or the environment names a scheduler, its workers get all work. Otherwise, local workers start if the
    remaining work will probably take more than ``WORTH_S`` seconds, estimated from the mean time of finished tasks.

    Attributes
    ----------
    place : str
        Description of the place where the last calls ran.
    """

    def __init__(self, dask: DaskConfig) -> None:
        self._dask, self._client, self._until_closed = dask, None, ExitStack()
        self.place = HERE

    @property
    def are_local(self) -> bool:
        """Whether the workers are processes on this machine, which can use its folders."""
        return self._dask.scheduler() is None

    def map(
        self, function: Callable[[A], R], arguments: Iterable[A], total: int | None = None, later: float = 0.0
    ) -> Iterator[R]:
        """Call a function for each argument, and yield the results in the order of the arguments.

        Parameters
        ----------
        function : callable
            Function that depends only on its argument and can be pickled.
        total : int, optional
            Number of arguments, if they are not a sequence.
        later : float
            Expected seconds of work in the same run after these calls; they count as remaining work.

        Raises
        ------
        InputError
            No scheduler answers at the address.
        """
        waiting, spent = iter(arguments), 0.0
        total = len(arguments) if total is None and isinstance(arguments, Sequence) else total or 0
        for done, argument in enumerate(waiting):
            forecast = spent / done * (total - done) + later if done else 0.0
            pays = forecast > WORTH_S and self._dask.workers != 0 and self._processes() > 1
            if self._client is not None or not self.are_local or pays:
                first = self._submit(function, argument)
                yield from self._results(first, function, waiting)
                return
            started = time.perf_counter()
            result = function(argument)
            spent += time.perf_counter() - started
            yield result

    def close(self) -> None:
        """Disconnect from the scheduler, and end local workers."""
        self._client = None
        self._until_closed.close()

    def _processes(self) -> int:
        from dask.system import CPU_COUNT

        return self._dask.workers or min(CPU_COUNT, _MOST_PROCESSES)

    def _connected(self) -> Client:
        if self._client is None:
            from dask.config import set as configured
            from distributed import Client, LocalCluster

            if self.are_local:
                # A worker may hold as much as this process would, so none is killed for its memory. Dask's setting
                # MALLOC_TRIM_THRESHOLD_ would return each freed array to the system, which takes a tenth of the time.
                with configured({"distributed.nanny.pre-spawn-environ": {"OPENBLAS_NUM_THREADS": 1}}):
                    cluster = LocalCluster(
                        self._processes(),
                        threads_per_worker=1,
                        memory_limit=0,
                        dashboard_address=":0",
                        silence_logs=logging.ERROR,  # after an interrupt, Dask would warn about killed tasks
                    )
                self._client = self._until_closed.enter_context(Client(self._until_closed.enter_context(cluster)))
            else:
                self._client = self._until_closed.enter_context(_client_of(self._dask))
            self.place = f"Dask ({self._dask.scheduler() or LOCAL})"
        return self._client

    def _submit(self, function: Callable[[A], R], argument: A) -> Any:
        client = self._connected()  # importing `distributed` adds to Dask's settings
        from dask.config import set as configured

        with configured({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
            return client.submit(function, argument, pure=False)

    def _results(self, first: Any, function: Callable[[A], R], waiting: Iterator[A]) -> Iterator[R]:
        under_way = deque([first])
        for argument in waiting:
            under_way.append(self._submit(function, argument))
            threads: Any = self._connected().nthreads()
            while len(under_way) >= _TASKS_A_THREAD * max(1, sum(threads.values())):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _client_of(dask: DaskConfig) -> Client:
    from distributed import Client

    address, source = dask.scheduler(), dask.source()
    try:
        return Client(address, timeout=_CONNECT_TIMEOUT_S)
    except (OSError, ValueError) as error:  # a ValueError if the scheme is unknown
        raise InputError(
            f"{source} is {address}, but no Dask scheduler answers there ({error}); start one with `dask scheduler` "
            f"and give the address that this command prints, or unset {source}"
        ) from error
