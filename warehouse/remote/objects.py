"""Reading and writing the objects of a store, by whatever protocol it speaks.

An object is written as a whole or not at all. Credentials come from where the store's own tools take them: the
environment, a profile, or the platform; they are neither asked for nor kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from care_ops.errors import CareError, InputError, WarehouseError, how_to_install

_CONNECT_TIMEOUT_S = 10
_READ_TIMEOUT_S = 60
"""Seconds for which a store may send nothing before the request is given up."""

_RETRIES = 3
_RETRY_TIMEOUT_S = 60
_BYTES_PER_WRITE = 2**20

_GO_ON = "then run the same command again, which goes on where this one ended"
_NO_BUCKET = ("nosuchbucket", "containernotfound", "the specified bucket does not exist")
_NO_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "no credential")
_ATTEMPTS = re.compile(r" in [\d.]+\S*s, after .*?retry_timeout: \S+")
"""What the library adds to an error: how long it took, and how often it tried."""

_REFUSED = (
    "401 unauthorized",
    "403 forbidden",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "accessdenied",
    "permission denied",
)


@dataclass(frozen=True)
class Version:
    """Which content an object has: its tag, and for stores that count them the number of its version."""

    tag: str
    number: str | None = None

    @classmethod
    def of(cls, answer: Any) -> Version:
        """The version that a store's answer names."""
        return cls(str(answer["e_tag"] or ""), answer["version"])


@dataclass(frozen=True)
class Listed:
    """An object as the store lists it.

    Attributes
    ----------
    tag : str
        Changes with the content.
    changed : float
        When it was written, in seconds since 1970.
    """

    tag: str
    changed: float


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
        options: dict[str, Any] = {
            "client_options": {
                "connect_timeout": timedelta(seconds=_CONNECT_TIMEOUT_S),
                "read_timeout": timedelta(seconds=_READ_TIMEOUT_S),
                "timeout": timedelta(days=1),  # a large object may take long, as long as something arrives
                "allow_http": _chosen_without_encryption(),
            },
            "retry_config": {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_TIMEOUT_S)},
        }
        with self._speaking("be opened"):
            return from_url(self.address, **options, **credentials_of_profile(self.address))

    def listed(self) -> dict[str, Listed]:
        """All objects, by key."""
        with self._speaking("be listed"):
            return {
                entry["path"]: Listed(str(entry["e_tag"] or ""), entry["last_modified"].timestamp())
                for page in self._store.list()
                for entry in page
            }

    def put(self, key: str, content: Path | bytes) -> Version:
        """Write an object, or replace it."""
        with self._speaking(f"take {key}"):
            return Version.of(self._store.put(key, content))

    def create(self, key: str, content: bytes) -> bool:
        """Write an object unless it exists; whether it was written."""
        with self._speaking(f"take {key}", *_conflicts()):
            self._store.put(key, content, mode="create")
            return True
        return False

    def replace(self, key: str, content: bytes, version: Version) -> bool:
        """Replace an object unless it has another version, or is gone; whether it was written.

        Raises ``NotImplementedError`` where the store has no such operation.
        """
        mode = {"e_tag": version.tag} | ({"version": version.number} if version.number else {})
        with self._speaking(f"take {key}", *_conflicts(), FileNotFoundError):
            self._store.put(key, content, mode=mode)
            return True
        return False

    def get(self, key: str) -> tuple[bytes, Version] | None:
        """Content and version of a small object; None where there is none."""
        with self._speaking(f"give {key}", FileNotFoundError):
            result = self._store.get(key)
            return bytes(result.bytes()), Version.of(result.meta)
        return None

    def head(self, key: str) -> Version | None:
        """Version of an object; None where there is none."""
        with self._speaking(f"give {key}", FileNotFoundError):
            return Version.of(self._store.head(key))
        return None

    def fetch(self, key: str, target: Path) -> Version:
        """Write an object into a file, some of it at a time."""
        with self._speaking(f"give {key}"):
            result = self._store.get(key)
            with target.open("wb") as file:
                for chunk in result.stream(min_chunk_size=_BYTES_PER_WRITE):
                    file.write(chunk)
            if target.stat().st_size != result.meta["size"]:
                raise ConnectionError("the connection ended before the object did")
            return Version.of(result.meta)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that do not exist are no error."""
        for key in keys:
            with self._speaking(f"delete {key}", FileNotFoundError):
                self._store.delete(key)

    @contextmanager
    def _speaking(self, what: str, *passed_over: type[Exception]) -> Generator[None]:
        """Say in one sentence what the store did not do, why, and what to do about it.

        An error of the kinds that are ``passed_over`` ends the block alone, unless there is no bucket at all.
        """
        try:
            yield
        except CareError:
            raise
        except Exception as error:
            if isinstance(error, passed_over) and not _names(error, _NO_BUCKET):
                return
            if not _is_of_the_store(error):
                raise
            raise WarehouseError(f"{self.address} could not {what}: {_reason(error)}, {_GO_ON}") from error


def _conflicts() -> tuple[type[Exception], ...]:
    """How a store refuses to write an object because of the one that it has."""
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    return AlreadyExistsError, PreconditionError


def _is_of_the_store(error: Exception) -> bool:
    from obstore.exceptions import BaseError

    return isinstance(error, (BaseError, FileNotFoundError, ConnectionError, PermissionError, TimeoutError))


def _reason(error: Exception) -> str:
    """Why a store refused, and what to do."""
    if _names(error, _NO_BUCKET):
        return "there is no such bucket; create it, or correct `data` in care.yaml"
    if _names(error, _NO_CREDENTIALS):
        return (
            "this process has no credentials for it; set those of the store in its environment, or give its machine a "
            "role that may read and write there"
        )
    if _names(error, _REFUSED):
        return "it refuses the credentials of this process; give it some that may read, write and delete there"
    first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    first = _ATTEMPTS.sub("", first)
    return f"it cannot be reached, or the connection was cut ({first}); see that the network and the address are right"


def _names(error: Exception, words: Iterable[str]) -> bool:
    text = f"{type(error).__name__} {error}".lower()
    return any(word in text for word in words)


def _chosen_without_encryption() -> bool:
    """Whether a person has named an endpoint of S3 that does not encrypt, as one on this machine."""
    endpoints = (os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"))
    return any(endpoint.startswith("http://") for endpoint in endpoints)


def credentials_of_profile(address: str) -> dict[str, Any]:
    """Credentials of a named profile, which boto3 knows how to read; nothing where none is named."""
    if not address.startswith("s3:") or not os.environ.get("AWS_PROFILE") or os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    try:
        session = import_module("boto3").Session()
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise InputError(
            "AWS_PROFILE is set, and boto3, which reads profiles, is not installed; pip install boto3, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from None
    return {"credential_provider": Boto3CredentialProvider(session)}
