"""Folders kept as they were at many moments; what is the same in two of them is stored once.

Belongs here: keeping and putting back, with dates and modes. Belongs elsewhere: which moments are worth it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Collection
from pathlib import Path

from tests.support.logical import Signature, files_below

_QUICK = 1
"""Compression level; pages of databases shrink to a tenth at every level."""


class Snapshots:
    """Snapshots below one folder: ``NAME.json`` lists files, ``contents`` holds what they say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contents = folder / "contents"
        self._contents.mkdir(parents=True, exist_ok=True)
        self._known: dict[Path, tuple[Signature, str]] = {}

    def has(self, name: str) -> bool:
        """Whether a snapshot was kept under this name."""
        return (self._folder / f"{name}.json").exists()

    def keep(self, root: Path, name: str, touched: Collection[str] = ()) -> None:
        """Keep a folder under a name.

        Parameters
        ----------
        touched : collection of str
            Files that were written to since the folder was kept last, whatever their dates say.
        """
        for changed in touched:
            self._known.pop(root / changed, None)
        files: dict[str, tuple[str, int, int]] = {}
        folders: list[str] = []
        for entry, signature in files_below(root):
            if entry.endswith("/"):
                folders.append(entry)
            elif not entry.endswith("-shm"):  # SQLite makes it anew
                path = root / entry
                if self._known.get(path, (None, ""))[0] != signature:
                    self._known[path] = (signature, self._store(path.read_bytes()))
                files[entry] = (self._known[path][1], signature[0], path.stat().st_mode & 0o7777)
        whole = {"folders": sorted(folders), "files": files}
        temporary = self._folder / f".{name}.json.{os.getpid()}.tmp"
        temporary.write_text(json.dumps(whole))
        temporary.replace(self._folder / f"{name}.json")

    def restore(self, name: str, target: Path) -> Path:
        """Restore a folder to the state that was kept."""
        whole = json.loads((self._folder / f"{name}.json").read_text())
        target.mkdir()
        for folder in whole["folders"]:
            (target / folder).mkdir(parents=True, exist_ok=True)
        for file, (content, changed_at, mode) in whole["files"].items():
            path = target / file
            path.write_bytes(zlib.decompress((self._contents / content).read_bytes()))
            path.chmod(mode)
            os.utime(path, ns=(changed_at, changed_at))
        return target

    def note(self, name: str, file: Path) -> None:
        """Keep a text, such as what a command printed, to be read by people."""
        shutil.copyfile(file, self._folder / f"{name.replace(' ', '-')}.txt")

    def _store(self, content: bytes) -> str:
        name = hashlib.blake2b(content, digest_size=16).hexdigest()
        path = self._contents / name
        if not path.exists():
            temporary = path.with_name(f".{name}.{os.getpid()}.tmp")
            temporary.write_bytes(zlib.compress(content, _QUICK))
            temporary.replace(path)
        return name
