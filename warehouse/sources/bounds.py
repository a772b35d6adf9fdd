"""Limits on the memory for reading files, and on the unpacked size of compressed files."""

import re
import resource
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError

_SMALL, _MAX_RATIO = 2**28, 200
"""Maximum unpacked size: the larger of a number of bytes and a multiple of the compressed size."""

_BLOCK_BYTES = 2**24
_LOOKS_S, _RESERVED = 0.05, 2**28
"""Time in seconds between two updates of the limit, and address space in bytes that threads may reserve meanwhile."""

_LOCK, _LIMIT = threading.Lock(), ExitStack()
_READINGS: list[object] = []
"""Lock, current limit, and open blocks of ``within_memory``; the first open block sets the limit."""


def free_memory() -> int | None:
    """Return the free memory in bytes of this machine or container, or None if the amount is unknown."""
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

    The system can only limit the address space, and a process reserves several times the memory that it uses.
    Therefore a thread keeps updating the limit to the reserved address space plus the free memory.
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
    """Limit the memory of a ``with`` block to the free memory, because the system kills a process that needs more.

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
            f"{where}: CARE needs more than the {(free or 0) / 1e9:.1f} GB of free memory to read it; split the file, "
            "remove columns, or use a machine with more memory"
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
            f"{path}: {packed:,} bytes unpack to {unpacked:,} or more, so the file may be damaged or malicious; if you "
            "trust it, unpack it, and give the unpacked file"
        )
