"""Local servers and processes for tests, and functions that wait for these."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

POLL_S = 0.02
"""Seconds after which a server notices that it is to stop."""


def free_port() -> int:
    """Return a free port of this machine, outside of the range for Ray's workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class QuietHandler:
    """Mixin for subclasses of ``BaseHTTPRequestHandler``: it writes no log, and sends a whole answer in one call."""

    def send_content(self, content: bytes, code: int = 200, **headers: str) -> None:
        """Send an answer with its length; ``_`` in the name of a header stands for ``-``."""
        self.send_response(code)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class LocalServer(ThreadingHTTPServer):
    """Server with a request handler; subclasses set their attributes before they call ``__init__``."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]):
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, args=(POLL_S,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        """URL for ``base_url`` of an endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


def wait_until(done: Callable[[], object], say: Callable[[], str] = str, seconds: float = 300.0) -> None:
    """Wait until ``done()`` is true; fail with the text of ``say()`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, say()
        time.sleep(0.05)


def accepts(port: int) -> bool:
    """Return whether a port of this machine accepts connections."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def kill(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """End a process and all its children, like the end of a container."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextmanager
def started(
    command: Sequence[str], log: Path, folder: Path | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a new group; at the end, interrupt it, and kill it if it does not stop."""
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    try:
        yield process
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            kill(process, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
                break


def wait_for_ui(process: subprocess.Popen[bytes], port: int, log: Path) -> str:
    """Wait until Dagster's webserver answers, and return its address."""
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(OSError):
            urllib.request.urlopen(f"{address}/server_info", timeout=5).close()
            return True
        return False

    wait_until(answers, log.read_text, 120)
    return address


@contextmanager
def dagster_webserver(words: Sequence[str], log: Path, folder: Path | None = None, **environment: str) -> Iterator[str]:
    """Run ``python -m WORDS PORT``, which serves Dagster's UI, and yield its address."""
    port = free_port()
    with started([sys.executable, "-m", *words, str(port)], log, folder, **environment) as process:
        yield wait_for_ui(process, port, log)
