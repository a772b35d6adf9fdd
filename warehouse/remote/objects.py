"""The objects of a store, read and written by obstore; a write may require a certain present version.

Credentials come from the environment or the platform, under the names that the store's own tools use. None is stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from care_ops.errors import InputError, WarehouseError, how_to_install

_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
"""Seconds for a connection, and seconds without data after which a request fails."""

_RETRIES, _RETRY_TIMEOUT_S = 3, 60
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_GO_ON = "then run the same command again to continue"
_NO_BUCKET = r"nosuchbucket|containernotfound|the specified bucket does not exist"
_REASONS = {
    _NO_BUCKET: "there is no such bucket; create it, or correct `data` in care.yaml",
    r"169\.254\.169\.254|metadata\.google\.internal|no credential": "this process has no credentials for it; set those "
    "of the store in its environment, or give its machine a role that may read and write there",
    r"401 unauthorized|403 forbidden|invalidaccesskeyid|signaturedoesnotmatch|accessdenied|permission denied": "it "
    "refuses the credentials of this process; give it some that may read, write and delete there",
}
"""Reason and remedy by the pattern of a store's error."""

_ATTEMPTS = re.compile(r" in [\d.]+\S*s, after .*?retry_timeout: \S+")
"""The part of an error with duration and number of tries, which obstore adds."""

Version = dict[str, str]
"""Version of an object's content: its ``e_tag``, and its ``version`` in stores that count versions."""


class Objects:
    """The objects below a URL; every method raises ``WarehouseError`` if the store fails."""

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
        with self._asking("be opened"):
            return from_url(self.address, client_options=limits, retry_config=retries)

    def listed(self) -> dict[str, tuple[str, float]]:
        """Return the tag of each object, which changes with its content, and its time in seconds since 1970."""
        with self._asking("be listed"):
            entries = [entry for page in self._store.list() for entry in page]
        return {e["path"]: (str(e["e_tag"] or ""), e["last_modified"].timestamp()) for e in entries}

    def put(self, key: str, content: Path | bytes, mode: Version | str = "overwrite") -> Version | None:
        """Write an object in any case, only over a version, or only if none exists ("create"); None if this fails.

        Raises ``NotImplementedError`` if the store, such as a folder, cannot write on the condition of a version.
        """
        with self._asking(f"take {key}", "AlreadyExistsError", "PreconditionError", "NotFoundError"):
            return self._store.put(key, content, mode=mode)
        return None

    def get(self, key: str) -> tuple[bytes, Version] | None:
        """Return content and version of a small object; None if it does not exist."""
        with self._asking(f"give {key}", "NotFoundError"):
            result = self._store.get(key)
            version = {name: result.meta[name] for name in ("e_tag", "version") if result.meta[name] is not None}
            return bytes(result.bytes()), version
        return None

    def fetch(self, key: str, target: Path) -> str:
        """Download an object into a file, in pieces, and return its tag."""
        with self._asking(f"give {key}"):
            result = self._store.get(key)
            with target.open("wb") as file:
                for chunk in result.stream(min_chunk_size=2**20):
                    file.write(chunk)
            if target.stat().st_size != result.meta["size"]:
                raise ConnectionError("the connection ended before the object did")
            return str(result.meta["e_tag"] or "")

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; an object that does not exist is ignored."""
        for key in keys:
            with self._asking(f"delete {key}", "NotFoundError"):
                self._store.delete(key)

    @contextmanager
    def _asking(self, what: str, *expected: str) -> Generator[None]:
        """Raise an error of the store with its reason and remedy; an ``expected`` error only ends the block."""
        try:
            from obstore.exceptions import BaseError
        except ImportError:
            raise InputError(
                f"data in care.yaml is {self.address}, which needs obstore; {how_to_install('stores')}"
            ) from None
        try:
            yield
        except (BaseError, FileNotFoundError, ConnectionError, PermissionError, TimeoutError) as error:
            kind, text = type(error).__name__, f"{type(error).__name__} {error}"
            kind = "NotFoundError" if isinstance(error, FileNotFoundError) else kind
            if kind in expected and not re.search(_NO_BUCKET, text, re.IGNORECASE):
                return
            known = (reason for words, reason in _REASONS.items() if re.search(words, text, re.IGNORECASE))
            first = _ATTEMPTS.sub("", (str(error).strip() or type(error).__name__).splitlines()[0].rstrip("."))
            unreachable = (
                f"it cannot be reached, or the connection was cut ({first}); see that the network and the address are "
                "right"
            )
            raise WarehouseError(f"{self.address} could not {what}: {next(known, unreachable)}, {_GO_ON}") from error
