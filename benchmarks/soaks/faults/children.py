"""Commands of ``care`` in children of this process, which has imported all that they need.

Belongs here: forking, waiting, reading a workspace where threads may be started. Belongs elsewhere: what is run and
why.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tests.support.faults import State, state_of

LONGEST_S = 300
"""A command of a tiny workspace that has not ended by then hangs, and is killed."""

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""

Job = Callable[[], int]


def fork(job: Job, log: Path, environment: Mapping[str, str] | None = None) -> int:
    """Start a job in a child in a process group of its own, which does not outlive this process; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        library = ctypes.CDLL(None)
        library.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ.update(environment or {})
        library.faults_arm()
        code = job()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the parent's own clean-up is not the child's
    raise AssertionError


def ended(pid: int, *, stops: bool = False) -> int | None:
    """Wait for a child; its exit code (minus a signal's number), or None where it was stopped."""
    _, status = os.waitpid(pid, os.WUNTRACED if stops else 0)
    return None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


def child(job: Job, log: Path) -> int | None:
    """Run a job in a child to its end."""
    return ended(fork(job, log))


def start(
    folder: Path, command: tuple[str, ...], environment: Mapping[str, str] | None = None, *, log: Path | None = None
) -> int:
    """Start a command of ``care`` on a workspace in a child; returns its id."""

    def job() -> int:
        from orchestration.cli.app import app

        signal.alarm(LONGEST_S)
        app([*command, "--workspace", str(folder)], standalone_mode=True)
        return 0

    return fork(job, log or log_of(folder), environment)


def care(folder: Path, command: tuple[str, ...], environment: Mapping[str, str] | None = None) -> int | None:
    """Run a command of ``care`` to its end."""
    return ended(start(folder, command, environment))


def log_of(folder: Path) -> Path:
    """What the commands on a workspace have printed."""
    return folder.parent / f"{folder.name}.txt"


def state(folder: Path) -> State:
    """What a workspace holds, read in a child: database and Arrow start threads, which a fork would not survive.

    One that cannot be read holds that it cannot.
    """
    out = folder.parent / f"{folder.name}.json"

    def job() -> int:
        out.write_text(json.dumps(asdict(state_of(folder))))
        return 0

    if child(job, log_of(folder)) != 0:
        return State(rows=[f"the workspace cannot be read: {log_of(folder).read_text().strip().splitlines()[-1]}"])
    return State(**json.loads(out.read_text()))


def import_what_a_run_imports(folder: Path, workspace: Path) -> None:
    """Run ``care run`` on a workspace in a child, and import here what it has imported on the way."""
    names = folder / "modules.json"

    def job() -> int:
        from orchestration.cli.app import app

        code = app(["run", "--workspace", str(workspace)], standalone_mode=False)
        names.write_text(json.dumps(sorted(sys.modules)))
        return int(code or 0)

    if child(job, log_of(workspace)) != 0:
        raise RuntimeError(f"an undisturbed night failed:\n{log_of(workspace).read_text()[-2000:]}")
    for name in json.loads(names.read_text()):
        with suppress(ImportError):  # some modules are made up by others, and cannot be imported by their names
            importlib.import_module(name)
    gc.freeze()  # what is imported stays; no child needs to look through it for garbage
