"""Moments, and EM for missing scores, over row ranges of a Parquet file, in this process or on Dask workers.

A shard is a path and a range of rows, so that workers read for themselves and memory stays bounded
whatever n. Partial states are added in an order that the shards alone decide, so the answer does not
depend on which worker was faster, or died.

Belongs here: cutting a file into shards, running ``moments.accumulate_columns`` over them. Belongs elsewhere: starting
a cluster (the caller hands over a client).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from care_ops.errors import InputError
from care_ops.moments.missing import ExpectedSums, GaussianFit, em_moments, expected_sums
from care_ops.moments.state import Moments, accumulate_columns, default_shift

if TYPE_CHECKING:
    from distributed import Client
    from pyarrow.parquet import ParquetFile

Array = NDArray[np.float64]

_BATCH_ROWS = 16_384
_FAN_IN = 8

_Sum = TypeVar("_Sum", Moments, ExpectedSums)


@dataclass(frozen=True)
class Shard:
    """Rows ``start`` to ``stop`` of the Parquet file at ``path``."""

    path: str
    start: int
    stop: int


def shards_of(path: Path, rows: int = 524_288) -> list[Shard]:
    """Cut a Parquet file into ranges of at most ``rows`` rows.

    Raises
    ------
    InputError
        ``rows`` is not positive.
    """
    import pyarrow.parquet as pq

    if rows < 1:
        raise InputError(f"shards: rows must be at least 1, got {rows}")
    total = pq.ParquetFile(path).metadata.num_rows
    return [Shard(str(path), start, min(start + rows, total)) for start in range(0, total, rows)]


def read_batches(shard: Shard, judges: tuple[str, ...], rows: int = _BATCH_ROWS) -> Iterator[Array]:
    """Scores of ``judges`` in a shard, (p, m) arrays of at most ``rows`` items, NaN where null.

    Reads the row groups that the range touches, one at a time, which bounds the memory. Each array is
    overwritten by the next one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = np.empty((len(judges), rows))
    with pq.ParquetFile(shard.path, memory_map=True) as file:
        groups, position = _groups_of(file, shard)
        for group in groups:
            table = file.read_row_group(group, columns=list(judges), use_threads=False)
            start, stop = max(shard.start - position, 0), min(shard.stop - position, table.num_rows)
            position += table.num_rows
            for batch in table.slice(start, stop - start).to_batches(max_chunksize=rows):
                for k, judge in enumerate(judges):
                    column = batch.column(judge).cast(pa.float64())
                    buffer[k, : batch.num_rows] = column.to_numpy(zero_copy_only=False)
                yield buffer[:, : batch.num_rows]


def _groups_of(file: ParquetFile, shard: Shard) -> tuple[list[int], int]:
    """The row groups that a shard touches, and the row at which the first of them starts."""
    groups, first, position = [], 0, 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if position < shard.stop and position + size > shard.start:
            if not groups:
                first = position
            groups.append(group)
        position += size
    return groups, first


def moments_of_shards(shards: list[Shard], judges: tuple[str, ...], client: Client | None = None) -> Moments:
    """Moments of the rows of all shards.

    Parameters
    ----------
    shards : list of Shard
    judges : tuple of str
        Columns to read, in this order.
    client : distributed.Client, optional
        The cluster to run on; by default a loop in this process.

    Returns
    -------
    Moments

    Raises
    ------
    InputError
        There are no shards.
    """
    shift = shift_of_shards(shards, judges)
    return _sum_over(shards, partial(shard_moments, judges=judges, shift=shift), client)


def shift_of_shards(shards: list[Shard], judges: tuple[str, ...]) -> Array:
    """The shift that ``moments_of_shards`` subtracts from each judge's scores, by the first rows; shape (p,).

    Raises
    ------
    InputError
        There are no shards.
    """
    if not shards:
        raise InputError("moments: the score table has no rows")
    return default_shift(next(read_batches(shards[0], judges)).T)


def em_of_shards(
    shards: list[Shard], judges: tuple[str, ...], moments: Moments, client: Client | None = None
) -> tuple[Moments, GaussianFit | None]:
    """``missing.em_moments`` over the rows of all shards, each read once an iteration.

    Parameters
    ----------
    shards, judges, client : as in ``moments_of_shards``
    moments : Moments
        Moments of the same rows.
    """

    def expect(mean: Array, covariance: Array) -> ExpectedSums:
        return _sum_over(shards, partial(_shard_expectation, judges=judges, mean=mean, covariance=covariance), client)

    return em_moments(moments, expect, judges)


def shard_moments(shard: Shard, judges: tuple[str, ...], shift: Array) -> Moments:
    """Moments of one shard, with one BLAS thread."""
    with _thread_pools().limit(limits=1, user_api="blas"):
        return accumulate_columns(read_batches(shard, judges), shift, expected=shard.stop - shard.start)


def _shard_expectation(shard: Shard, judges: tuple[str, ...], mean: Array, covariance: Array) -> ExpectedSums:
    with _thread_pools().limit(limits=1, user_api="blas"):
        return _added([expected_sums(batch.T, mean, covariance) for batch in read_batches(shard, judges)])


def _sum_over(shards: list[Shard], task: Callable[[Shard], _Sum], client: Client | None) -> _Sum:
    """The sum of ``task`` over the shards; on workers as a tree, so that no machine holds more than a few."""
    if client is None:
        return _added(task(shard) for shard in shards)
    from dask.delayed import delayed

    states: list[Any] = [delayed(task)(shard) for shard in shards]
    while len(states) > 1:
        states = [delayed(_added)(states[k : k + _FAN_IN]) for k in range(0, len(states), _FAN_IN)]
    future: Any = client.compute(states[0])
    return future.result()


def _added(states: Iterable[_Sum]) -> _Sum:
    return reduce(lambda a, b: a + b, states)


@cache
def _thread_pools() -> ThreadpoolController:
    """Looked up once a process: that takes longer than a shard's share of the cores is worth."""
    return ThreadpoolController()
