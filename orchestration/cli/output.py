"""Shared output of commands: consoles, tables, JSON, logs, and errors without a traceback.

Exit codes that all commands share: 0 success, 1 failure, 2 invalid input.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from care_ops.errors import CareError, InputError, how_to_install, listed
from orchestration.logs import PACKAGES
from warehouse.refusals import refusal

if TYPE_CHECKING:
    from assets.report.data import ReportData
    from care_ops.fit import Watch
    from care_ops.results.verdict import Verdict
    from orchestration.runner import Outcome

_WIDTH = None if sys.stdout.isatty() else 160  # without a terminal, rich would cut tables at 80 columns

Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Why = Annotated[bool, typer.Option("--why", help="Print every reason for a verdict, with numbers.")]
Root = Annotated[Path, typer.Option("--workspace", help="Folder of care.yaml.")]
"""Options that several commands share."""

_CONTROLS = {k: f"\\x{k:02x}" for k in (*range(32), *range(127, 160)) if chr(k) not in "\n\r\t"}


class _Console(Console):
    """Console that shows control characters, such as escape sequences in users' texts, as plain text."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(text.translate(_CONTROLS), **options)


console = _Console(width=_WIDTH, markup=False, highlight=False, emoji=False, soft_wrap=True)
errors = _Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)
"""Consoles without markup or wrapping, because messages contain users' names, and commands that users copy."""

PIPELINE = {
    *("dagster", "dagster_webserver", "alembic", "sqlalchemy", "duckdb", "ray", "dask", "distributed", "cvxpy"),
    *("tensorly", "httpx", "httpcore", "tenacity"),
}


@contextmanager
def errors_as_messages() -> Generator[None]:
    """Print a ``CareError``, a disk error or a missing package as one message, and exit with an error code."""
    try:
        yield
    except CareError as error:
        message, code = str(error), 2 if isinstance(error, InputError) else 1
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in PIPELINE:
            raise
        message, code = f"this command needs the missing package {error.name}; {how_to_install('pipeline')}", 1
    except Exception as error:
        refused = refusal(error)
        if refused is None:
            raise
        message, code = refused, 1
    else:
        return
    errors.print("error:", style="bold red", end=" ")
    errors.print(message)
    raise typer.Exit(code)


def print_logs(*, verbose: bool) -> None:
    """Print the logs of CARE's modules on standard error: only warnings, or all records if ``verbose``."""
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.setLevel(logging.DEBUG if verbose else logging.NOTSET)
        handler = next((h for h in logger.handlers if isinstance(h, _ConsoleHandler)), _ConsoleHandler())
        handler.setLevel(logging.DEBUG if verbose else logging.WARNING)  # overrides a level set by a library
        logger.addHandler(handler)


def keep_standard_error() -> None:
    """Print errors, logs and progress on the current standard error, even while Dagster redirects it during a step."""
    now = sys.stderr
    if now is None:  # standard error is closed
        return
    errors.file = os.fdopen(os.dup(now.fileno()), "w", buffering=1, encoding=now.encoding, errors=now.errors)


class _ConsoleHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            text, style = f"warning: {record.getMessage()}", "yellow"
        else:
            text, style = f"{datetime.now():%H:%M:%S} {record.name}: {record.getMessage()}", "dim"
        errors.print(text, style=style)


def print_json(document: object) -> None:
    """Print a document as JSON on standard output."""
    sys.stdout.write(json.dumps(document, indent=1, default=str) + "\n")


def show(rows: Sequence[Mapping[str, Any]], title: str, *, as_json: bool) -> None:
    """Print rows on standard output, as a table or as JSON."""
    if as_json:
        print_json(rows)
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    columns = dict.fromkeys(name for row in rows for name in row)
    for name in columns:
        numeric = all(isinstance(row.get(name), (int, float, type(None))) for row in rows)
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in columns))
    console.print(table, soft_wrap=False)


_STYLES = {"Use": "green", "Check": "yellow", "Don't use yet": "yellow", "Waiting": "blue", "Failed": "red"}


def print_verdict(verdict: Verdict, where: Console, name: str | None = None, *, everything: bool = False) -> None:
    """Print a verdict, after the test set's name if ``name`` is given; wrap long lines on a terminal."""
    first, *more = verdict.lines(everything=everything)
    commands = {f"        {step.command}" for step in verdict.next_steps}
    for number, line in enumerate([first if name is None else f"{name}: {first}", *more]):
        if where.is_terminal and line not in commands:  # commands are not wrapped, to be copied
            line = fill(line, where.width - 1, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        style = "" if number else f"bold {_STYLES[verdict.pill]}"
        where.print(line, style=style)


def progress_bar(*, prints_above: bool = True) -> Progress:
    """Return a context manager that shows a progress bar if standard error is a terminal.

    If ``prints_above``, other output appears above the bar; pass False while Dagster redirects output.
    """
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        redirect_stdout=prints_above,
        redirect_stderr=prints_above,
        disable=not errors.is_terminal,
    )


@contextmanager
def watching(what: str) -> Generator[Watch]:
    """Show a progress bar with the description ``what``, and yield the function that updates the bar."""
    with progress_bar() as progress:
        task = progress.add_task(what, total=None)

        def watch(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total or None)

        yield watch


_OF_OUTPUT = ("json", "why")
"""Parameters that change only what a command prints."""


def typed_again(context: typer.Context, command: Sequence[str] = (), /, **changed: object) -> str:
    """Return the typed command line with changed options; None removes an option; ``command`` replaces the command."""
    typed_names = context.command_path.removeprefix(context.find_root().command_path).split()
    words = ["care", *(command or typed_names)]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        typed = source is not None and source.name == "COMMANDLINE"
        value: object = changed.get(name, context.params.get(name))
        if value is None or name in _OF_OUTPUT or (name not in changed and not typed):
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif getattr(parameter, "is_flag", False):
            words += [parameter.opts[0]] if value else []
        else:
            option, values = parameter.opts[0], value if isinstance(value, (list, tuple)) else [value]
            if getattr(parameter, "multiple", False):
                words += [word for one in values for word in (option, str(one))]
            else:
                words += [option, *map(str, values)]
    return shlex.join(words)


def print_failures(outcome: Outcome) -> None:
    """Print the failures of a run: one line for each asset and reason, with the failed partitions."""
    alike: dict[tuple[str, str], list[str]] = {}
    for (asset, partition), message in outcome.failures.items():
        alike.setdefault((asset, message), []).append(partition or "")
    for (asset, message), partitions in alike.items():
        errors.print(f"failed: {f'{asset} {listed(partitions)}'.strip()}: {message}", style="red")


def show_systems(page: ReportData, title: str) -> None:
    """Print a report page's comparison of systems as a table, with a caveat if there are no labels."""
    rows = [
        {
            "system": row.system,
            "items": row.items,
            "value": row.value,
            "from": row.lo,
            "to": row.hi,
            "behind the best by": row.behind.difference if row.behind else None,
            "lo": row.behind.lo if row.behind else None,
            "hi": row.behind.hi if row.behind else None,
        }
        for row in page.system_rows()
    ]
    show(rows, title, as_json=False)
    if page.systems.as_seen:
        console.print(page.systems.as_seen)


def cell(value: Any) -> str:
    """Format a value for a table: floats with three decimals; None and NaN as an empty string."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
