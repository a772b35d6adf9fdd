"""Reads columns as ids or as numbers, with errors that name every value that cannot be read so."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.errors import InputError
from warehouse.compute import pc
from warehouse.sources import grades, words
from warehouse.sources.delimited import MISSING
from warehouse.sources.input_table import InputTable

Decimal = Literal[".", ","] | None

_POINT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?([iI]nf(inity)?|INF)$"
_COMMA = r"^[+-]?\d+,\d+$"
_NO_LETTER = r"^\PL*\d\PL*$"
_DATE_OR_TIME = r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|^\d{1,2}:\d{2}"
_THOUSANDS, _WITH_THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+$", r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$"
_MOST_WORDS, _LONGEST_WORD = 500, 40
_THOUSANDS_NOTE = "{!r} is read with a comma between thousands"
_WORD = 1
"""The kind of a cell that holds one of the words that stand for numbers; that of a number is 0."""

_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


class Identifiers(NamedTuple):
    """A column of names, in which every different name is kept once: the names in the order of their first row, and
    each row's position among them, (rows,) of int32.
    """

    names: list[str]
    codes: NDArray[np.int32]


def identifiers(input_table: InputTable, column: str) -> Identifiers:
    """Read a column as names.

    If the column's own name has spaces around it, spaces around the values are removed too.

    Raises ``InputError`` where a row has no name, or two names differ only in the spaces around them.
    """
    kind = input_table.table.column(column).type
    if pa.types.is_nested(kind):
        raise InputError(f"{input_table.name}: {column} holds {kind}, where names are needed; make it a column of text")
    names, codes = _distinct(input_table.table.column(column))
    if column != column.strip():
        names = [name.strip() for name in names]
    empty = np.array([not name for name in names])
    if empty.any():
        rows = np.flatnonzero(empty[codes]).tolist()
        places = ", ".join(input_table.locate(rows[:10])) + (f" and {len(rows) - 10:,} more" if len(rows) > 10 else "")
        raise InputError(f"{input_table.name}: {column} is empty in {places}; every row needs one")
    refuse_spaces(input_table, column, names)
    if len(set(names)) == len(names):
        return Identifiers(names, codes)
    first: dict[str, int] = {}
    merged = np.array([first.setdefault(name, len(first)) for name in names], dtype=np.int32)
    return Identifiers(list(first), merged[codes])


def _distinct(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int32]]:
    """The values of a column as names in the order of their first row, and each row's place among them.

    A column that has a dictionary is not written out: a long table names each item and judge many times.
    """
    has_order = not (pa.types.is_dictionary(column.type) and is_text(column.type))
    encoded = (_plain(column).dictionary_encode() if has_order else column).unify_dictionaries().combine_chunks()
    values, codes = encoded.dictionary.to_pylist(), encoded.indices.cast(pa.int32())
    if has_order and not encoded.null_count:  # a dictionary that was made here is in the order of rows
        return values if is_text(encoded.dictionary.type) else [*map(_name, values)], codes.to_numpy()
    used = codes.fill_null(len(values)).dictionary_encode()
    names = [_name(value) for value in (*values, None)]
    return [names[k] for k in used.dictionary.to_pylist()], used.indices.to_numpy(zero_copy_only=False)


def as_texts(values: Identifiers) -> list[str]:
    """The name of each row."""
    return [values.names[code] for code in values.codes]


def refuse_repeated(
    input_table: InputTable,
    column: str,
    items: Identifiers,
    rows: NDArray[np.intp] | None = None,
    remedy: str = "keep one",
) -> None:
    """Raise ``InputError`` if an item has several rows among ``rows``, which are all rows by default."""
    rows = np.arange(len(items.codes)) if rows is None else rows
    codes = items.codes[rows]
    repeated = np.flatnonzero(np.bincount(codes) > 1).tolist()
    if repeated:
        places = [", ".join(input_table.locate(rows[codes == code][:3].tolist())) for code in repeated[:5]]
        examples = [f"{items.names[code]!r} ({place})" for code, place in zip(repeated, places, strict=False)]
        more = f" and {len(repeated) - 5:,} more" if len(repeated) > 5 else ""
        raise InputError(f"{input_table.name}: {column} has several rows for {', '.join(examples)}{more}; {remedy}")


def holds_numbers(values: pa.ChunkedArray) -> bool:
    """Whether any value of a column of text is meant as a number.

    This is a number, or a text with digits and without letters, such as ``40%`` and ``1.250,5``. Dates and times do not
    count.
    """
    text = _trimmed(values)
    without_letters = pc.and_(
        pc.match_substring_regex(text, _NO_LETTER), pc.invert(pc.match_substring_regex(text, _DATE_OR_TIME))
    )
    return bool(pc.any(pc.or_(pc.match_substring_regex(text, _POINT), without_letters)).as_py())


def holds_words(values: pa.ChunkedArray) -> bool:
    """Whether most values of a column of text are words that stand for numbers (``words``)."""
    text = _trimmed(values)
    filled = pc.invert(_is_missing(text)).to_numpy()
    return bool(filled.any() and (~np.isnan(words.meanings(text)))[filled].mean() > 0.5)


def distinct_words(values: pa.ChunkedArray) -> set[str] | None:
    """The different words of a column of text, in plain form; None where they are none, or no grades by their size."""
    text = _trimmed(values)
    distinct = pc.unique(text.filter(pc.invert(_is_missing(text)))).to_pylist()
    if not 0 < len(distinct) <= _MOST_WORDS or any(len(cell) > _LONGEST_WORD for cell in distinct):
        return None
    return {grades.plain(cell) for cell in distinct if grades.written(cell) is None}


def declared_order(input_table: InputTable, columns: Sequence[str], given: Sequence[str] | None) -> Sequence[str]:
    """The words that are grades, the lowest first: as they are given, or as the first ordered category has them."""
    kinds = [input_table.table.schema.field(name).type for name in columns]
    ordered = (name for name, kind in zip(columns, kinds, strict=True) if pa.types.is_dictionary(kind) and kind.ordered)
    first = None if given else next(ordered, None)
    chunks = [] if first is None else input_table.table.column(first).chunks
    return given or [str(word) for word in (chunks[0].dictionary.to_pylist() if chunks else [])]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


class _Column(NamedTuple):
    """A column that was read as numbers, all arrays (rows,).

    ``values`` are NaN for cells that are empty or refused, and ``refused`` are cells that hold no finite number.
    ``kinds`` are places in ``names``: whether a cell holds a word (``words``), or what kind of grade.
    """

    values: NDArray[np.float64]
    refused: NDArray[np.bool_]
    kinds: NDArray[np.int8]
    words: Mapping[str, int] = {}
    note: str | None = None
    names: tuple[str, ...] = ("", "word")


def numbers(
    input_table: InputTable,
    columns: Sequence[str],
    decimal: Decimal = None,
    remedy: str = "",
    judges: Identifiers | None = None,
    *,
    read_words: bool = True,
    order: Sequence[str] | None = None,
) -> tuple[NDArray[np.float64], list[str]]:
    """Read columns as numbers, and words such as ``pass`` as the numbers that they stand for (``words.MEANINGS``).

    Where this leaves cells unread, grades are looked for: per cents, stars, and words in an order (``grades``). Returns
    the numbers, (rows, columns), NaN for cells that are empty, and what was decided in order to read them. ``judges``
    say who gave the value of each row, where a column holds the scores of several; ``order`` are words that are grades,
    the lowest first, and without ``read_words`` others are refused.

    Raises ``InputError`` where cells hold something that is neither, each of which is named once; where one judge gives
    both words and numbers beyond 0 and 1, or grades of one kind and something else.
    """
    read = {name: _read(input_table, name, decimal, read_words=read_words) for name in columns}
    order = declared_order(input_table, columns, order)
    notes = _with_grades(input_table, read, order, read_words=read_words)
    refused, order_helps, said = list[str](), False, Counter[str]()
    for name, column in read.items():
        notes += [*_mixtures(input_table, name, column, judges), *([column.note] if column.note else [])]
        said.update(column.words)
        rows = np.flatnonzero(column.refused)
        if len(rows):
            cells = input_table.table.column(name).take(pa.array(rows)).to_pylist()
            refused.append(f"column {name!r} holds {input_table.cells(rows.tolist(), cells)}")
            order_helps |= all(str(cell).replace(" ", "").isalpha() for cell in cells)
    if refused:
        raise InputError(
            f"{input_table.name}: {'; '.join(refused)}, where a finite number is needed, or a word such as "
            f"{words.EXAMPLES}; correct that, or leave it empty if it is missing{remedy}"
            f"{f'; {grades.REMEDY}' if order_helps else ''}"
        )
    return np.column_stack([read[name].values for name in columns]), [words.told(said), *notes] if said else notes


def _with_grades(
    input_table: InputTable, read: dict[str, _Column], declared: Sequence[str], *, read_words: bool
) -> list[str]:
    """Read as grades what is refused in the columns, and words; returns what was made of what, as sentences."""
    if not declared and not any(column.refused.any() for column in read.values()):
        return []
    texts = {name: column for name, column in read.items() if is_text(input_table.table.column(name).type)}
    rows = {name: np.flatnonzero(column.refused | (column.kinds == _WORD)) for name, column in texts.items()}
    cells = {n: _trimmed(input_table.table.column(n)).take(pa.array(r)) for n, r in rows.items() if len(r)}
    columns, notes, ordered = grades.graded(cells, declared, read_words=read_words)
    fractions = {kind for grade in columns.values() for kind in grade.kinds.tolist() if kind.startswith("fractions")}
    if len(fractions) > 1:
        raise InputError(
            f"{input_table.name}: scores are {' and '.join(sorted(fractions))}; write numbers of one scale"
        )
    for name, grade in columns.items():
        column, places = read[name], rows[name]
        names = (*column.names, *sorted(set(grade.kinds.tolist()) - {""}))
        read_now = (grade.kinds != "") & (column.refused[places] | ordered)
        values, kinds, refused = column.values.copy(), column.kinds.copy(), column.refused.copy()
        values[places[read_now]] = grade.values[read_now]
        kinds[places[read_now]] = [names.index(kind) for kind in grade.kinds[read_now].tolist()]
        refused[places[read_now]] = False
        said = column.words if (kinds == _WORD).any() else {}
        read[name] = _Column(values, refused, kinds, said, column.note, names)
    return notes


def _mixtures(input_table: InputTable, name: str, column: _Column, judges: Identifiers | None) -> list[str]:
    """Sentences about judges that give words and numbers; ``InputError`` where a judge's values are no one scale.

    A word stands for 0, 1 or what lies between them, so that numbers beside it do too. Grades have nothing beside them.
    """
    codes = np.zeros(len(column.kinds), dtype=np.int32) if judges is None else judges.codes
    who = [repr(name)] if judges is None else [f"judge {judge!r}" for judge in judges.names]
    filled, said = ~np.isnan(column.values), list[str]()

    def shown(*rows: NDArray[np.bool_]) -> str:
        first = [int(np.flatnonzero(mask)[0]) for mask in rows]
        return input_table.cells(first, input_table.table.column(name).take(pa.array(first)).to_pylist())

    for kind in np.flatnonzero(np.bincount(column.kinds)[1:]) + 1:
        own, other = column.kinds == kind, filled & (column.kinds != kind)
        if kind == _WORD:
            other &= column.kinds == 0
        for code in np.intersect1d(codes[own], codes[other]).tolist():
            theirs, beside = own & (codes == code), other & (codes == code)
            beyond = beside & ((column.values < 0) | (column.values > 1))
            if kind != _WORD:
                raise InputError(
                    f"{input_table.name}: column {name!r} holds {shown(theirs, beside)}, so a judge mixes "
                    f"{column.names[kind]} and others; write all of them in one way"
                )
            if beyond.any():
                raise InputError(
                    f"{input_table.name}: column {name!r} holds {shown(theirs, beyond)}, so {who[code]} mixes words "
                    "and numbers; a word is a score from 0 to 1: write words alone, or numbers alone"
                )
            said.append(f"{who[code]} mixes words and numbers: {int(theirs.sum()):,} and {int(beside.sum()):,}")
    return said


def _read(input_table: InputTable, name: str, decimal: Decimal, *, read_words: bool) -> _Column:
    column = _plain(input_table.table.column(name))
    kind, no_kind = column.type, np.broadcast_to(np.int8(0), len(column))
    if pa.types.is_boolean(kind):
        is_word = column.is_valid().to_numpy()
        said = words.counted(column.cast(pa.large_string()), is_word)
        return _Column(_floats(column.cast(pa.int8())), no_kind != 0, is_word.astype(np.int8), said)
    if pa.types.is_null(kind) or any(is_kind(kind) for is_kind in _NUMERIC):
        values = _floats(column)
        return _Column(values, np.isinf(values), no_kind)
    if is_text(kind):
        return _parsed(input_table, name, column, decimal, read_words=read_words)
    raise InputError(f"{input_table.name}: column {name!r} holds {kind}, no numbers; name another, or leave it out")


def _parsed(
    input_table: InputTable, name: str, column: pa.ChunkedArray, decimal: Decimal, *, read_words: bool
) -> _Column:
    """Read a column of text as numbers; commas are decimal commas only if no value contradicts that."""
    text, note = _trimmed(column), None

    def matches(pattern: str) -> pa.ChunkedArray:
        return pc.fill_null(pc.match_substring_regex(text, pattern), False)

    missing = _is_missing(text).to_numpy()
    meant = words.meanings(text) if read_words else np.full(len(text), np.nan)
    is_word = ~np.isnan(meant)
    said = words.counted(text, is_word) if is_word.any() else {}
    comma = matches(_COMMA)
    if decimal == "." and pc.any(grouped := matches(_WITH_THOUSANDS)).as_py():
        text, note = pc.if_else(grouped, pc.replace_substring(text, ",", ""), text), _THOUSANDS_NOTE.format(name)
    good = matches(_POINT)
    point = pc.and_(good, matches(r"[.]"))
    if decimal == ",":
        good = pc.and_(good, pc.invert(point))  # with decimal commas, a point could only separate thousands
    if decimal != "." and pc.any(comma).as_py():
        either = pc.all(pc.or_(matches(_THOUSANDS), pc.invert(comma))).as_py() or pc.any(point).as_py()
        if decimal is None and either:
            rows = np.flatnonzero(comma.to_numpy())
            cells = input_table.cells(rows.tolist(), column.take(pa.array(rows)).to_pylist())
            raise InputError(
                f"{input_table.name}: column {name!r} holds {cells}, where the comma may stand before "
                "decimals or thousands; say which with --decimal (reading.decimal in a workspace)"
            )
        text, good = pc.if_else(comma, pc.replace_substring(text, ",", "."), text), pc.or_(good, comma)
        note = f"{name!r} is read with a decimal comma"
    values = np.where(is_word, meant, _floats(pc.cast(pc.if_else(good, text, None), pa.float64())))
    return _Column(
        values, ~(good.to_numpy() | missing | is_word) | np.isinf(values), is_word.astype(np.int8), said, note
    )


def _is_missing(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each cell is empty, or says that its value is missing."""
    return pc.fill_null(pc.is_in(text, pa.array(MISSING)), True)


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return pc.cast(column, pa.float64(), safe=False).to_numpy()


def _trimmed(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without spaces around its values."""
    return pc.utf8_trim_whitespace(_plain(values))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without a dictionary; text has the one type that all functions of Arrow accept."""
    if pa.types.is_dictionary(column.type):
        kind = _one_text(column.type.value_type)
        parts = [part.dictionary.cast(kind).take(part.indices) for part in column.chunks]
        column = pa.chunked_array(parts, kind)
    return column.cast(_one_text(column.type))


def _one_text(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if is_text(kind) else kind


def _name(value: Any) -> str:
    """A value as a name; empty for None and NaN."""
    return "" if value is None or value != value else str(value)


def refuse_spaces(input_table: InputTable, column: str, names: Sequence[str]) -> None:
    """Raise ``InputError`` if two names differ only in the spaces around them."""
    if all(map(str.__eq__, map(str.strip, names), names)):
        return  # names that differ, and have no spaces around them
    plain: dict[str, str] = {}
    for name in names:
        other = plain.setdefault(name.strip(), name)
        if other != name:
            raise InputError(
                f"{input_table.name}: {column} is {other!r} and {name!r}, which differ only in spaces; write one"
            )
