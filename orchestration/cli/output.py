"""What commands share: consoles, tables, JSON, logs, and errors that end a command without a traceback.

A command ends with 0 when it has done what it was asked for, with 1 when it failed, and with 2 when what it was given
is wrong.

Belongs here: printing. Does not: what any one command prints.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from care_ops.errors import CareError, InputError
from orchestration.logs import PACKAGES
from warehouse.refusals import refusal

if TYPE_CHECKING:
    from assets.report.data import SystemRow
    from orchestration.runner import Outcome

_WIDTH = None if sys.stdout.isatty() else 160  # wide enough that no table is cut where the output is a file

console = Console(width=_WIDTH)
errors = Console(stderr=True)


P = ParamSpec("P")
R = TypeVar("R")


def speaking_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Print a ``CareError``, or what the disk refused, as one message and leave with its exit code."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except CareError as error:
            _say(str(error))
            raise typer.Exit(2 if isinstance(error, InputError) else 1) from None
        except Exception as error:
            refused = refusal(error)
            if refused is None:
                raise
            _say(refused)
            raise typer.Exit(1) from None

    return wrapped


def print_logs(*, verbose: bool) -> None:
    """Print on standard error what our modules log: warnings, or where ``verbose`` everything.

    Without this Python prints warnings by itself, but only those that are logged outside of a run of Dagster, which
    takes the logs of its runs.
    """
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.setLevel(logging.DEBUG if verbose else logging.NOTSET)
        if not any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers):
            logger.addHandler(_ConsoleHandler())


class _ConsoleHandler(logging.Handler):
    """Prints records on the console for errors, above whatever progress that shows."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            text, style = f"warning: {record.getMessage()}", "yellow"
        else:
            text, style = f"{datetime.now():%H:%M:%S} {record.name}: {record.getMessage()}", "dim"
        errors.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _say(message: str) -> None:
    errors.print("error:", style="bold red", end=" ")
    errors.print(message, markup=False, highlight=False, soft_wrap=True)


def show(rows: Sequence[Mapping[str, Any]], title: str, *, as_json: bool) -> None:
    """Print rows as a table, or as JSON on standard output."""
    if as_json:
        sys.stdout.write(json.dumps(list(rows), indent=1, default=str) + "\n")
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in rows[0] if rows else ():
        numeric = all(isinstance(row[name], (int, float)) or row[name] is None for row in rows)
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(escape(cell(value)) for value in row.values()))
    console.print(table)


def print_failures(outcome: Outcome) -> None:
    """One line for each partition that failed, with the reason."""
    for (asset, partition), message in outcome.failures.items():
        errors.print(
            f"failed: {asset} {partition or ''}: {message}", style="red", markup=False, highlight=False, soft_wrap=True
        )


def system_table(rows: Sequence[SystemRow]) -> list[dict[str, Any]]:
    """The rows of ``ReportData.system_rows``, with what is nested in them as columns of their own."""
    return [
        {
            "system": row.system,
            "items": row.items,
            "value": row.value,
            "from": row.lo,
            "to": row.hi,
            "behind the best by": row.behind.difference if row.behind else None,
            "lo": row.behind.lo if row.behind else None,
            "hi": row.behind.hi if row.behind else None,
            "labels": row.behind.labels_used if row.behind else None,
        }
        for row in rows
    ]


def cell(value: Any) -> str:
    """A value as text; floats with three decimals, nothing for None."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
