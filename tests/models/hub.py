"""Server that imitates the hub of models and data sets, with repositories in a folder.

``folder/models/OWNER/NAME`` and ``folder/datasets/OWNER/NAME`` are repositories; each has the single commit ``SHA``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.servers import LocalServer, QuietHandler

SHA = "0123456789abcdef0123456789abcdef01234567"


class _Handler(QuietHandler, BaseHTTPRequestHandler):
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
        self.send_content(content, **etag, **{"content-type": "application/octet-stream"})

    def _json(self, content: Any, code: int = 200, headers: dict[str, str] | None = None) -> None:
        headers = {"content-type": "application/json", **(headers or {})}
        self.send_content(json.dumps(content).encode(), code, **headers)


def _entry(repository: Path, path: Path) -> dict[str, Any]:
    """Return a file or folder as the hub lists it."""
    name = str(path.relative_to(repository))
    if path.is_dir():
        return {"type": "directory", "path": name, "oid": SHA}
    return {"type": "file", "path": name, "oid": SHA, "size": path.stat().st_size}


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """Yield the server's address, for ``HF_ENDPOINT``."""
    with LocalServer(type("Handler", (_Handler,), {"folder": folder})) as server:
        yield server.url.removesuffix("/v1")
