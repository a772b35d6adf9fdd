"""A store on this machine that speaks the language of S3, and a way to it that cuts connections."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

BUCKET = "bucket"
SECRET = "a-key-that-is-written-nowhere"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
_PATIENCE_S = 120.0


def environment(port: int) -> dict[str, str]:
    """The variables by which a process finds the store at a port of this machine."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


@contextmanager
def s3_server(log: Path, variables: dict[str, str] | None = None) -> Generator[int]:
    """A server with an empty bucket, in a process of its own; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=output, stderr=output, env=variables
        )
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _answers(port):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        _make_bucket(port)
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def _make_bucket(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", f"/{BUCKET}")
    connection.getresponse().read()
    connection.close()


class CuttingProxy(ThreadingHTTPServer):
    """Passes requests on to a port of this machine, and cuts those that ``cut(method, path)`` names in their middle.

    Attributes
    ----------
    cut : callable
        Whether to cut a request; by default none.
    count : int
        How many requests were cut.
    """

    daemon_threads = True

    def __init__(self, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.upstream = upstream
        self.cut: Callable[[str, str], bool] = lambda method, path: False
        self.count = 0
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that is cut off cuts its other connections too."""


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CuttingProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        is_cut = self.server.cut(self.command, self.path)
        self.server.count += is_cut
        if is_cut and body:  # half of what is sent arrives
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders()
            upstream.send(body[: len(body) // 2])
            upstream.close()
            self._hang_up()
            return
        upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("content-length") if self.command == "HEAD" else len(content)
        self.send_header("content-length", str(length or 0))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if is_cut else content)
        if is_cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - as the library calls them

    def log_message(self, *_: object) -> None:
        """Say nothing."""
