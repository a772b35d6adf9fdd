"""Runs a parser in a process of its own, which can end for want of memory or time, and cannot harm this one."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_LIMITS = """
import resource, sys
gigabytes, seconds = map(int, sys.argv[1:3])
if gigabytes:
    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (seconds,) * 2)
"""


class IsolatedError(Exception):
    """The other process failed. The message is the last line that it wrote about its failure."""


class TooLargeError(IsolatedError):
    """The other process took more memory or time than it was given."""


def run_isolated(
    code: str,
    arguments: Sequence[str] = (),
    *,
    folder: Path | None = None,
    sent: bytes = b"",
    gigabytes: int = 0,
    seconds: int,
) -> bytes:
    """Return what Python code writes to its standard output in another process, which has no environment variables.

    Parameters
    ----------
    code : str
        Python source. ``sys.argv[3:]`` are the ``arguments``, and standard input is what is ``sent``.
    folder : Path, optional
        Working directory of the process.
    gigabytes, seconds : int
        Memory, and time by the clock and by the processor. Without ``gigabytes`` the limits of this process hold.

    Raises
    ------
    IsolatedError
        Where the code fails.
    TooLargeError
        Where it takes more than its memory or its time.
    """
    command = [sys.executable, "-I", "-c", _LIMITS + code, str(gigabytes), str(seconds), *arguments]
    try:
        done = subprocess.run(
            command, input=sent, capture_output=True, check=False, cwd=folder, env={}, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        raise TooLargeError(f"more than {seconds} s") from error
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    raise (TooLargeError if done.returncode < 0 or "MemoryError" in said else IsolatedError)(said)
