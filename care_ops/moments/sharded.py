"""Moments over row ranges of a Parquet file, in this process or on workers.

A shard is a path and a range of rows. Workers read the file themselves, which bounds memory; a worker without the file
gets the rows. Moments are added in the order of the shards. The result is therefore bit for bit the same as
in one process, even if a worker dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from care_ops.errors import InputError
from care_ops.moments.state import Moments, accumulate_columns, default_shift
from care_ops.scores import Array
from care_ops.threads import one_blas_thread

if TYPE_CHECKING:
    from pyarrow import Buffer, RecordBatch
    from pyarrow.parquet import FileMetaData

_BATCH_ROWS = 16_384

Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Function like ``map`` that calls another function for each argument and yields the results in order."""


class UnreadableError(Exception):
    """Error for a shard whose file is missing, damaged or replaced by another file."""


@dataclass(frozen=True)
class Shard:
    """Rows ``start`` to ``stop`` of the Parquet file at ``path``.

    Attributes
    ----------
    rows, metadata : int, tuple of pairs
        Number of rows and metadata of the file; a worker uses them to detect that the file has been replaced.
    part : pyarrow.Buffer, optional
        The rows as an Arrow stream, for a worker without the file.
    """

    path: str
    start: int
    stop: int
    rows: int
    metadata: tuple[tuple[bytes, bytes], ...]
    part: Buffer | None = None


def shards_of(path: Path, rows: int = 524_288) -> list[Shard]:
    """Divide a Parquet file into shards of at most ``rows`` rows."""
    import pyarrow.parquet as pq

    file = pq.read_metadata(path)
    total = file.num_rows
    return [Shard(str(path), start, min(start + rows, total), *_identity(file)) for start in range(0, total, rows)]


def _identity(file: FileMetaData) -> tuple[int, tuple[tuple[bytes, bytes], ...]]:
    return file.num_rows, tuple(sorted((file.metadata or {}).items()))


def read_batches(shard: Shard, judges: tuple[str, ...]) -> Iterator[Array]:
    """Yield the scores of ``judges`` in a shard as (p, m) arrays of at most ``_BATCH_ROWS`` items, with NaN for null.

    Each array overwrites the memory of the previous one. Raises ``UnreadableError`` if the file cannot be read.
    """
    import pyarrow as pa

    buffer = np.empty((len(judges), _BATCH_ROWS))
    for batch in _record_batches(shard, list(judges)) if shard.part is None else pa.ipc.open_stream(shard.part):
        for k, judge in enumerate(judges):
            buffer[k, : batch.num_rows] = batch.column(judge).cast(pa.float64()).to_numpy(zero_copy_only=False)
        yield buffer[:, : batch.num_rows]


def _record_batches(shard: Shard, columns: list[str] | None = None) -> Iterator[RecordBatch]:
    """Read the row groups of a shard one at a time, to limit memory, and verify the checksum of each page."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(shard.path, page_checksum_verification=True) as file:
            if _identity(file.metadata) != (shard.rows, shard.metadata):
                raise ValueError("another file has replaced it")
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


def moments_of_shards(shards: list[Shard], judges: tuple[str, ...], spread: Spread = map) -> Moments:
    """Compute the moments of all rows in a list of shards.

    Each worker reads the file. If one cannot, the rows of its shard and of all later shards are sent to the workers.

    Parameters
    ----------
    judges : tuple of str
        Columns to read, in this order.
    spread : callable
        Function like ``map`` that runs in this process or on workers.

    Returns
    -------
    Moments

    Raises
    ------
    InputError
        There are no shards.
    UnreadableError
        This process cannot read the file.
    """
    if not shards:
        raise InputError("moments: the score table has no rows; add items")
    shift = default_shift(next(read_batches(shards[0], judges)).T)
    task = partial(shard_moments, judges=judges, shift=shift)
    return reduce(add, _handing_rows(task, shards, spread))


def _handing_rows(
    task: Callable[[Shard], Moments | UnreadableError], shards: list[Shard], spread: Spread
) -> Iterator[Moments]:
    """Yield the moments of each shard; after a worker fails to read the file, send rows instead of paths."""
    for done, result in enumerate(spread(task, shards)):
        if isinstance(result, UnreadableError):
            for again in spread(task, map(with_part, shards[done:])):
                if isinstance(again, UnreadableError):
                    raise again
                yield again
            return
        yield result


def shard_moments(shard: Shard, judges: tuple[str, ...], shift: Array) -> Moments | UnreadableError:
    """Compute the moments of one shard with one BLAS thread; return the error if this machine cannot read the file."""
    try:
        with one_blas_thread():
            return accumulate_columns(read_batches(shard, judges), shift)
    except UnreadableError as error:
        return error


def with_part(shard: Shard) -> Shard:
    """Return the shard with its rows as an Arrow stream; raise ``UnreadableError`` if the file cannot be read."""
    import pyarrow as pa

    batches, sink = _record_batches(shard), pa.BufferOutputStream()
    first = next(batches)
    with pa.ipc.new_stream(sink, first.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        for batch in chain([first], batches):
            stream.write_batch(batch)
    return replace(shard, part=sink.getvalue())
