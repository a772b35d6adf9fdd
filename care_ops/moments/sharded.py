"""Moments over row ranges of a Parquet file, in this process or on Dask workers.

A shard is a path and a range of rows, so that workers read for themselves and memory stays bounded
whatever n. A worker that does not have the file is handed these rows. Partial states are added in the
order of the shards, so that the answer is to the last digit that of one process, whichever worker was faster, or died.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from care_ops.errors import InputError
from care_ops.moments.state import Moments, accumulate_columns, default_shift
from care_ops.scores import Array
from care_ops.threads import one_blas_thread

if TYPE_CHECKING:
    from distributed import Client, Future
    from pyarrow import Buffer, RecordBatch
    from pyarrow.parquet import FileMetaData

_BATCH_ROWS = 16_384
_TASKS_A_THREAD = 2
"""Tasks that a worker's thread is given before it has answered the first: one that it does, and one to go on with."""


class UnreadableError(Exception):
    """The file of a shard is not there, is another file than the one that was cut, or is damaged."""


@dataclass(frozen=True)
class Shard:
    """Rows ``start`` to ``stop`` of the Parquet file at ``path``.

    Attributes
    ----------
    rows, metadata : int, tuple of pairs
        What the file says of itself, by which a worker notices that it has another file at that path.
    part : pyarrow.Buffer, optional
        These rows as an Arrow stream, for a worker that does not have the file.
    """

    path: str
    start: int
    stop: int
    rows: int
    metadata: tuple[tuple[bytes, bytes], ...]
    part: Buffer | None = None


def shards_of(path: Path, rows: int = 524_288) -> list[Shard]:
    """Cut a Parquet file into ranges of at most ``rows`` rows."""
    import pyarrow.parquet as pq

    file = pq.read_metadata(path)
    total = file.num_rows
    return [Shard(str(path), start, min(start + rows, total), *_error_text(file)) for start in range(0, total, rows)]


def _error_text(file: FileMetaData) -> tuple[int, tuple[tuple[bytes, bytes], ...]]:
    """What a file says of itself: its rows and its metadata."""
    return file.num_rows, tuple(sorted((file.metadata or {}).items()))


def read_batches(shard: Shard, judges: tuple[str, ...]) -> Iterator[Array]:
    """Scores of ``judges`` in a shard, (p, m) arrays of at most ``_BATCH_ROWS`` items, NaN where null.

    Each array is overwritten by the next one.

    Raises ``UnreadableError`` where the file cannot be read here.
    """
    import pyarrow as pa

    buffer = np.empty((len(judges), _BATCH_ROWS))
    for batch in _record_batches(shard, list(judges)) if shard.part is None else pa.ipc.open_stream(shard.part):
        for k, judge in enumerate(judges):
            buffer[k, : batch.num_rows] = batch.column(judge).cast(pa.float64()).to_numpy(zero_copy_only=False)
        yield buffer[:, : batch.num_rows]


def _record_batches(shard: Shard, columns: list[str] | None = None) -> Iterator[RecordBatch]:
    """The rows of a shard from its file, whose pages are checked as they are read.

    Reads the row groups that the range touches, one at a time, which bounds the memory.

    Raises ``UnreadableError`` where the file cannot be read here.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(shard.path, page_checksum_verification=True) as file:
            if _error_text(file.metadata) != (shard.rows, shard.metadata):
                raise ValueError("another file lies there")
            position = 0
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                start, stop = max(shard.start - position, 0), min(shard.stop - position, size)
                position += size
                if start < stop:
                    table = file.read_row_group(group, columns=columns, use_threads=False)
                    yield from table.slice(start, stop - start).to_batches(max_chunksize=_BATCH_ROWS)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableError(f"{shard.path}: rows {shard.start} to {shard.stop} cannot be read ({error})") from None


def moments_of_shards(shards: list[Shard], judges: tuple[str, ...], client: Client | None = None) -> Moments:
    """Moments of the rows of all shards.

    Parameters
    ----------
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
    if not shards:
        raise InputError("moments: the score table has no rows")
    shift = default_shift(next(read_batches(shards[0], judges)).T)
    task = partial(shard_moments, judges=judges, shift=shift)
    return reduce(_plus, map(task, shards) if client is None else _answers(shards, task, client))


def shard_moments(shard: Shard, judges: tuple[str, ...], shift: Array) -> Moments:
    """Moments of one shard, with one BLAS thread."""
    with one_blas_thread():
        return accumulate_columns(read_batches(shard, judges), shift, expected=shard.stop - shard.start)


def _plus(one: Moments, other: Moments) -> Moments:
    return one + other


def _answers(shards: list[Shard], task: Callable[[Shard], Moments], client: Client) -> Iterator[Moments]:
    """What workers answer, in the order of the shards, a few of which are under way at a time.

    Each worker reads the file by its path. As soon as one cannot, it and all that follow are handed the rows.
    """
    from dask.config import set as configured

    rest, by_path = iter(shards), True
    waiting: deque[tuple[Shard, Future]] = deque()

    def submit(shard: Shard) -> None:
        given = shard if by_path else with_part(shard)
        with configured({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
            waiting.append((given, client.submit(task, given, pure=False)))

    while True:
        threads: Any = client.nthreads()
        most = _TASKS_A_THREAD * max(1, sum(threads.values()))
        for shard in islice(rest, max(0, most - len(waiting))):
            submit(shard)
        if not waiting:
            return
        shard, future = waiting.popleft()
        try:
            yield future.result()
        except UnreadableError:
            if shard.part is not None:
                raise
            by_path = False
            again = [shard, *(other for other, _ in waiting)]
            waiting.clear()
            for unread in again:
                submit(unread)


def with_part(shard: Shard) -> Shard:
    """The shard with its rows.

    Raises ``UnreadableError`` where the file cannot be read.
    """
    import pyarrow as pa

    batches, sink = _record_batches(shard), pa.BufferOutputStream()
    first = next(batches)
    with pa.ipc.new_stream(sink, first.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        for batch in chain([first], batches):
            stream.write_batch(batch)
    return replace(shard, part=sink.getvalue())
