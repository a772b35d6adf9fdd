"""Messages about errors of the operating system, such as a full disk or a missing permission.

Such an error is an ``OSError``, or an error of SQLite or DuckDB without an error number. It does not mean that a file
is damaged.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

_NO_PERMISSION = "this user has no permission to read or write here; change the owner or the permissions"
_FULL = "no space is left on the disk; free some space"
_READ_ONLY = "the file system is read-only; make it writable"
_QUOTA = "this user's disk quota is used up; free some space"
_BROKEN = "the disk reported a read or write error; check the disk"
_TOO_MANY = "too many files are open; close other programs or raise the limit (`ulimit -n`)"
_ADVICE = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _QUOTA,
    errno.EIO: _BROKEN,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: _TOO_MANY,
    errno.ENAMETOOLONG: "the file name is too long for this system; choose a shorter name",
    errno.ENOMEM: "the system is out of memory; close other programs",
}
_OF_DATABASES = {
    "no space left|disk is full": _FULL,
    "quota exceeded": _QUOTA,
    "input/output error|disk i/o error": _BROKEN,
    "read-only file system|readonly database": _READ_ONLY,
    "permission denied": _NO_PERMISSION,
    "too many open files": _TOO_MANY,
    "cannot allocate memory": _ADVICE[errno.ENOMEM],
    "database is locked": "another process has locked the database; wait until that process ends, or stop it",
}
"""Reason and remedy, keyed by a pattern of the database's message."""

_DATABASES = ("sqlite3", "duckdb", "_duckdb")


def refusal(error: BaseException, path: Path | None = None) -> str | None:
    """Return a message with the reason for a system error and a remedy; return None for any other error.

    The causes of ``error`` are also checked. If the system error names no path, the message names ``path``.
    """
    for cause in _with_causes(error):
        if (advice := _advice(cause, path)) is not None:
            where = _path_in(cause) or path or "a database of the workspace"
            return f"{where}: {advice}, then run the same command again to continue"
    return None


def _advice(error: BaseException, path: Path | None) -> str | None:
    if isinstance(error, OSError):
        return _ADVICE.get(error.errno or 0)
    if type(error).__module__.partition(".")[0] not in _DATABASES:
        return None
    text = str(error).lower()
    no_file = "unable to open database file" in text
    if path is not None and (no_file or "disk i/o error" in text):
        # SQLite does not say that a file system is full or read-only.
        state = os.statvfs(next(place for place in (path, *path.absolute().parents) if place.exists()))
        if state.f_flag & os.ST_RDONLY:
            return _READ_ONLY
        if not state.f_bavail:
            return _FULL
        # SQLite has one message for a folder without permission and for a folder in place of the file.
        if no_file and not os.access(path, os.W_OK):
            return _NO_PERMISSION
    return next((advice for words, advice in _OF_DATABASES.items() if re.search(words, text)), None)


def _path_in(error: BaseException) -> str | None:
    """Return the path in a system error (the target path of a failed move); None if the error names no path."""
    if isinstance(error, OSError):
        return str(error.filename2 or error.filename) if error.filename else None
    quoted = re.search(r'"(/[^"]+)"', str(error))
    return quoted[1] if quoted else None


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        yield current
        seen.append(current)
        current = current.__cause__ or current.__context__
