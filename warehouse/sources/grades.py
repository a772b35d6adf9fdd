"""Grades as people write them: per cents, fractions, stars, and words in an order.

Words are numbered from 1 by the order that was declared, or by the shortest known order with all words of a table.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warehouse.sources.words import MEANINGS

REMEDY = "if words are grades, say their order, the lowest first, as --grades poor,fair,good (reading.grades)"
"""What to do about words of which no order is known."""

_NUMBER = r"\d+(?:[.,]\d+)?"
_PER_CENT = re.compile(rf"([+-]?{_NUMBER})\s?%")
_FRACTION = re.compile(rf"({_NUMBER})\s?(?:/|of|out of)\s?(\d+)")
_COUNTED = re.compile(rf"({_NUMBER})\s?(?:[★⭐]|stars?)", re.IGNORECASE)
_NAMED = re.compile(rf"({_NUMBER})\s?[-–:=.)(]\s?[^\W\d][\w ]*\)?|[^\W\d][\w ]*\s?\(({_NUMBER})\)")
_STARS = re.compile("([★⭐]*)(½?)☆*")
_BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")

_GRADES = (
    *("poor|*|good", "poor|*|good|excellent", "poor|*|good|very good", "poor|*|good|very good|excellent"),
    *("very poor|poor|*|good|very good", "very poor|poor|*|good|excellent"),
    *("very poor|poor|*|good|very good|excellent", "bad|*|good", "bad|*|good|excellent", "bad|poor|*|good|excellent"),
    *("very bad|bad|*|good|very good", "very bad|bad|*|good|excellent"),
)
_LETTERS = ("f|d|c|b|a", "f|e|d|c|b|a", "f|d-|d|d+|c-|c|c+|b-|b|b+|a-|a|a+")
_ORDERS = tuple(
    tuple(order.split("|"))
    for order in (
        *(order.replace("*", fair) for order in _GRADES for fair in ("fair", "average", "ok", "okay", "acceptable")),
        *("disagree|neutral|agree", "strongly disagree|disagree|agree|strongly agree"),
        *("strongly disagree|disagree|neutral|agree|strongly agree", "never|sometimes|always"),
        "strongly disagree|disagree|neither agree nor disagree|agree|strongly agree",
        *(
            f"never|{seldom}|sometimes|{often}|always"
            for seldom in ("rarely", "seldom")
            for often in ("often", "usually")
        ),
        *("dissatisfied|neutral|satisfied", "very dissatisfied|dissatisfied|neutral|satisfied|very satisfied"),
        *("low|medium|high", "very low|low|medium|high|very high", *_LETTERS),
        *(f"incorrect|{part} correct|correct" for part in ("partially", "partly")),
        *("no|partially|yes", "no|partly|yes", "no|somewhat|yes", "no|maybe|yes", "fail|partial|pass"),
    )
)


def written(cell: str) -> tuple[str, float] | None:
    """The kind of a grade that is a number with a sign beside it, and the number; None for anything else.

    >>> written("85%"), written("4 out of 5"), written("★★★☆☆"), written("3 stars"), written("fair")
    (('per cents', 85.0), ('fractions of 5', 4.0), ('stars', 3.0), ('stars', 3.0), None)
    >>> written("2 - Fair"), written("Good (3)"), written("3 apples")
    (('named numbers', 2.0), ('named numbers', 3.0), None)
    """
    if found := _PER_CENT.fullmatch(cell):
        return "per cents", _value(found[1])
    if (found := _FRACTION.fullmatch(cell)) and _value(found[1]) <= int(found[2]):
        return f"fractions of {int(found[2])}", _value(found[1])
    if found := _COUNTED.fullmatch(cell):
        return "stars", _value(found[1])
    if found := _NAMED.fullmatch(cell):
        return "named numbers", _value(found[1] or found[2])
    found = _STARS.fullmatch(cell.replace("\ufe0f", ""))
    return ("stars", len(found[1]) + len(found[2]) / 2) if found and found[0] else None


def _value(text: str) -> float:
    return float(text.replace(",", "."))


def plain(word: str) -> str:
    """A word as words are compared: ``Very_Good`` is ``very good``."""
    return _BETWEEN_WORDS.sub(" ", word.strip()).casefold()


def order_of(words: Collection[str], declared: Sequence[str] = ()) -> tuple[str, ...] | None:
    """The order, the lowest first, in which the plain words of a table stand; None if none is known for all of them.

    Letters are grades where there are three, and one is F: A to E may be answers to choose from, C a tie of two.

    >>> order_of({"good", "poor"}), order_of({"a", "c", "f"}), order_of({"a", "b", "c"}), order_of({"no"}, ["No", "ok"])
    (('poor', 'fair', 'good'), ('f', 'd', 'c', 'b', 'a'), None, ('no', 'ok'))
    """
    if declared:
        orders = [tuple(map(plain, declared))]
    elif len(words) < 2 or set(words) <= MEANINGS.keys() or ("f" in words and len(words) < 3):
        return None
    else:
        orders = [order for order in _ORDERS if order[0] != "f" or "f" in words]
    return min((order for order in orders if order and set(words) <= set(order)), key=len, default=None)


class Graded(NamedTuple):
    """What cells say, (cells,) each: the number, NaN where there is none, and the kind of grade, else ``""``."""

    values: NDArray[np.float64]
    kinds: NDArray[np.str_]


def graded(
    cells: Mapping[str, pa.ChunkedArray], declared: Sequence[str], *, read_words: bool
) -> tuple[dict[str, Graded], list[str], bool]:
    """Read cells of text, by column and without spaces around them, as grades; each word alike in all columns.

    ``declared`` are the words that are grades, the lowest first; where none of them occurs, they are of another table.
    Words of which nobody has declared the order are read only with ``read_words``. Returns the columns, what was made
    of how many cells, as sentences, and whether every word was read as a grade.
    """
    encoded = {name: text.combine_chunks().dictionary_encode() for name, text in cells.items()}
    distinct = {name: column.dictionary.to_pylist() for name, column in encoded.items()}
    words = {plain(cell) for column in distinct.values() for cell in column if written(cell) is None}
    known = declared if words & set(map(plain, declared)) else ()
    order = order_of(words, known) if known or read_words else None
    place = {word: ("words", number) for number, word in enumerate(order or (), start=1)}
    times: dict[str, Counter[str]] = {}
    columns: dict[str, Graded] = {}
    for name, column in encoded.items():
        read = [written(cell) or place.get(plain(cell), ("", np.nan)) for cell in distinct[name]]
        codes = column.indices.to_numpy()
        for (kind, _), cell, count in zip(read, distinct[name], np.bincount(codes).tolist(), strict=True):
            times.setdefault(kind, Counter())[plain(cell) if kind == "words" else cell] += count
        values, kinds = np.array([value for _, value in read]), np.array([kind for kind, _ in read])
        columns[name] = Graded(values[codes], kinds[codes])
    return columns, [_told(kind, times[kind], order or ()) for kind in sorted(times) if kind], order is not None


def _told(kind: str, times: Counter[str], order: Sequence[str]) -> str:
    if kind != "words":
        cell, _ = times.most_common(1)[0]
        number = written(cell)
        return f"{kind} are read as numbers: {cell!r} as {number[1] if number else 0:g} (cells: {times.total():,})"
    read = ", ".join(f"{word!r} as {number} ({times[word]:,})" for number, word in enumerate(order, start=1))
    return f"words are read as grades from 1 to {len(order)}, with how often each occurs: {read}"
