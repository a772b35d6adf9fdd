"""The sandbox: a process that runs a program of somebody else's and can do nothing but answer questions.

A program is a judge, which scores a response, or makes versions of one for probes.

Bubblewrap (or, for root, unshare) gives the process a file system of its own (the Python that runs this code, the
program, and 64 MB of /tmp), no network, no view of other processes and an empty environment. It runs as an unprivileged
user under resource limits. Time and the size of an answer are limited from outside. The process ends with the one that
started it, however that ends.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from care_ops.errors import InputError, JudgeError

Kind = Literal["bwrap", "unshare", "none"]

Function = Literal["program_judge", "probe"]
"""What a program defines: ``program_judge(query, response)`` scores, ``probe(query, response)`` returns a version."""

_START_S = 30.0
_LONGEST_ANSWER = 65_536
_PROCESSES = 8
_DISK_MB = 64
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")


class SandboxTimeoutError(Exception):
    """The program did not answer in time; its process was ended."""


class SandboxDiedError(Exception):
    """The program's process ended, or wrote something other than one answer."""


@dataclass(frozen=True)
class ProgramFile:
    """A Python file of somebody else's, as it was read at ``path``; its source goes where the file is not."""

    path: Path
    source: str

    @classmethod
    def read(cls, path: Path) -> ProgramFile:
        """Read the file.

        Raises ``InputError`` where it cannot be read.
        """
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); correct the path of the program") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: it is no text in UTF-8 ({error.reason}); save the program as such") from error


def available() -> Kind:
    """The safest kind of sandbox that works on this machine; ``none`` if neither of the two does."""
    if shutil.which("bwrap") and _works(_bwrap()):
        return "bwrap"
    if shutil.which("unshare") and shutil.which("setpriv") and os.geteuid() == 0 and _works(_unshare()):
        return "unshare"
    return "none"


def why_unavailable() -> str:
    """What this machine lacks for a sandbox, and what to do."""
    if shutil.which("bwrap"):
        return (
            "bubblewrap is installed but may not make namespaces here, which containers forbid by default; allow "
            "them, as docs/deployment.md tells"
        )
    return "there is no sandbox on this machine; install bubblewrap"


class Sandbox:
    """One program in one process, which is started by the first question and again after it has ended.

    Parameters
    ----------
    program : ProgramFile
        Defines the function.
    timeout_s : float
        Seconds that one answer may take.
    memory_mb : int
        Memory that the process may use, in megabytes.
    kind : {"bwrap", "unshare", "none"}
        ``none`` runs the program with this user's rights; only the limits on memory, time and output apply.

    Raises
    ------
    JudgeError
        The program cannot be loaded.
    """

    def __init__(
        self, program: ProgramFile, timeout_s: float, memory_mb: int, kind: Kind, function: Function = "program_judge"
    ) -> None:
        self._program, self._timeout, self._memory, self._kind = program, timeout_s, memory_mb, kind
        self._function = function
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def ask(self, query: str, response: str) -> dict[str, Any]:
        """Ask the program for the score of one response, or for a version of it.

        Returns
        -------
        dict
            ``{"score": number or None}`` of a judge, ``{"text": str or None}`` of a program that makes versions, or
            ``{"error": text}`` if the program raised an exception.

        Raises
        ------
        SandboxTimeoutError, SandboxDiedError
            There is no valid answer. The process has been ended, and the next question starts another.
        """
        if self._process is None:
            self.start()
        question = json.dumps({"query": query, "response": response}).encode() + b"\n"
        answer = self._exchange(question, self._timeout)
        if not (isinstance(answer.get("error"), str) or self._is_answer(answer)):
            self.close()
            raise SandboxDiedError("the program wrote something other than an answer")
        return answer

    def close(self) -> None:
        """End the process and all processes that it has started."""
        if self._process is not None:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process.wait()
            self._process = None
        self._buffer = b""

    def _is_answer(self, answer: dict[str, Any]) -> bool:
        if self._function == "probe":
            return isinstance(answer.get("text", 0), (str, type(None)))
        return isinstance(answer.get("score", ""), (int, float, type(None)))

    def start(self) -> None:
        """Start the process and load the program; raises ``JudgeError`` where that fails, with what Python says."""
        worker = Path(__file__).with_name("sandbox_worker.py").read_text(encoding="utf-8")
        user = "same" if self._kind == "none" else "nobody"
        python = [sys.executable, "-I", "-c", worker, user, str(self._memory), str(_PROCESSES), str(_DISK_MB)]
        sandbox_command = {"bwrap": _bwrap, "unshare": _unshare, "none": list[str]}[self._kind]
        command = [*sandbox_command(), *python]
        source = json.dumps([self._program.source, self._function]).encode() + b"\n"
        # A session of its own, or a terminal's Ctrl-C would end it, and the item would count as one that it fails on.
        made = partial(subprocess.Popen[bytes], env=_ENVIRONMENT, start_new_session=True)
        self._process = made(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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
                f"{self._program.path}: the program cannot be loaded ({' '.join(str(why).split())}); it must define "
                f"{self._function}(query, response) and import only what is installed"
            )

    def _exchange(self, question: bytes, seconds: float) -> dict[str, Any]:
        """Send a question, which may take several writes, and read the one line that answers it."""
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
                raise SandboxTimeoutError(f"no answer within {seconds:g} s")
            try:
                if ready[1]:
                    question = question[os.write(write, question[:65_536]) :]
                chunk = os.read(read, 65_536) if ready[0] else None
            except (BrokenPipeError, BlockingIOError):
                chunk = b""
            if chunk == b"" or len(self._buffer) > _LONGEST_ANSWER:
                why = "it wrote more than one answer may hold" if chunk else "its process ended"
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
            raise SandboxDiedError("the program wrote something other than an answer")
        return answer


def _shown() -> list[str]:
    """Paths that the process may read: the system's libraries and the Python that runs this code."""
    pythons = [sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)]
    outside_usr = [p for p in dict.fromkeys(pythons) if not p.startswith("/usr")]
    return [p for p in (*_SYSTEM, *outside_usr) if Path(p).exists()]


def _bwrap() -> list[str]:
    command = ["bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    for name, value in _ENVIRONMENT.items():
        command += ["--setenv", name, value]
    command += ["--size", str(_DISK_MB << 20), "--perms", "1777", "--tmpfs", "/tmp"]
    parents = {str(parent) for path in _shown() for parent in Path(path).parents} - {"/", "/tmp"}
    for parent in sorted(parents):  # without this, only bubblewrap's own user could enter them
        command += ["--perms", "0755", "--dir", parent]
    for path in _shown():
        command += ["--symlink", str(Path(path).readlink()), path] if _system_link(path) else ["--ro-bind", path, path]
    command += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--chdir", "/tmp"]
    if os.geteuid() == 0:  # limits do not bind root inside a user namespace, so the worker itself switches to nobody
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-all", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
    return command


def _unshare() -> list[str]:
    # The command runs in a mount namespace of its own, so the new root can be built on any folder, and it vanishes with
    # the process.
    steps = ["set -e", "R=/sys", 'mount -t tmpfs -o size=1m,mode=755 tmpfs "$R"', 'mkdir "$R/tmp"']
    steps.append(f'mount -t tmpfs -o size={_DISK_MB}m,mode=1777 tmpfs "$R/tmp"')
    for path in _shown():
        if _system_link(path):
            steps.append(f'ln -s "{Path(path).readlink()}" "$R{path}"')
            continue
        make = f'mkdir -p "$R{path}"' if Path(path).is_dir() else f'mkdir -p "$(dirname "$R{path}")"; touch "$R{path}"'
        steps.append(f'{make}; mount --bind "{path}" "$R{path}"; mount -o remount,ro,bind "$R{path}"')
    # The shell stays, as root, so that the program cannot undo what ends it: the first process of the namespace, which
    # takes the others with it. It ends with unshare, and unshare with its parent.
    steps += [
        'mkdir "$R/proc" "$R/dev"; mount -t proc proc "$R/proc"',
        'for d in null zero urandom; do touch "$R/dev/$d"; mount --bind "/dev/$d" "$R/dev/$d"; done',
        'mount -o remount,ro "$R"; cd "$R/tmp"; chroot "$R" "$@"; exit',
    ]
    spaces = ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private"]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, "sh", "-c", "\n".join(steps), "sandbox"]


def _system_link(path: str) -> bool:
    """Whether a system path is a symbolic link, such as /lib on systems that keep it in /usr."""
    return path in _SYSTEM and Path(path).is_symlink()


def _works(command: list[str]) -> bool:
    done = subprocess.run(
        [*command, sys.executable, "-I", "-c", "pass"],
        capture_output=True,
        timeout=_START_S,
        check=False,
        env=_ENVIRONMENT,
    )
    return done.returncode == 0
