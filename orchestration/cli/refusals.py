"""What the disk or the file system refused, as a sentence.

Belongs here: telling such errors apart, whichever library met them. Does not: CARE's own errors (``output``), or an
error of any other kind, which is a fault of the program and shows its traceback.
"""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator

_REASONS = {
    errno.ENOSPC: "there is no space left on the disk; make room",
    errno.EDQUOT: "the quota of this user on the disk is used up; make room",
    errno.EIO: "the disk reported an error in reading or writing; check the disk",
    errno.EROFS: "the file system is read-only; make it writable",
    errno.EACCES: "this user may not write there; change the owner or the permissions",
    errno.EPERM: "this user may not write there; change the owner or the permissions",
}
_WORDS = {
    errno.ENOSPC: ("no space left on device", "disk is full"),
    errno.EIO: ("input/output error", "disk i/o error"),
    errno.EROFS: ("read-only file system", "readonly database"),
    errno.EACCES: ("permission denied", "unable to open database file"),
}
"""How SQLite and DuckDB, which give no number, say the same."""
_THEN = "then run the same command again, which goes on where this one ended"


def refusal(error: BaseException) -> str | None:
    """A sentence about what was refused and what to do, or None where the error is of another kind."""
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.errno in _REASONS:
            where = f"{cause.filename2 or cause.filename}: " if cause.filename else ""
            return f"{where}{_REASONS[cause.errno]}, {_THEN}"
        if isinstance(cause, sqlite3.Error) or type(cause).__module__.split(".")[0] in ("duckdb", "_duckdb"):
            text = str(cause).lower()
            number = next((n for n, words in _WORDS.items() if any(word in text for word in words)), None)
            if number is not None:
                path = re.search(r'"(/[^"]+)"', str(cause))
                where = f"{path[1]}: " if path else "a database of the workspace: "
                return f"{where}{_REASONS[number]}, {_THEN}"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it, outermost first."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        yield current
        seen.append(current)
        current = current.__cause__ or current.__context__
