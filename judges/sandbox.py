"""Sandbox that runs an untrusted program in a restricted process.

Bubblewrap gives the process its own read-only file system with the files that Python needs, no network, no view of
other processes and an empty environment. The process runs as an unprivileged user with resource
limits (``sandbox_worker``). Its parent limits run time and output size; if the parent ends, the process is killed.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from care_ops.errors import InputError, JudgeError, sentence

Kind = Literal["bwrap", "none"]

_START_S = 30.0
_LONGEST_ANSWER = 65_536
_ENVIRONMENT = {"HOME": "/", "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_UNPRIVILEGED = "65534"


class SandboxTimeoutError(Exception):
    """Error raised when a program did not answer in time; its process has been killed."""


class SandboxDiedError(Exception):
    """Error raised when a program's process ended without an answer, or its output was not one valid answer."""


@dataclass(frozen=True)
class ProgramFile:
    """Source code and path of a program."""

    path: Path
    source: str

    @classmethod
    def read(cls, path: Path) -> ProgramFile:
        """Read a program from a file, or raise ``InputError`` if the file cannot be read."""
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); correct the path of the program") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not UTF-8 text ({error.reason}); save the program as UTF-8") from error


def why_unavailable() -> str:
    """Return why no sandbox works on this machine, with a remedy; return "" if a sandbox works."""
    if shutil.which("bwrap") is None:
        return "this machine has no sandbox for programs; install bubblewrap (its command bwrap must be on PATH)"
    command = [*_bwrap(), *_python("pass")]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_START_S, check=False, env=_ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap is installed but does not start here ({sentence(str(error))}); reinstall bubblewrap"
    if done.returncode == 0:
        return ""
    reported = sentence(done.stderr.decode(errors="replace").strip()) or f"it ended with code {done.returncode}"
    return (
        f"bubblewrap is installed but does not work here ({reported}); if this container forbids "
        "namespaces, allow them as docs/deployment.md describes"
    )


class Sandbox:
    """Process that runs one program in a sandbox, started at the first question and restarted if it has ended.

    Parameters
    ----------
    program : ProgramFile
        Program that defines the function ``program_judge``.
    timeout_s : float
        Maximum duration of one answer in seconds.
    memory_mb : int
        Memory that the process may use, in megabytes.
    kind : {"bwrap", "none"}
        ``bwrap`` is the sandbox. ``none`` limits only memory, time and output of a program, which must be trusted.

    Raises
    ------
    JudgeError
        If the program cannot be loaded.
    """

    def __init__(self, program: ProgramFile, timeout_s: float, memory_mb: int, kind: Kind) -> None:
        self._program, self._timeout, self._memory, self._kind = program, timeout_s, memory_mb, kind
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def ask(self, query: str, response: str) -> dict[str, Any]:
        """Run the program on one response, and return its score or error.

        Returns
        -------
        dict
            ``{"score": number or None}``, or ``{"error": text}`` if the program raised an exception.

        Raises
        ------
        SandboxTimeoutError, SandboxDiedError
            If there is no valid answer. The process has been killed; the next question starts another process.
        """
        if self._process is None:
            self.start()
        question = json.dumps({"query": query, "response": response}).encode() + b"\n"
        answer = self._exchange(question, self._timeout)
        is_score = isinstance(answer.get("score", ""), (int, float, type(None)))
        if not (isinstance(answer.get("error"), str) or is_score):
            self.close()
            raise SandboxDiedError("the program wrote something other than one score; return only a number or None")
        return answer

    def close(self) -> None:
        """Kill the process and all processes that it has started."""
        if self._process is not None:
            with self._process:  # closes its pipes, and waits for its end
                self._process.kill()
            self._process = None
        self._buffer = b""

    def start(self) -> None:
        """Start the process and load the program; if this fails, raise ``JudgeError`` with Python's message."""
        worker = Path(__file__).with_name("sandbox_worker.py").read_text(encoding="utf-8")
        wall = [] if self._kind == "none" else _bwrap()
        command = [*wall, *_python(worker), self._kind, str(self._memory), *_packages()]
        source = json.dumps(self._program.source).encode() + b"\n"
        # Without its own session, Ctrl-C in a terminal would end the process, and the item would count as failed.
        start = partial(subprocess.Popen[bytes], env=_ENVIRONMENT, start_new_session=True)
        self._process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        os.set_blocking(self._process.stdout.fileno(), False)
        try:
            why = self._exchange(source, _START_S).get("error")
        except (SandboxTimeoutError, SandboxDiedError) as error:
            why = error
        if why is not None:
            self.close()
            raise JudgeError(
                f"{self._program.path}: the program cannot be loaded ({' '.join(str(why).split())}); define "
                "program_judge(query, response) in it, and import only packages that are installed"
            )

    def _exchange(self, question: bytes, seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        write, read = self._process.stdin.fileno(), self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            ready = select.select([read], [write] if question else [], [], max(left, 0.0)) if left > 0 else ([], [], [])
            if not ready[0] and not ready[1]:
                self.close()
                raise SandboxTimeoutError(f"no output within {seconds:g} s")
            try:
                if ready[1]:
                    question = question[os.write(write, question[:65_536]) :]
                chunk = os.read(read, 65_536) if ready[0] else None
            except (BrokenPipeError, BlockingIOError):
                chunk = b""
            if chunk == b"" or len(self._buffer) > _LONGEST_ANSWER:
                why = f"the output exceeds {_LONGEST_ANSWER:,} bytes; return a number" if chunk else "the process ended"
                self.close()
                raise SandboxDiedError(why)
            self._buffer += chunk or b""
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or self._buffer:
            self.close()
            raise SandboxDiedError("the program wrote something other than one score; return only a number or None")
        return answer


def _python(script: str) -> list[str]:
    return [str(Path(sys.executable).resolve()), "-I", "-B", "-c", script]


def _packages() -> list[str]:
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages") and Path(path).is_dir()]


def _shown() -> list[str]:
    """Return the paths that the process may read: Python, its standard library, packages, and system libraries."""
    home, multiarch = Path(sys.base_prefix), sysconfig.get_config_var("MULTIARCH") or ""
    system = ["/lib64", "/usr/lib64", *(f"{lib}/{multiarch}" for lib in ("/lib", "/usr/lib") if multiarch)]
    libraries = [path for path in system if Path(path).is_dir()] or ["/lib", "/usr/lib"]
    own = [str(Path(sys.executable).resolve()), sysconfig.get_path("stdlib"), *_packages()]
    if home.parts[:2] == ("/", "usr"):
        own += map(str, home.glob("lib/libpython*.so*"))
    else:  # a separate Python such as conda has its packages' libraries there
        own.append(str(home / "lib"))
    if home.is_relative_to("/nix/store"):
        own.append("/nix/store")
    more = ["/etc/ld.so.cache", "/etc/alternatives", "/usr/share/zoneinfo"]
    return [path for path in dict.fromkeys([*libraries, *more, *own]) if Path(path).exists()]


def _bwrap() -> list[str]:
    command = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    for name, value in _ENVIRONMENT.items():
        command += ["--setenv", name, value]
    paths = _shown()
    parents = {str(parent) for path in (*paths, *_DEVICES) for parent in Path(path).parents} - {"/"}
    for parent in sorted(parents):  # without this, only bubblewrap's own user could enter them
        command += ["--perms", "0755", "--dir", parent]
    for path in sorted(paths):  # a folder comes before its content
        command += ["--ro-bind", path, path]
    for path in _DEVICES:
        command += ["--dev-bind", path, path]
    command += ["--remount-ro", "/", "--chdir", "/"]
    if os.geteuid() == 0:  # limits do not bind root inside a user namespace, so the worker itself switches to nobody
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        return [*command, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*command, "--unshare-all", "--uid", _UNPRIVILEGED, "--gid", _UNPRIVILEGED, "--cap-drop", "ALL"]
