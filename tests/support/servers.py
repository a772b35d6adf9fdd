"""A local server for a test, which answers from the moment it is made and is gone at the end of its ``with``."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def free_port() -> int:
    """A port of this machine on which nobody listens, outside of those that Ray gives to its workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class LocalServer(ThreadingHTTPServer):
    """Answers by a handler; whatever else it has must be there before this class begins to serve."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]):
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        """As an endpoint's ``base_url`` names it."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"
