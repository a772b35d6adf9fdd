"""Conversion of table columns to numbers, including words such as ``pass`` and missing values.

Each distinct value of a column is parsed once. A value is a number, a missing value, a word for a score
(``pass``), or a grade in the user's order of grades. Any other value is an error.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.errors import InputError, counted
from warehouse.compute import pc
from warehouse.sources.delimited import MISSING
from warehouse.sources.input_table import InputTable
from warehouse.sources.values import Identifiers, distinct, is_text

Decimal = Literal[".", ","] | None

_OF_ONE = {
    **{"pass": "fail", "passed": "failed", "yes": "no", "y": "n", "true": "false", "good": "bad"},
    **{"correct": "incorrect"},
}
"""Pairs of words about one answer: the first word means 1, the second word means 0."""

_OF_TWO = {
    **{"a": "b", "left": "right", "win": "lose", "won": "lost", "wins": "loses", "first": "second"},
    **{f"{what}_{a}": f"{what}_{b}" for what in ("model", "response", "answer") for a, b in ("ab", "12")},
}
"""Pairs of words about two answers: the first word means 1 (first answer better), the second word means 0."""

_TIES = ("tie", "tied", "draw", "tie (bothbad)", "bothbad", "both_bad")
_WORDS = _OF_ONE | _OF_TWO
_MEANINGS = dict.fromkeys(_WORDS, 1.0) | dict.fromkeys(_WORDS.values(), 0.0) | dict.fromkeys(_TIES, 0.5)
"""Number for each word in lower case."""

WORD_EXAMPLES = "pass, fail, yes, no, A, B, tie"
HOW_TO_ORDER = "if words are grades, give them in ascending order: --grades poor,fair,good (reading.grades)"
"""Remedy in messages about words whose order is unknown."""

_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?([iI]nf(inity)?|INF)", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
_DATE_OR_TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|\d{1,2}:\d{2}", re.ASCII)
_DIGIT = re.compile(r"\d", re.ASCII)
_BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
_SWAPPED = str.maketrans(".,", ",.")
_UNIT = re.compile(r"(\d+\.?\d*)\s*(%|/\s*\d+)", re.ASCII)
_EMPTY = frozenset(MISSING)
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)


def numbers(
    input_table: InputTable,
    columns: Sequence[str],
    decimal: Decimal = None,
    remedy: str = "",
    judges: Identifiers | None = None,
    order: Sequence[str] = (),
) -> tuple[NDArray[np.float64], list[str]]:
    """Convert columns to numbers, including words such as ``pass`` and grades.

    Returns an array of shape (rows, columns), with NaN for an empty cell, and sentences that describe the decisions.
    ``judges`` contains the judge of each row, if a column has the scores of several judges. ``order`` lists the grades
    in ascending order; if the table contains a grade, other words are errors. Raises ``InputError`` if a cell cannot be
    read (the message quotes the cell), or a judge's scores mix words with numbers on another scale.
    """
    given = {name: _different_cells(input_table, name) for name in columns}
    grades = {_plain_word(word): float(number) for number, word in enumerate(order, start=1)}
    is_graded = bool(order) and any(_plain_word(cell) in grades for cells, _ in given.values() for cell in cells)
    meanings = grades if is_graded else _MEANINGS
    values, notes, refused, order_helps = list[NDArray[np.float64]](), list[str](), list[str](), False
    times = Counter[str]()
    for name, (cells, codes) in given.items():
        column = input_table.table.column(name)
        if cells:
            spelled, unit = _without_unit(cells)
            notes += [f"{name!r} is read without {unit!r}"] if unit else []
            spelled, note = _with_points(input_table, name, spelled, codes, decimal)
            notes += [note] if note else []
            words = [_plain_word(cell) if is_graded else cell.lower() for cell in cells]
            read = [meanings.get(word, _number(cell)) for word, cell in zip(words, spelled, strict=True)]
            found, is_word = np.array(read)[codes], np.array([word in meanings for word in words])[codes]
            for word, count in zip(words, np.bincount(codes).tolist(), strict=True):
                times[word] += count
            _refuse_mixed(input_table, name, found, is_word, judges, is_graded=is_graded)
        else:
            found = pc.cast(column, pa.float64(), safe=False).to_numpy()
        values.append(found)
        if len(rows := np.flatnonzero(np.isinf(found)).tolist()):
            of_rows = column.take(pa.array(rows)).to_pylist()
            refused.append(f"column {name!r} contains {input_table.cells(rows, of_rows)}")
            order_helps |= all(str(cell).replace(" ", "").isalpha() for cell in of_rows)
    if refused:
        raise InputError(
            f"{input_table.name}: {'; '.join(refused)}, but each cell must be a finite number or a word such as "
            f"{WORD_EXAMPLES}; correct these cells, or leave a cell empty if its "
            f"value is missing{remedy}{f'; {HOW_TO_ORDER}' if order_helps else ''}"
        )
    taken = [
        f"{(word.upper() if len(word) == 1 else word)!r} as {value:g} ({counted(times[word], 'time')})"
        for word, value in meanings.items()
        if times[word]
    ]
    if taken:
        is_pair = not is_graded and any(times[word] for pair in _OF_TWO.items() for word in pair)
        meaning = "; 1 means that the first answer is better" if is_pair else ""
        notes = [f"words are read as numbers: {', '.join(taken)}{meaning}", *notes]
    return np.column_stack(values), notes


def _different_cells(input_table: InputTable, name: str) -> tuple[list[str], NDArray[np.int32]]:
    column = input_table.table.column(name)
    if is_text(column.type) or pa.types.is_boolean(column.type):
        names, codes = distinct(column)
        return [cell.strip() for cell in names], codes
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if any(is_kind(kind) for is_kind in _NUMERIC):
        return [], np.empty(0, np.int32)
    raise InputError(f"{input_table.name}: column {name!r} contains {kind}, not numbers; choose another column")


def _with_points(
    input_table: InputTable, name: str, cells: Sequence[str], codes: NDArray[np.int32], decimal: Decimal
) -> tuple[Sequence[str], str | None]:
    """Normalize decimal commas and thousands separators; return the cells and, if any changed, a note on the change.

    Raises ``InputError`` if it is unclear whether commas are decimal commas or thousands separators.
    """
    if decimal == ".":
        spelled = [cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell for cell in cells]
        return spelled, f"{name!r} is read with a comma as thousands separator" if spelled != cells else None
    commas = {cell for cell in cells if _COMMA.fullmatch(cell)}
    has_point = any("." in cell and _POINT.fullmatch(cell) for cell in cells)
    if decimal is None and commas and (has_point or all(map(_THOUSANDS.fullmatch, commas))):
        rows = [row for row, code in enumerate(codes.tolist()) if cells[code] in commas]
        shown = input_table.cells(rows, [cells[codes[row]] for row in rows])
        raise InputError(
            f"{input_table.name}: column {name!r} contains {shown}, where the comma may separate decimals or thousands;"
            " set --decimal (reading.decimal in a workspace), or write decimal points in the whole column"
        )
    if decimal is None and not commas:
        return cells, None
    return [cell.translate(_SWAPPED) for cell in cells], f"{name!r} is read with a decimal comma" if commas else None


def _without_unit(cells: Sequence[str]) -> tuple[Sequence[str], str]:
    """Remove a unit that all cells share, such as ``%`` or ``/10``; return the cells and the unit ("" for none)."""
    found = {cell: _UNIT.fullmatch(cell) for cell in cells if cell not in _EMPTY}
    units = {"" if match is None else match[2].replace(" ", "") for match in found.values()}
    unit = units.pop() if len(units) == 1 else ""
    return [match[1] if unit and (match := found.get(cell)) else cell for cell in cells], unit


def _number(cell: str) -> float:
    """Parse a cell; return NaN for a missing value, and infinity for a cell that is not a number."""
    return np.nan if cell in _EMPTY else float(cell) if _POINT.fullmatch(cell) else np.inf


def _refuse_mixed(
    input_table: InputTable,
    name: str,
    values: NDArray[np.float64],
    is_word: NDArray[np.bool_],
    judges: Identifiers | None,
    *,
    is_graded: bool,
) -> None:
    codes = np.zeros(len(values), dtype=np.int32) if judges is None else judges.codes
    others = ~is_word & np.isfinite(values) & (is_graded | (values < 0) | (values > 1))
    for code in np.intersect1d(codes[is_word], codes[others]).tolist():
        rows = [int(np.flatnonzero(each & (codes == code))[0]) for each in (is_word, others)]
        cells = input_table.table.column(name).take(pa.array(rows)).to_pylist()
        who = repr(name) if judges is None else f"judge {judges.names[code]!r}"
        meaning = "each grade is read as its rank" if is_graded else "words such as yes are read as scores from 0 to 1"
        raise InputError(
            f"{input_table.name}: column {name!r} contains {input_table.cells(rows, cells)}, so {who} mixes words and "
            f"numbers, but {meaning}; write only words, or only numbers"
        )


def _plain_word(word: str) -> str:
    """Normalize the case and separators of a word: ``Very_Good`` becomes ``very good``."""
    return _BETWEEN_WORDS.sub(" ", word.strip()).casefold()


def holds_numbers(column: pa.ChunkedArray) -> bool:
    """Return whether a text column contains a number, or a text with digits but no letters (``40%``, ``1.250,5``).

    Dates and times are not numbers.
    """

    def is_meant(cell: str) -> bool:
        without_letters = _DIGIT.search(cell) is not None and not any(map(str.isalpha, cell))
        return bool(_POINT.fullmatch(cell)) or (without_letters and not _DATE_OR_TIME.match(cell))

    return any(is_meant(cell.strip()) for cell in distinct(column)[0])


def holds_words(column: pa.ChunkedArray) -> bool:
    """Return whether most values of a text column are words that CARE reads as scores, such as ``pass``."""
    names, codes = distinct(column)
    filled = [name.strip() not in _EMPTY for name in names]
    words = [name.strip().lower() in _MEANINGS for name in names]
    return bool(2 * np.array(words)[codes].sum() > np.array(filled)[codes].sum())


def holds_grades(column: pa.ChunkedArray, order: Sequence[str]) -> bool:
    """Return whether a text column contains one of the grades in ``order``."""
    return not {_plain_word(cell) for cell in distinct(column)[0]}.isdisjoint(map(_plain_word, order))
