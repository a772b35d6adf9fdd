"""Hashes of values and of files, for versions and keys of a workspace."""

import hashlib
import json
import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

_BYTES = "bytes"


def content_hash(value: object) -> str:
    """Hash the JSON of a value; parts that JSON cannot represent are converted to text first."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


class FileHashes:
    """Cache of values that were computed from files; a value is computed again only if the file's bytes have changed.

    A file with unchanged size and timestamps is not even read. A JSON document stores the cache for later processes.
    If the document is deleted, each file is read once more.

    Parameters
    ----------
    path : Path
        JSON document of the cache; the document may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False

    def of(self, file: Path, about: object, compute: Callable[[], Any]) -> Any:
        """Compute a value from a file, or return the cached value if the file has not changed.

        Parameters
        ----------
        about : object
            Everything else on which the value depends, such as the settings for reading the file.
        compute : callable
            Function that reads the file and returns a value that JSON can represent; if it raises, nothing is cached.
        """
        from warehouse.storage import file_state, is_settled

        before = file_state(file)
        key = content_hash([str(file), about])
        entry = self._entries.get(key)
        if entry is not None and before is not None and entry["state"] == before:
            return entry["value"]
        content = "" if before is None or about == _BYTES else self.of_bytes(file)
        is_same = entry is not None and content != "" and entry.get("content") == content
        value = entry["value"] if entry is not None and is_same else compute()
        if before is not None and before == file_state(file) and is_settled(before):
            self._entries[key] = {"file": str(file), "state": before, "content": content, "value": value}
            self._changed = True
        return value

    def former(self, file: Path, about: object) -> Any:
        """Return the latest value computed from a file, even if the file has changed; None if there is no value."""
        return self._entries.get(content_hash([str(file), about]), {}).get("value")

    def of_bytes(self, file: Path) -> str:
        """Return the hash of a file's bytes; raise ``InputError`` if the file cannot be read."""
        from warehouse.testsets import hash_of_file

        return self.of(file, _BYTES, lambda: hash_of_file(file))

    def save(self) -> None:
        """Store the cache for the next process, without entries of deleted files."""
        if not self._changed or not self._path.parent.is_dir():
            return
        from warehouse.storage import write_document

        entries = {key: entry for key, entry in self._entries.items() if Path(entry["file"]).exists()}
        try:
            write_document(self._path, {"files": entries})
        except OSError as error:  # a full or read-only disk: the next process computes the values again
            _log.info("%s: could not store the cache of file hashes (%s); files will be read again", self._path, error)
            return
        self._changed = False

    @cached_property
    def _entries(self) -> dict[str, dict[str, Any]]:
        from warehouse.storage import find_sound, read_document

        return (find_sound(self._path, read_document) or {}).get("files", {})
