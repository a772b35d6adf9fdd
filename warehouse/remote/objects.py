"""Client of a remote store that reads and writes objects with obstore, optionally with conditional writes.

Credentials are read from the environment or the platform, under the names that the store's own tools use. CARE stores
no credentials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from care_ops.errors import InputError, WarehouseError, how_to_install

_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
"""Time limits in seconds for a connection attempt, and for a request that receives no data."""

_RETRIES, _RETRY_TIMEOUT_S = 3, 60
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_NO_BUCKET = r"nosuchbucket|containernotfound|the specified bucket does not exist"
_REASONS = {
    _NO_BUCKET: "the bucket does not exist; create it, or correct `data` in care.yaml",
    r"169\.254\.169\.254|metadata\.google\.internal|no credential": "this process has no credentials; set the store's "
    "credentials in its environment, or give this machine a role that may read and write the store",
    r"401 unauthorized|403 forbidden|invalidaccesskeyid|signaturedoesnotmatch|accessdenied|permission denied": "the "
    "store refuses the credentials of this process; set credentials that may read, write and delete objects",
}
"""Reason and remedy, keyed by a pattern of the store's error message."""

_ATTEMPTS = re.compile(r" in [\d.]+\S*s, after .*?retry_timeout: \S+")
"""Pattern of the text about duration and attempts that obstore adds to an error message."""

Version = dict[str, str]
"""Version of an object: its ``e_tag`` and, in a store with versioning, its ``version``."""


class Objects:
    """Access to the objects below the URL of a store; each method raises ``WarehouseError`` if the store fails."""

    def __init__(self, address: str) -> None:
        self.address = address

    @cached_property
    def _store(self) -> Any:
        from obstore.store import from_url

        if self.address.startswith("file:"):
            return from_url(self.address, mkdir=True)
        limits: Any = {
            "connect_timeout": timedelta(seconds=_CONNECT_TIMEOUT_S),
            "read_timeout": timedelta(seconds=_READ_TIMEOUT_S),
            "timeout": timedelta(days=1),  # a large object may take long, as long as something arrives
            "allow_http": any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS),
        }
        retries: Any = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_TIMEOUT_S)}
        return from_url(self.address, client_options=limits, retry_config=retries)

    def list(self) -> dict[str, tuple[str, float]]:
        """Return the ETag and the modification time (Unix time in seconds) of each object, by key."""
        with self._asking("list the objects"):
            entries = [entry for page in self._store.list() for entry in page]
        return {e["path"]: (str(e["e_tag"] or ""), e["last_modified"].timestamp()) for e in entries}

    def get(self, key: str) -> tuple[bytes, Version] | None:
        """Return the content and version of a small object, or None if the object does not exist."""
        with self._asking(f"read {key}", "NotFoundError"):
            result = self._store.get(key)
            version = {name: result.meta[name] for name in ("e_tag", "version") if result.meta[name] is not None}
            return bytes(result.bytes()), version
        return None

    def fetch(self, key: str, target: Path) -> str:
        """Download an object to a file, in chunks; return the object's ETag."""
        with self._asking(f"read {key}"), target.open("wb") as file:
            result = self._store.get(key)
            file.writelines(result.stream(min_chunk_size=2**20))
            file.flush()
            if target.stat().st_size != result.meta["size"]:
                raise ConnectionError("the connection ended before the whole object arrived")
            return str(result.meta["e_tag"] or "")

    def put(self, key: str, content: Path | bytes, mode: Version | str = "overwrite") -> Version | None:
        """Write an object; return its new version, or None if the condition in ``mode`` is not met.

        ``mode`` is "overwrite", "create" (the object must not exist), or the version that the object must have. If the
        store is a folder, the version is not checked.
        """
        with self._asking(f"write {key}", "AlreadyExistsError", "PreconditionError", "NotFoundError"):
            try:
                return self._store.put(key, content, mode=mode)
            except NotImplementedError:
                return self._store.put(key, content)
        return None

    def delete(self, key: str) -> None:
        """Delete an object if it exists."""
        with self._asking(f"delete {key}", "NotFoundError"):
            self._store.delete(key)

    @contextmanager
    def _asking(self, what: str, *expected: str) -> Generator[None]:
        """Convert the store's errors to ``WarehouseError`` with a remedy; suppress errors of the types ``expected``."""
        try:
            from obstore.exceptions import BaseError
        except ImportError:
            raise InputError(
                f"`data` in care.yaml is {self.address}; such a store needs obstore; {how_to_install('stores')}"
            ) from None
        try:
            yield
        except (BaseError, FileNotFoundError, ConnectionError, PermissionError, TimeoutError) as error:
            kind = "NotFoundError" if isinstance(error, FileNotFoundError) else type(error).__name__
            text = f"{type(error).__name__} {error}"
            if kind in expected and not re.search(_NO_BUCKET, text, re.IGNORECASE):
                return
            first = _ATTEMPTS.sub("", (str(error).strip() or kind).splitlines()[0].rstrip("."))
            unreachable = (
                f"the store cannot be reached, or the connection was cut ({first}); check the network and `data` in "
                "care.yaml"
            )
            known = (reason for words, reason in _REASONS.items() if re.search(words, text, re.IGNORECASE))
            raise WarehouseError(
                f"{self.address}: CARE could not {what}: {next(known, unreachable)}, then run the same command again "
                "to continue"
            ) from error
