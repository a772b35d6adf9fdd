"""Messages about refusals of the operating system, such as a full disk or a missing permission.

A refusal arrives as an ``OSError``, or as a message of SQLite or DuckDB without an error number. It does not mean that
a file is damaged.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class _Refusal(NamedTuple):
    """A kind of refusal: its error numbers, the phrases in database errors, and the message with its remedy."""

    numbers: tuple[int, ...]
    words: tuple[str, ...]
    advice: str


_NO_PERMISSION = _Refusal(
    (errno.EACCES, errno.EPERM),
    ("permission denied",),
    "this user may not read or write there; change the owner or the permissions",
)
_FULL = _Refusal((errno.ENOSPC,), ("no space left", "disk is full"), "no space is left on the disk; free some space")
_READ_ONLY = _Refusal(
    (errno.EROFS,), ("read-only file system", "readonly database"), "the file system is read-only; make it writable"
)
_REFUSALS = (
    _FULL,
    _Refusal((errno.EDQUOT,), ("quota exceeded",), "this user's disk quota is used up; free some space"),
    _Refusal(
        (errno.EIO,),
        ("input/output error", "disk i/o error"),
        "the disk reported an error in reading or writing; check the disk",
    ),
    _READ_ONLY,
    _NO_PERMISSION,
    _Refusal(
        (errno.EMFILE, errno.ENFILE),
        ("too many open files",),
        "too many files are open; close other programs or raise the limit (`ulimit -n`)",
    ),
    _Refusal((errno.ENAMETOOLONG,), (), "the file name is too long for this system; choose a shorter name"),
    _Refusal((errno.ENOMEM,), ("cannot allocate memory",), "no memory is left; close other programs"),
    _Refusal((), ("database is locked",), "another process keeps the database locked; wait for it to end, or stop it"),
)
_DATABASES = ("sqlite3", "duckdb", "_duckdb")


def refusal(error: BaseException, path: Path | None = None) -> str | None:
    """Return a sentence about the refusal and its remedy, or None if the error is of another kind.

    The error or one of its causes may be the refusal. If it names no path, the sentence names ``path``.
    """
    for cause in _with_causes(error):
        refused = _recognised(cause, path)
        if refused is not None:
            where = _path_in(cause) or path or "a database of the workspace"
            return f"{where}: {refused.advice}, then run the same command again to continue"
    return None


def _recognised(error: BaseException, path: Path | None) -> _Refusal | None:
    if isinstance(error, OSError):
        return next((kind for kind in _REFUSALS if error.errno in kind.numbers), None)
    if type(error).__module__.partition(".")[0] not in _DATABASES:
        return None
    text = str(error).lower()
    no_file = "unable to open database file" in text
    if path is not None and (no_file or "disk i/o error" in text) and (of_disk := _of_the_disk(path)) is not None:
        return of_disk
    # SQLite has one message for a folder without permission and for a folder in place of the file.
    if no_file and path is not None and not os.access(path, os.W_OK):
        return _NO_PERMISSION
    return next((kind for kind in _REFUSALS if any(words in text for words in kind.words)), None)


def _of_the_disk(path: Path) -> _Refusal | None:
    """Return the refusal of a full or read-only file system; SQLite reports it without the reason."""
    state = os.statvfs(next(place for place in (path, *path.absolute().parents) if place.exists()))
    if state.f_flag & os.ST_RDONLY:
        return _READ_ONLY
    return _FULL if not state.f_bavail else None


def _path_in(error: BaseException) -> str | None:
    """Return the path that an error names; the target if it names the two paths of a move."""
    if isinstance(error, OSError):
        return str(error.filename2 or error.filename) if error.filename else None
    quoted = re.search(r'"(/[^"]+)"', str(error))
    return quoted[1] if quoted else None


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        yield current
        seen.append(current)
        current = current.__cause__ or current.__context__
