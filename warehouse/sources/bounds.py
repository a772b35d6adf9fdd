"""Limits on the memory and on the unpacked size of files that are read."""

import re
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError

_SMALL, _MAX_RATIO = 2**28, 200
"""Limits of the unpacked size: a number of bytes that is always allowed, or a multiple of the compressed size."""

_BLOCK_BYTES = 2**24
_LOOKS_S, _RESERVED = 0.05, 2**28
"""Seconds between two checks, and bytes of address space that threads may reserve between two checks."""

_LOCK = threading.Lock()


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


class _Watch:
    """Limit on the memory of this process while at least one file is read.

    The system can only limit the address space, and a process reserves several times the memory that it uses. The
    limit therefore moves: it is always the reserved address space plus the free memory.
    """

    def __init__(self) -> None:
        self._readings, self._ended = 0, threading.Event()
        self._before = resource.getrlimit(resource.RLIMIT_AS)
        self._thread: threading.Thread | None = None

    def begin(self, free: int | None) -> None:
        with _LOCK:
            self._readings += 1
            if self._readings > 1 or free is None:  # the limit of an outer reading applies
                return
            self._before, self._ended = resource.getrlimit(resource.RLIMIT_AS), threading.Event()
            most = _of_this_process(1) + free
            self._limit(most)
            self._thread = threading.Thread(target=self._look, args=(most,), daemon=True)
            self._thread.start()

    def end(self) -> None:
        with _LOCK:
            self._readings -= 1
            if not self._readings and self._thread is not None:
                self._ended.set()
                self._thread.join()
                self._thread = None
                resource.setrlimit(resource.RLIMIT_AS, self._before)

    def _look(self, most: int) -> None:
        while not self._ended.wait(_LOOKS_S):
            self._limit(most)

    def _limit(self, most: int) -> None:
        left = most - _of_this_process(1)
        limit = _of_this_process(0) + (left + _RESERVED if left > 0 else 0)
        soft, hard = self._before
        resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))


_watch = _Watch()


@contextmanager
def within_memory(where: object) -> Generator[None]:
    """Limit a ``with`` block to the free memory, because the system would kill a process that needs more.

    Raises ``InputError`` if the block needs more than the free memory.
    """
    free = free_memory()
    _watch.begin(free)
    try:
        yield
    except MemoryError as error:
        raise InputError(
            f"{where}: needs more than the {(free or 0) / 1e9:.1f} GB of free memory; split the file, remove "
            "columns, or read it on a larger machine"
        ) from error
    finally:
        _watch.end()


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
