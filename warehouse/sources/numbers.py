"""Parser of columns into numbers; it also reads words, grades and missing values.

Each different cell of a column is read once. A cell is a number, a missing value, a word that stands for a number
(``pass``) or a grade (``85%``, ``4/5``, three stars, ``fair``). Any other cell is refused.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.errors import InputError
from warehouse.compute import pc
from warehouse.sources.delimited import MISSING
from warehouse.sources.input_table import InputTable
from warehouse.sources.values import Identifiers, distinct, is_text

Decimal = Literal[".", ","] | None

_OF_ONE = {
    **{"pass": "fail", "passed": "failed", "yes": "no", "y": "n", "true": "false", "good": "bad"},
    **{"correct": "incorrect"},
}
"""Pairs of words about one answer: the first stands for 1, its opposite for 0."""

_OF_TWO = {
    **{"a": "b", "left": "right", "win": "lose", "won": "lost", "wins": "loses", "first": "second"},
    **{f"{what}_{a}": f"{what}_{b}" for what in ("model", "response", "answer") for a, b in ("ab", "12")},
}
"""Pairs of words about two answers: 1 means that the first answer is better, 0 that the second one is."""

_TIES = ("tie", "tied", "draw", "tie (bothbad)", "bothbad", "both_bad")
_WORDS = _OF_ONE | _OF_TWO
_MEANINGS = dict.fromkeys(_WORDS, 1.0) | dict.fromkeys(_WORDS.values(), 0.0) | dict.fromkeys(_TIES, 0.5)
"""The number that each word stands for, whichever judge writes it; case does not matter."""

WORD_EXAMPLES = "pass, fail, yes, no, A, B, tie"
HOW_TO_ORDER = "if words are grades, give their order, the lowest first, as --grades poor,fair,good (reading.grades)"
"""The remedy for words whose order is not known."""

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

_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?([iI]nf(inity)?|INF)", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
_DATE_OR_TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|\d{1,2}:\d{2}", re.ASCII)
_DIGIT = re.compile(r"\d", re.ASCII)
_NUMBER = r"\d+(?:[.,]\d+)?"
_PER_CENT = re.compile(rf"([+-]?{_NUMBER})\s?%")
_FRACTION = re.compile(rf"({_NUMBER})\s?(?:/|of|out of)\s?(\d+)")
_COUNTED = re.compile(rf"({_NUMBER})\s?(?:[★⭐]|stars?)", re.IGNORECASE)
_STARS = re.compile("([★⭐]*)(½?)☆*")
_BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
_MOST_WORDS, _LONGEST_WORD = 500, 40
_EMPTY = frozenset(MISSING)
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)

_IS_NUMBER, _IS_WORD, _IS_MISSING, _IS_REFUSED = "numbers", "words that stand for numbers", "", "refused"
"""Kinds of cells; ``_graded`` names further kinds, of grades."""


@dataclass
class _Column:
    """The different cells of a column, the kind and number of each, and the cell of each row.

    A numeric column keeps its values and has only two cells: a finite number and any other one.
    """

    cells: list[str]
    codes: NDArray[np.integer]
    kinds: list[str]
    numbers: list[float]
    note: str | None = None
    given: NDArray[np.float64] | None = None

    @property
    def values(self) -> NDArray[np.float64]:
        """The number of each row, NaN if there is none."""
        return np.array(self.numbers, dtype=np.float64)[self.codes] if self.given is None else self.given

    def rows_of(self, kind: str) -> NDArray[np.bool_]:
        """Which rows hold a cell of this kind, (rows,)."""
        return np.array([each == kind for each in self.kinds], dtype=np.bool_)[self.codes]

    def times(self) -> list[int]:
        """How often each cell occurs."""
        return np.bincount(self.codes, minlength=len(self.cells)).tolist()


def numbers(
    input_table: InputTable,
    columns: Sequence[str],
    decimal: Decimal = None,
    remedy: str = "",
    judges: Identifiers | None = None,
    order: Sequence[str] | None = None,
) -> tuple[NDArray[np.float64], list[str]]:
    """Read columns as numbers, with words such as ``pass`` and grades.

    Returns the numbers, (rows, columns), with NaN for an empty cell, and the decisions as sentences. ``judges`` names
    the judge of each row if a column holds the scores of several. ``order`` holds words that are grades, the lowest
    first. Raises ``InputError`` if a cell cannot be read, or a judge mixes words with numbers outside 0 to 1, or
    grades of one kind with other values; the message names the cells or the judge.
    """
    read = {name: _read(input_table, name, decimal) for name in columns}
    notes = _read_grades(input_table, read, declared_order(input_table, columns, order))
    refused, order_helps, words = list[str](), False, Counter[str]()
    for name, column in read.items():
        notes += [*_mixtures(input_table, name, column, judges), *([column.note] if column.note else [])]
        for cell, kind, count in zip(column.cells, column.kinds, column.times(), strict=True):
            words[cell.lower()] += count if kind == _IS_WORD else 0
        rows = np.flatnonzero(column.rows_of(_IS_REFUSED))
        if len(rows):
            cells = input_table.table.column(name).take(pa.array(rows)).to_pylist()
            refused.append(f"column {name!r} holds {input_table.cells(rows.tolist(), cells)}")
            order_helps |= all(str(cell).replace(" ", "").isalpha() for cell in cells)
    if refused:
        raise InputError(
            f"{input_table.name}: {'; '.join(refused)}, but a finite number is needed, or a word such as "
            f"{WORD_EXAMPLES}; correct that, or leave it empty if it is "
            f"missing{remedy}{f'; {HOW_TO_ORDER}' if order_helps else ''}"
        )
    words = +words
    return np.column_stack([read[name].values for name in columns]), [_words_note(words), *notes] if words else notes


def _read(input_table: InputTable, name: str, decimal: Decimal) -> _Column:
    column = input_table.table.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_boolean(kind):
        return _read_cells(input_table, name, column.cast(kind).cast(pa.large_string()), decimal)
    if is_text(kind):
        return _read_cells(input_table, name, column, decimal)
    if any(is_kind(kind) for is_kind in _NUMERIC):
        values = pc.cast(column.cast(kind), pa.float64(), safe=False).to_numpy()
        return _Column(["", ""], np.isinf(values).astype(np.int8), [_IS_NUMBER, _IS_REFUSED], [], None, values)
    raise InputError(f"{input_table.name}: column {name!r} holds {kind}, not numbers; name another, or leave it out")


def _read_cells(input_table: InputTable, name: str, column: pa.ChunkedArray, decimal: Decimal) -> _Column:
    """Read a column of text; commas are decimal commas only if no value contradicts that."""
    names, codes = distinct(column)
    cells, note, spelled = [cell.strip() for cell in names], None, dict[str, str]()
    if decimal == ".":
        spelled = {cell: cell.replace(",", "") for cell in cells if _THOUSANDS.fullmatch(cell)}
        note = f"{name!r} is read with a comma between thousands" if spelled else None
    elif commas := {cell for cell in cells if _COMMA.fullmatch(cell)}:
        has_point = any("." in cell and _POINT.fullmatch(cell) for cell in cells)
        if decimal is None and (has_point or all(map(_THOUSANDS.fullmatch, commas))):
            rows = np.flatnonzero(np.array([cell in commas for cell in cells])[codes])
            shown = input_table.cells(rows.tolist(), [names[code] for code in codes[rows]])
            raise InputError(
                f"{input_table.name}: column {name!r} holds {shown}, where the comma may stand before "
                "decimals or thousands; choose with --decimal (reading.decimal in a workspace)"
            )
        spelled, note = {cell: cell.replace(",", ".") for cell in commas}, f"{name!r} is read with a decimal comma"

    def kind_of(cell: str) -> tuple[str, float]:
        if cell in _EMPTY:
            return _IS_MISSING, np.nan
        if (meant := _MEANINGS.get(cell.lower())) is not None:
            return _IS_WORD, meant
        is_number = _POINT.fullmatch(spelled.get(cell, cell)) and not (decimal == "," and "." in cell)
        value = float(spelled.get(cell, cell)) if is_number else np.nan
        return (_IS_NUMBER, value) if np.isfinite(value) else (_IS_REFUSED, np.nan)

    read = [kind_of(cell) for cell in cells]
    return _Column(cells, codes, [kind for kind, _ in read], [value for _, value in read], note)


def _read_grades(input_table: InputTable, read: dict[str, _Column], declared: Sequence[str]) -> list[str]:
    """Read refused cells and words of text columns as grades, if they are grades; return the decisions as sentences.

    Words are numbered from 1 by the ``declared`` order, or by the shortest known order that has all words of the table.
    """
    texts = [column for name, column in read.items() if is_text(input_table.table.column(name).type)]
    if not declared and not any(_IS_REFUSED in column.kinds for column in texts):
        return []
    unread = [
        (column, k, cell)
        for column in texts
        for k, cell in enumerate(column.cells)
        if column.kinds[k] in (_IS_REFUSED, _IS_WORD)
    ]
    words = {plain_word(cell) for _, _, cell in unread if _graded(cell) is None}
    known = declared if words & set(map(plain_word, declared)) else ()
    order = order_of(words, known)
    place = {word: ("words", float(number)) for number, word in enumerate(order or (), start=1)}
    counts = {id(column): column.times() for column in texts}
    times: dict[str, Counter[str]] = {}
    for column, k, cell in unread:
        grade = _graded(cell) or place.get(plain_word(cell))
        if grade is not None:
            column.kinds[k], column.numbers[k] = grade
            spelling = plain_word(cell) if grade[0] == "words" else cell
            times.setdefault(grade[0], Counter())[spelling] += counts[id(column)][k]
    fractions = sorted(kind for kind in times if kind.startswith("fractions"))
    if len(fractions) > 1:
        raise InputError(f"{input_table.name}: scores are {' and '.join(fractions)}; write numbers of one scale")
    return [_grades_note(kind, times[kind], order or ()) for kind in sorted(times)]


def _mixtures(input_table: InputTable, name: str, column: _Column, judges: Identifiers | None) -> list[str]:
    """Return a sentence for each judge that gives words and numbers; refuse a judge whose values have several scales.

    A word stands for a number from 0 to 1, so the judge's numbers must lie there too. Grades cannot be mixed.
    """
    kinds = sorted(set(column.kinds) - {_IS_NUMBER, _IS_MISSING, _IS_REFUSED})
    if not kinds:
        return []
    codes = np.zeros(len(column.codes), dtype=np.int32) if judges is None else judges.codes
    who = [repr(name)] if judges is None else [f"judge {judge!r}" for judge in judges.names]
    values, notes = column.values, list[str]()
    filled = ~np.isnan(values)

    def shown(*rows: NDArray[np.bool_]) -> str:
        first = [int(np.flatnonzero(mask)[0]) for mask in rows]
        return input_table.cells(first, input_table.table.column(name).take(pa.array(first)).to_pylist())

    for kind in kinds:
        own = column.rows_of(kind)
        other = column.rows_of(_IS_NUMBER) & filled if kind == _IS_WORD else filled & ~own
        for code in np.intersect1d(codes[own], codes[other]).tolist():
            theirs, others = own & (codes == code), other & (codes == code)
            beyond = others & ((values < 0) | (values > 1))
            if kind != _IS_WORD:
                raise InputError(
                    f"{input_table.name}: column {name!r} holds {shown(theirs, others)}, so one judge mixes {kind} "
                    "with other scores; write all scores of one judge in the same form"
                )
            if beyond.any():
                raise InputError(
                    f"{input_table.name}: column {name!r} holds {shown(theirs, beyond)}, so {who[code]} mixes words "
                    "and numbers; a word is a score from 0 to 1: write words only, or numbers only"
                )
            notes.append(f"{who[code]} mixes words and numbers: {int(theirs.sum()):,} and {int(others.sum()):,}")
    return notes


def _graded(cell: str) -> tuple[str, float] | None:
    """Return the kind of a grade that is a number with a sign, and the number; None for anything else.

    >>> _graded("85%"), _graded("4 out of 5"), _graded("★★★☆☆"), _graded("3 stars"), _graded("fair")
    (('per cents', 85.0), ('fractions of 5', 4.0), ('stars', 3.0), ('stars', 3.0), None)
    """

    def value(text: str) -> float:
        return float(text.replace(",", "."))

    if found := _PER_CENT.fullmatch(cell):
        return "per cents", value(found[1])
    if (found := _FRACTION.fullmatch(cell)) and value(found[1]) <= int(found[2]):
        return f"fractions of {int(found[2])}", value(found[1])
    if found := _COUNTED.fullmatch(cell):
        return "stars", value(found[1])
    found = _STARS.fullmatch(cell.replace("\ufe0f", ""))
    return ("stars", len(found[1]) + len(found[2]) / 2) if found and found[0] else None


def plain_word(word: str) -> str:
    """Return the form in which words are compared: ``Very_Good`` becomes ``very good``."""
    return _BETWEEN_WORDS.sub(" ", word.strip()).casefold()


def order_of(words: Collection[str], declared: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Return the order of the plain words of a table, the lowest first; None if none is known for all of them.

    Letters are grades only if there are at least three and one is F, because A to E may be choices, and C a tie.

    >>> order_of({"good", "poor"}), order_of({"a", "c", "f"}), order_of({"a", "b", "c"}), order_of({"no"}, ["No", "ok"])
    (('poor', 'fair', 'good'), ('f', 'd', 'c', 'b', 'a'), None, ('no', 'ok'))
    """
    if declared:
        orders = [tuple(map(plain_word, declared))]
    elif len(words) < 2 or set(words) <= _MEANINGS.keys() or ("f" in words and len(words) < 3):
        return None
    else:
        orders = [order for order in _ORDERS if order[0] != "f" or "f" in words]
    return min((order for order in orders if order and set(words) <= set(order)), key=len, default=None)


def declared_order(input_table: InputTable, columns: Sequence[str], given: Sequence[str] | None) -> Sequence[str]:
    """Return the words that are grades, the lowest first: the given ones, or those of the first ordered category."""
    kinds = [input_table.table.schema.field(name).type for name in columns]
    ordered = (name for name, kind in zip(columns, kinds, strict=True) if pa.types.is_dictionary(kind) and kind.ordered)
    first = None if given else next(ordered, None)
    chunks = [] if first is None else input_table.table.column(first).chunks
    return given or [str(word) for word in (chunks[0].dictionary.to_pylist() if chunks else [])]


def _grades_note(kind: str, times: Counter[str], order: Sequence[str]) -> str:
    if kind != "words":
        cell, _ = times.most_common(1)[0]
        number = _graded(cell)
        return f"{kind} are read as numbers: {cell!r} as {number[1] if number else 0:g} (cells: {times.total():,})"
    read = ", ".join(f"{word!r} as {number} ({times[word]:,})" for number, word in enumerate(order, start=1))
    return f"words are read as grades from 1 to {len(order)}, with how often each occurs: {read}"


def _words_note(counts: Counter[str]) -> str:
    spelled = {word: word.upper() if len(word) == 1 else word for word in _MEANINGS if word in counts}
    times = {word: "once" if count == 1 else f"{count:,} times" for word, count in counts.items()}
    taken = [f"{spelled[word]!r} as {_MEANINGS[word]:g} ({times[word]})" for word in spelled]
    of_two = any(word in counts for pair in _OF_TWO.items() for word in pair)
    meaning = "; 1 means that the first of two answers is better" if of_two else ""
    return f"words are read as numbers: {', '.join(taken)}{meaning}"


def holds_numbers(column: pa.ChunkedArray) -> bool:
    """Return whether any value of a text column is meant as a number.

    Such a value is a number, or a text with digits and without letters, such as ``40%`` and ``1.250,5``. Dates and
    times do not count.
    """

    def is_meant(cell: str) -> bool:
        without_letters = _DIGIT.search(cell) is not None and not any(map(str.isalpha, cell))
        return bool(_POINT.fullmatch(cell)) or (without_letters and not _DATE_OR_TIME.match(cell))

    return any(is_meant(cell.strip()) for cell in distinct(column)[0])


def holds_words(column: pa.ChunkedArray) -> bool:
    """Return whether most values of a column of text are words that stand for numbers."""
    names, codes = distinct(column)
    times = np.bincount(codes, minlength=len(names)).tolist()
    filled = [(name.strip(), count) for name, count in zip(names, times, strict=True) if name.strip() not in _EMPTY]
    words = sum(count for cell, count in filled if cell.lower() in _MEANINGS)
    return 2 * words > sum(count for _, count in filled)


def distinct_words(column: pa.ChunkedArray) -> set[str] | None:
    """Return the different words of a column, in plain form; None if they are too many or too long for grades."""
    cells = {cell.strip() for cell in distinct(column)[0]} - _EMPTY
    if not 0 < len(cells) <= _MOST_WORDS or any(len(cell) > _LONGEST_WORD for cell in cells):
        return None
    return {plain_word(cell) for cell in cells if _graded(cell) is None}
