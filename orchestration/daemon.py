"""Process of ``care admin daemon`` and ``care ui``, started by ``python -m orchestration.daemon``.

This process becomes Dagster's daemon. A child process starts a code server and, if arguments are given, a webserver.
Dagster's deployment guide describes these three processes.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_STARTS_WITHIN_S = 300.0
_LOOKS_EVERY_S = 0.5
_LAST_WORDS_S = 2.0
_INHERITED = 1024


def main(arguments: list[str]) -> None:
    """Start Dagster's code server, then replace this process with Dagster's daemon once the server's socket exists."""
    daemon, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="care-"))
    workspace = folder / "workspace.yaml"
    server = f"{{socket: {folder / 'code'}, location_name: {_module('definitions')}}}"
    workspace.write_text(f"load_from:\n  - grpc_server: {server}\n", encoding="utf-8")
    if os.fork() == 0:
        try:
            _serve(daemon, folder, [*arguments, "-w", str(workspace)] if arguments else [])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
    ends = time.monotonic() + _STARTS_WITHIN_S
    while not (folder / "code").exists() and time.monotonic() < ends:
        time.sleep(_LOOKS_EVERY_S)
    os.execv(Path(sys.executable).with_name("dagster-daemon"), ["dagster-daemon", "run", "-w", str(workspace)])


def _serve(daemon: int, folder: Path, webserver: list[str]) -> None:
    """Keep a code server running until the daemon ends; end the daemon if the webserver ends."""
    os.setsid()  # a signal to the daemon's group must not end this process before it has stopped its children
    os.closerange(3, _INHERITED)  # a copy of the daemon's lock would outlive the daemon
    # Only `code-server` can reload the definitions when a user clicks Reload in the UI.
    kind = ["code-server", "start"] if webserver else ["api", "grpc"]
    code = ["dagster", *kind, "-m", _module("definitions"), "--socket", str(folder / "code")]
    started = {"code": _start(*code, "--log-level", "warning")}
    if webserver:
        started["webserver"] = _start(_module("webserver"), *webserver)
    while os.getppid() == daemon:
        if webserver and started["webserver"].poll() is not None:
            os.kill(daemon, signal.SIGTERM)
            break
        if started["code"].poll() is not None:
            (folder / "code").unlink(missing_ok=True)
            started["code"] = _start(*code, "--log-level", "warning")
        time.sleep(_LOOKS_EVERY_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in started.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        time.sleep(_LAST_WORDS_S if number is signal.SIGTERM else 0.0)


def _start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *command], start_new_session=True)


def _module(name: str) -> str:
    return f"{__spec__.parent}.{name}"


if __name__ == "__main__":
    main(sys.argv[1:])
