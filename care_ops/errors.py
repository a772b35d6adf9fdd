"""Errors that CARE raises, and functions that format error messages.

Each message states the problem, the place and the remedy.
"""

import re
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import wraps
from importlib import metadata
from pathlib import PurePath
from typing import ParamSpec, TypeVar

_LISTED = 12

_LONGEST, _END = 400, 270
"""Maximum length of a message and of the part at the end that states the remedy, in characters."""

_CLAUSE = re.compile(r"(?<=[;.])\s|,\s(?=where )")

# Characters that move a terminal's cursor, reverse a text, or cannot be encoded.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")

P = ParamSpec("P")
R = TypeVar("R")


class CareError(Exception):
    """Base class of the errors that CARE raises."""


class InputError(CareError):
    """Error for an input that cannot be used: a file, a table, a configuration or an argument."""


class FitError(CareError):
    """Error for valid scores from which a method cannot compute a reliable estimate."""


class JudgeError(CareError):
    """Error for a judge that cannot be built, or whose output does not match the judge's specification."""


class WarehouseError(CareError):
    """Error for stored scores or a database in an invalid state."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural, such as ``2 items``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def misspelt(names: Collection[str], expected: Iterable[str]) -> list[str]:
    """Return a question for each expected column that may be misspelt in the table.

    Examples
    --------
    >>> misspelt(["item_id", "drwan"], ["item_id", "drawn"])
    ["no column is called 'drawn': is 'drwan' a misspelling?"]
    """
    near = {name: get_close_matches(name, [n for n in names if not n.startswith(name)], 1, 0.75) for name in expected}
    return [f"no column is called {name!r}: is {n[0]!r} a misspelling?" for name, n in near.items() if n]


def how_to_install(extra: str) -> str:
    """Return an instruction to install an optional extra of CARE with pip."""
    return f"run pip install '.[{extra}]' in a clone of CARE, or replace the dot by the path of CARE's wheel"


def release() -> str:
    """Return the installed version of CARE."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("care-eval")
    return "of a source folder"


def listed(names: Sequence[str], most: int = _LISTED) -> str:
    """Join the first ``most`` names with commas, and add the number of the remaining names."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


@contextmanager
def guard(where: object, remedy: str, kind: type[CareError] = InputError) -> Generator[None]:
    """Convert the exceptions of other libraries in a ``with`` block to one-line errors of class ``kind``.

    The message starts with ``where`` (the last entry if ``where`` is a list) and ends with ``remedy``.
    """
    try:
        yield
    except CareError as error:
        error.args = (sentence(str(error)), *error.args[1:])
        raise
    except ModuleNotFoundError:
        raise  # a missing package is not an error of the input
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of a library in Rust
            raise
        place = where[-1] if isinstance(where, list) else where
        message = f"{type(error).__name__}: {str(error)[:_LONGEST]}".removesuffix(": ")
        message = "the data is nested too deeply" if isinstance(error, RecursionError) else message
        raise kind(sentence(f"{place}: cannot be read ({message}); {remedy}")) from error


def guarded(remedy: str, what: str = "the table") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that applies ``guard`` to a function.

    Messages start with the function's first argument if this is a path, otherwise with ``what``.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def guarding(*args: P.args, **kwargs: P.kwargs) -> R:
            first = next(iter([*args, *kwargs.values()]), None)
            with guard(first if isinstance(first, (str, PurePath)) else what, remedy):
                return function(*args, **kwargs)

        return guarding

    return decorate


def sentence(text: str) -> str:
    """Convert a text to one line without control characters, and replace the middle of a long text by dots."""
    line = _UNPRINTABLE.sub(" ", text)
    if len(line) <= _LONGEST:
        return line
    clause = _CLAUSE.search(line, len(line) - _END)
    end = line[clause.end() :] if clause and clause.end() < len(line) else line[-_END // 2 :]
    start = line[: _LONGEST - len(end) - 5]
    return f"{start.rpartition(' ')[0].rstrip(' ,;') or start} ... {end}"


def capital(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
