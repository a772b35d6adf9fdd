"""Separate process for a parser that may exceed limits of memory or time."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from care_ops.errors import InputError

_LIMITS = """
import resource, sys
gigabytes, seconds = map(int, sys.argv[1:3])
if gigabytes:
    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (seconds,) * 2)
"""


class IsolatedError(Exception):
    """Error of a separate process that failed; the message is the last line of its standard error."""


def run_isolated(
    code: str,
    too_large: str,
    arguments: Sequence[str] = (),
    *,
    folder: Path | None = None,
    sent: bytes = b"",
    gigabytes: int = 0,
    seconds: int,
) -> bytes:
    """Run Python code in another process without environment variables, and return its standard output.

    ``code`` receives ``arguments`` as ``sys.argv[3:]`` and ``sent`` as standard input; it runs in ``folder``.
    ``seconds`` limits its elapsed time and its processor time, and ``gigabytes`` limits its memory. Raises
    ``InputError`` with the message ``too_large`` if a limit is exceeded, and ``IsolatedError`` if the code fails
    otherwise.
    """
    command = [sys.executable, "-I", "-c", _LIMITS + code, str(gigabytes), str(seconds), *arguments]
    try:
        done = subprocess.run(
            command, input=sent, capture_output=True, check=False, cwd=folder, env={}, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(too_large) from error
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    if done.returncode < 0 or "MemoryError" in message:
        raise InputError(too_large)
    raise IsolatedError(message)
