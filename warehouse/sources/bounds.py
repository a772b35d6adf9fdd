"""Limits on the memory and on the unpacked size of files that are read."""

import re
import resource
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError

_SMALL, _MAX_RATIO = 2**28, 200
"""Limits of the unpacked size: a number of bytes that is always allowed, or a multiple of the compressed size."""

_BLOCK_BYTES = 2**24
_LOOKS_S, _RESERVED = 0.05, 2**28
"""Seconds between two checks, and bytes of address space that threads may reserve between two checks."""

_LOCK, _LIMIT = threading.Lock(), ExitStack()
_READINGS: list[object] = []
"""Blocks of ``within_memory`` that have not ended, and the limit that the first of them has set."""


def free_memory() -> int | None:
    """Return the free memory of the machine or container in bytes, or None if it is unknown."""
    found = list[int]()
    with suppress(OSError):
        available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        found += [1024 * int(available[1])] if available else []
    with suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()) - _of_this_process(1))
    return max(min(found), 0) if found else None


def _of_this_process(which: int) -> int:
    return int(Path("/proc/self/statm").read_text().split()[which]) * resource.getpagesize()


@contextmanager
def _limited(free: int) -> Generator[None]:
    """Limit the memory of this process during a ``with`` block.

    The system can only limit the address space, and a process reserves several times the memory that it uses. The
    limit therefore moves: it is always the reserved address space plus the free memory.
    """
    before, most, ended = resource.getrlimit(resource.RLIMIT_AS), _of_this_process(1) + free, threading.Event()
    soft, hard = before

    def limit() -> None:
        left = most - _of_this_process(1)
        space = _of_this_process(0) + (left + _RESERVED if left > 0 else 0)
        resource.setrlimit(resource.RLIMIT_AS, (space if soft == resource.RLIM_INFINITY else min(space, soft), hard))

    def move_limit() -> None:
        while not ended.wait(_LOOKS_S):
            limit()

    limit()
    thread = threading.Thread(target=move_limit, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def within_memory(where: object) -> Generator[None]:
    """Limit a ``with`` block to the free memory, because the system would kill a process that needs more.

    Raises ``InputError`` if the block needs more than the free memory.
    """
    free = free_memory()
    with _LOCK:
        if not _READINGS and free is not None:  # otherwise the limit of an outer reading applies
            _LIMIT.enter_context(_limited(free))
        _READINGS.append(where)
    try:
        yield
    except MemoryError as error:
        raise InputError(
            f"{where}: needs more than the {(free or 0) / 1e9:.1f} GB of free memory; split the file, remove "
            "columns, or read it on a larger machine"
        ) from error
    finally:
        with _LOCK:
            _READINGS.pop()
            if not _READINGS:
                _LIMIT.close()


def refuse_bomb(path: Path, compression: str) -> None:
    """Raise ``InputError`` if a compressed file unpacks to many times its size."""
    unpacked = 0
    with pa.input_stream(path, compression=compression) as stream:
        while block := stream.read(_BLOCK_BYTES):
            unpacked += len(block)
            refuse_size(path, unpacked)


def refuse_size(path: Path, unpacked: int) -> None:
    """Raise ``InputError`` if the number of unpacked bytes is many times the file size."""
    packed = path.stat().st_size
    if unpacked > max(_SMALL, _MAX_RATIO * packed):
        raise InputError(
            f"{path}: {packed:,} bytes unpack to {unpacked:,} or more, which suggests a damaged or malicious file; if "
            "the file is sound, unpack it, and give the unpacked file"
        )
