"""Server that imitates the hub of models and data sets, with repositories in a folder.

``folder/models/OWNER/NAME`` and ``folder/datasets/OWNER/NAME`` are repositories; each has the single commit ``SHA``.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


class _Handler(BaseHTTPRequestHandler):
    """Handler of the requests of `huggingface_hub` and `datasets`: repositories, their trees, and their files."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts[0] == "api":
            self._about(self.folder.joinpath(parts[1], *parts[2:4]), parts[4:])
        else:
            kind = parts.pop(0) if parts[0] == "datasets" else "models"
            self._file(self.folder.joinpath(kind, *parts[:2]), "/".join(parts[4:]))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        """Return which of the requested paths exist; the request has form fields or JSON."""
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        fields = (
            json.loads(text)
            if text.startswith("{")
            else {"paths": [unquote(p).partition("=")[2] for p in text.split("&")]}
        )
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        repository = self.folder.joinpath(parts[1], *parts[2:4])
        self._json([_entry(repository, repository / p) for p in fields["paths"] if (repository / p).exists()])

    def _about(self, repository: Path, asked: list[str]) -> None:
        if not repository.is_dir():
            self._json({"error": "Repository not found"}, 404, {"x-error-code": "RepoNotFound"})
        elif asked[:1] == ["tree"]:
            under = repository.joinpath(*asked[2:])
            self._json([_entry(repository, path) for path in sorted(under.rglob("*"))])
        else:
            files = [path for path in sorted(repository.rglob("*")) if path.is_file()]
            siblings = [{"rfilename": str(path.relative_to(repository))} for path in files]
            name = "/".join(repository.parts[-2:])
            self._json({"id": name, "sha": SHA, "gated": False, "private": False, "tags": [], "siblings": siblings})

    def _file(self, repository: Path, name: str) -> None:
        path = repository / name
        if not path.is_file():
            self._json({"error": "Entry not found"}, 404, {"x-error-code": "EntryNotFound", "x-repo-commit": SHA})
            return
        content = path.read_bytes()
        etag = {"etag": f'"{hashlib.sha256(content).hexdigest()}"', "x-repo-commit": SHA}
        self._answer(content, {**etag, "content-type": "application/octet-stream"}, 200)

    def _json(self, content: Any, code: int = 200, headers: dict[str, str] | None = None) -> None:
        self._answer(json.dumps(content).encode(), {"content-type": "application/json", **(headers or {})}, code)

    def _answer(self, content: bytes, headers: dict[str, str], code: int) -> None:
        self.send_response(code)
        for header, value in {**headers, "content-length": str(len(content))}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def _entry(repository: Path, path: Path) -> dict[str, Any]:
    """Return a file or folder as the hub lists it."""
    name = str(path.relative_to(repository))
    if path.is_dir():
        return {"type": "directory", "path": name, "oid": SHA}
    return {"type": "file", "path": name, "oid": SHA, "size": path.stat().st_size}


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """Yield the server's address, for ``HF_ENDPOINT``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"folder": folder}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
