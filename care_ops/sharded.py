"""Moments over row ranges of a Parquet file, in this process or on Dask workers.

A shard is a path and a range of rows, so that workers read for themselves and memory stays bounded
whatever n. Partial states are added in the order of the shards, so the answer does not depend on which
worker was faster.

Belongs here: cutting a file into shards, running ``moments.accumulate`` over them. Does not: starting a
cluster (the caller hands over a client).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.moments import Moments, accumulate, default_shift, empty

if TYPE_CHECKING:
    from distributed import Client

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shard:
    """Rows ``start`` to ``stop`` of the Parquet file at ``path``."""

    path: str
    start: int
    stop: int


def shards_of(path: Path, rows: int = 131_072) -> list[Shard]:
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


def read_shard(shard: Shard, judges: tuple[str, ...]) -> Array:
    """Scores of ``judges`` in a shard, shape (rows, p), NaN where null.

    Reads only the row groups that the range touches.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(shard.path)
    groups, first, position = [], 0, 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if position < shard.stop and position + size > shard.start:
            if not groups:
                first = position
            groups.append(group)
        position += size
    table = file.read_row_groups(groups, columns=list(judges))
    table = table.slice(shard.start - first, shard.stop - shard.start)
    columns = [table.column(judge).cast(pa.float64()).to_numpy(zero_copy_only=False) for judge in judges]
    return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))


def moments_of_shards(shards: list[Shard], judges: tuple[str, ...], client: Client | None = None) -> Moments:
    """Moments of the rows of all shards.

    Parameters
    ----------
    shards : list of Shard
    judges : tuple of str
        Columns to read, in this order.
    client : distributed.Client, optional
        Where to run; by default a loop in this process.

    Returns
    -------
    Moments

    Raises
    ------
    InputError
        There are no shards.
    """
    if not shards:
        raise InputError("moments: the score table has no rows")
    shift = default_shift(read_shard(shards[0], judges)[:4_096])
    if client is None:
        parts = (shard_moments(shard, judges, shift) for shard in shards)
    else:
        futures = client.map(shard_moments, shards, judges=judges, shift=shift, pure=False)
        gathered: Any = client.gather(futures)
        parts = iter(gathered)
    total = empty(shift)
    for part in parts:
        total = total + part
    return total


def shard_moments(shard: Shard, judges: tuple[str, ...], shift: Array) -> Moments:
    """Moments of one shard, with one BLAS thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        return accumulate(read_shard(shard, judges), shift)
