"""File names for test sets and judges.

Two names never share a file, on any file system. No name can refer to a file in another folder.
"""

import unicodedata
from collections.abc import Iterable
from urllib.parse import quote

from care_ops.errors import InputError

_LONGEST = 200
"""Maximum length of an escaped name in bytes; a whole file name may have 255."""


def page_name(testset: str) -> str:
    """Return the file name of a test set's page."""
    return f"testset-{_safe(testset)}.html"


def labels_name(testset: str) -> str:
    """Return the name of the file that proposes items of a test set for labelling."""
    return f"to_label-{_safe(testset)}.csv"


def items_name(page: str) -> str:
    """Return the file name of the page of items, such as ``items-X.html`` for ``testset-X.html``."""
    return "items" + page.removeprefix("testset").removeprefix("report")


def refuse_alike(kind: str, names: Iterable[str], where: object = None) -> None:
    """Raise ``InputError`` if names are too long for a file name, or differ only in case or in Unicode form.

    ``kind`` is what the names denote, such as ``judge``; the message starts with ``where``, a file or folder.
    """
    seen: dict[str, str] = {}
    for name in names:
        if len(_safe(name)) > _LONGEST:
            raise InputError(
                f"{where or kind}: {kind} name {name[:40]!r}... needs over {_LONGEST} bytes in a file name; shorten it"
            )
        other = seen.setdefault(unicodedata.normalize("NFC", name.casefold()), name)
        if other != name:
            raise InputError(
                f"{'' if where is None else f'{where}: '}{kind} names {other!r} and {name!r} differ only in case "
                "or in the form of an accented letter, and some file systems would store both in one file; rename one"
            )


def _safe(name: str) -> str:
    return quote(name, safe="").replace("%", "+")  # a page's address would need a % to be escaped once more
