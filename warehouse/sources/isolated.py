"""Execution of code that reads untrusted files, in a separate process with limits on memory and time."""

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
    """Error raised when code in a separate process fails; the message is the last line of its standard error."""


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
    """Run Python code in a separate process without environment variables; return its standard output.

    ``code`` runs in ``folder`` and receives ``arguments`` as ``sys.argv[3:]`` and ``sent`` as standard input.
    ``seconds`` limits the elapsed time and the processor time, and ``gigabytes`` limits the memory. Raises
    ``InputError`` with the message ``too_large`` if a limit is exceeded, and ``IsolatedError`` if the code fails for
    another reason.
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
