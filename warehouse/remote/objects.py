"""The objects of a store, read and written by obstore: whole or not at all, also on the condition of what is there.

Credentials come from the environment or the platform, by the names that the store's own tools use; none is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from care_ops.errors import InputError, WarehouseError, how_to_install

_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
"""Seconds for a connection, and seconds for which a store may send nothing before the request is given up."""

_RETRIES, _RETRY_TIMEOUT_S = 3, 60
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_BYTES_PER_WRITE = 2**20
_GO_ON = "then run the same command again, which goes on where this one ended"
_NO_BUCKET = r"nosuchbucket|containernotfound|the specified bucket does not exist"
_REASONS = {
    _NO_BUCKET: "there is no such bucket; create it, or correct `data` in care.yaml",
    r"169\.254\.169\.254|metadata\.google\.internal|no credential": "this process has no credentials for it; set those "
    "of the store in its environment, or give its machine a role that may read and write there",
    r"401 unauthorized|403 forbidden|invalidaccesskeyid|signaturedoesnotmatch|accessdenied|permission denied": "it "
    "refuses the credentials of this process; give it some that may read, write and delete there",
}
"""Patterns of what a store answers -> the reason in words and the remedy."""

_ATTEMPTS = re.compile(r" in [\d.]+\S*s, after .*?retry_timeout: \S+")
"""What the library adds to an error: how long it took, and how often it tried."""


class Version(NamedTuple):
    """Which content an object has: its tag, and for stores that count them the number of its version."""

    tag: str
    number: str | None = None


class Objects:
    """The objects below an address; every method raises ``WarehouseError`` where the store does not do its part."""

    def __init__(self, address: str) -> None:
        self.address = address

    @cached_property
    def _store(self) -> Any:
        try:
            from obstore.store import from_url
        except ImportError:
            raise InputError(
                f"data in care.yaml is {self.address}, for which obstore is needed; {how_to_install('stores')}"
            ) from None
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
        """The tag of each object, which changes with its content, and when it was written, in seconds since 1970."""
        with self._asking("be listed"):
            pages = list(self._store.list())
        return {e["path"]: (str(e["e_tag"] or ""), e["last_modified"].timestamp()) for page in pages for e in page}

    def put(
        self, key: str, content: Path | bytes, over: Version | Literal["create", "overwrite"] = "overwrite"
    ) -> Version | None:
        """Write an object; None where the condition fails.

        Parameters
        ----------
        over : Version, "create" or "overwrite"
            Write only in the place of this version, only if there is no such object, or in any case.

        Raises
        ------
        NotImplementedError
            Where the store, as a folder does, has no write in the place of one version.
        """
        mode: Any = over
        if isinstance(over, Version):
            mode = {"e_tag": over.tag} | ({"version": over.number} if over.number else {})
        with self._asking(f"take {key}", "AlreadyExistsError", "PreconditionError", "NotFoundError"):
            return _version(self._store.put(key, content, mode=mode))
        return None

    def get(self, key: str) -> tuple[bytes, Version] | None:
        """Content and version of a small object; None where there is none."""
        with self._asking(f"give {key}", "NotFoundError"):
            result = self._store.get(key)
            return bytes(result.bytes()), _version(result.meta)
        return None

    def head(self, key: str) -> Version | None:
        """Version of an object; None where there is none."""
        with self._asking(f"give {key}", "NotFoundError"):
            return _version(self._store.head(key))
        return None

    def fetch(self, key: str, target: Path) -> Version:
        """Write an object into a file, some of it at a time."""
        with self._asking(f"give {key}"):
            result = self._store.get(key)
            with target.open("wb") as file:
                for chunk in result.stream(min_chunk_size=_BYTES_PER_WRITE):
                    file.write(chunk)
            if target.stat().st_size != result.meta["size"]:
                raise ConnectionError("the connection ended before the object did")
            return _version(result.meta)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that do not exist are no error."""
        for key in keys:
            with self._asking(f"delete {key}", "NotFoundError"):
                self._store.delete(key)

    @contextmanager
    def _asking(self, what: str, *expected: str) -> Generator[None]:
        """Say in one sentence what the store did not do, why, and what to do; an ``expected`` error ends the block."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ConnectionError, PermissionError, TimeoutError) as error:
            kind = "NotFoundError" if isinstance(error, FileNotFoundError) else type(error).__name__
            if kind in expected and not re.search(_NO_BUCKET, str(error), re.IGNORECASE):
                return
            raise WarehouseError(f"{self.address} could not {what}: {_reason(error)}, {_GO_ON}") from error


def _version(answer: Any) -> Version:
    return Version(str(answer["e_tag"] or ""), answer["version"])


def _reason(error: Exception) -> str:
    text = f"{type(error).__name__} {error}"
    known = next((told for words, told in _REASONS.items() if re.search(words, text, re.IGNORECASE)), None)
    first = _ATTEMPTS.sub("", (str(error).strip() or type(error).__name__).splitlines()[0].rstrip("."))
    return known or (
        f"it cannot be reached, or the connection was cut ({first}); see that the network and the address are right"
    )
