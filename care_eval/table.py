"""Function ``fit``, which aggregates a table of scores: a file, a data frame or a dictionary of columns."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, Unpack

import numpy as np
import pyarrow as pa

from assets.table.fitting import fit_table
from assets.table.options import FitOptions, names_of, table_config
from assets.table.reading import TableInputs, read_table, reading_options, score_columns
from care_eval.result import FitResult, frame_kind
from care_ops.errors import CareError, InputError, guard
from warehouse.sources.files import ignore_reading
from warehouse.sources.tables import TableSource

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TableSource | None)
_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def in_python(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function; its error messages then name Python arguments (``item=``) instead of options (``--item``).

    In ``judges``, ``labels`` and ``fit_labels``, a dictionary of lists or arrays is a table of columns. Any other
    dictionary maps names to values.
    """
    called = signature(function)

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = called.bind_partial(*args, **kwargs)
            for arguments in (given.arguments, given.arguments.get("options", {})):
                for name in arguments.keys() & {"judges", "labels", "fit_labels"}:
                    value = arguments[name]
                    columns = value.values() if isinstance(value, Mapping) else ()
                    if any(isinstance(column, list | tuple | np.ndarray) for column in columns):
                        arguments[name] = as_table(value, name)
            return function(*given.args, **given.kwargs)
        except CareError as error:
            reported = _OPTION.sub(lambda option: option[1].replace("-", "_") + "=", str(error))
            raise type(error)(reported) from error

    return wrapped


def refuse_unknown(function: str, given: Iterable[str], permitted: Collection[str]) -> None:
    """Raise ``TypeError`` if ``given`` contains an argument name that ``function`` does not accept."""
    for name in given:
        if name not in permitted:
            near = get_close_matches(name, list(permitted), 1)
            remedy = f"did you mean {near[0]}?" if near else f"choose from {', '.join(permitted)}"
            raise TypeError(f"{function} has no argument {name!r}; {remedy}")


Columns = Mapping[str, Sequence[Any]]
"""Table as a dictionary of columns: lists or numpy arrays of equal length."""


@in_python
def fit(
    scores: TableSource | Columns,
    *,
    items: TableSource | Columns | None = None,
    judges: TableSource | Mapping[str, str] | None = None,
    labels: TableSource | Mapping[str, float] | None = None,
    item: str | None = None,
    judge: str | Sequence[str] | None = None,
    score: str | None = None,
    drop: str | Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    grades: str | Sequence[str] | None = None,
    **options: Unpack[FitOptions],
) -> FitResult:
    """Aggregate the scores of several judges, as ``care fit`` does.

    Parameters
    ----------
    scores : path, frame or mapping column -> values
        A row for each score (item, judge, score), or a row for each item and a column for each judge. A frame may come
        from pandas, polars, pyarrow or DuckDB. docs/data.md lists the file formats and column names.
    items : path, frame or mapping column -> values, optional
        A row for each item: its id, and any of ``response``, ``gold`` and ``split_unit``; the fit ignores ``gold``.
    judges : path, frame, mapping or pandas series judge -> family, optional
        Declared families: base model, vendor or prompt.
    labels : path, frame, mapping or pandas series item -> label, optional
        Human labels that the fit uses.
    item, judge, score, drop :
        Columns of ``scores``, if CARE does not recognise their names. If each judge has a column, ``judge`` lists these
        columns, and ``drop`` lists columns and judges to leave out.
    separator, encoding, decimal, sheet, grades :
        Options for reading files; ``grades=["poor", "fair", "good"]`` reads these words as 1, 2, 3.
    **options :
        See ``assets.table.options.FitOptions``; ``care fit`` has an option for each of them.

    Raises
    ------
    InputError
        A table or an option cannot be used; the message states the place and the remedy.
    FitError
        The scores do not determine an estimate, for example because there are too few judges or items.
    """
    config = table_config(options)
    tables = as_table(scores, "scores"), as_table(items, "items")
    inputs = TableInputs(*tables, judges, labels, config.fit.scale, config.scales)
    columns = score_columns(item, names_of(judge), score, names_of(drop))
    reading = reading_options(separator, encoding, decimal, sheet, grades)
    table = read_table(inputs, columns, reading, ignore_reading)
    if isinstance(scores, Mapping):
        table = replace(table, source="columns")
    return FitResult(fit_table(table, config), frame_kind(scores))


def as_table(source: T | Columns, what: str) -> T | pa.Table:
    """Convert a dictionary of columns to a table; return anything else unchanged.

    Raises
    ------
    InputError
        The columns differ in length, or contain values that a table cannot store.
    """
    if not isinstance(source, Mapping):
        return source
    with guard(what, "use only numbers or only text in each column"):
        lengths = {name: len(values) for name, values in source.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
            raise InputError(f"{what}: columns differ in length ({shown}); give each column a value for every row")
        return pa.table(dict(source))
