"""Bounds on what is read from a file: the memory that is free, and, for what is compressed, how far it unpacks."""

import re
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError

_SMALL, _MOST_TIMES_LARGER = 2**30, 200
"""Bytes that any compressed file may unpack to, and times its own size that a larger one may."""

_BLOCK_BYTES = 2**24
_LOCK = threading.Lock()
_limits: list[tuple[int, int]] = []
"""What the limit of addresses was before each reading that is going on; the first is that of the process."""


def free_memory() -> int | None:
    """Bytes that this process can still have, of the machine and of its container; None where nothing says so."""
    found = list[int]()
    with suppress(OSError):
        available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        found += [1024 * int(available[1])] if available else []
    with suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()) - _of_this_process(1))
    return max(min(found), 0) if found else None


def _of_this_process(which: int) -> int:
    """Bytes of its addresses (0), or of those that are in memory (1)."""
    return int(Path("/proc/self/statm").read_text().split()[which]) * resource.getpagesize()


@contextmanager
def within_memory(where: object) -> Generator[None]:
    """Let a block that reads something have the memory that is free, and no more.

    Otherwise the system would end this process, or another one. Raises ``InputError`` where that is not enough.
    """
    free = free_memory()
    with _LOCK:
        _limits.append(resource.getrlimit(resource.RLIMIT_AS))
        if len(_limits) == 1 and free is not None:  # else the limit of a reading around this one holds
            soft, hard = _limits[0]
            most = _of_this_process(0) + free
            resource.setrlimit(resource.RLIMIT_AS, (most if soft < 0 else min(most, soft), hard))
    try:
        yield
    except MemoryError as error:
        raise InputError(
            f"{where}: takes more than the {(free or 0) / 1e9:.1f} GB of memory that are free; split it, leave columns "
            "out, or read it on a larger machine"
        ) from error
    finally:
        with _LOCK:
            before = _limits[0]
            _limits.pop()
            if not _limits:
                resource.setrlimit(resource.RLIMIT_AS, before)


def refuse_bomb(path: Path, compression: str) -> None:
    """Raise ``InputError`` where a compressed file unpacks to many times its size."""
    packed, unpacked = path.stat().st_size, 0
    with pa.input_stream(path, compression=compression) as stream:
        while block := stream.read(_BLOCK_BYTES):
            unpacked += len(block)
            if unpacked > max(_SMALL, _MOST_TIMES_LARGER * packed):
                raise InputError(
                    f"{path}: {packed:,} bytes unpack to more than {unpacked:,}, as those of a damaged or malicious "
                    "file do; if that is meant, unpack it, and give what comes out"
                )
