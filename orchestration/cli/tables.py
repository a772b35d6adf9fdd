"""Command-line options that describe tables, and functions that read the tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_type_hints

import typer
from rich.markup import escape

from assets.table.reading import TableInputs as TableInputs
from assets.table.reading import declared_scales as declared_scales
from assets.table.reading import read_table as read_inputs
from assets.table.reading import reading_options, score_columns
from care_ops.config import AdmissionRule, Calibration, FitConfig, StructureConfig, explained
from care_ops.errors import InputError
from orchestration.cli.output import errors
from warehouse.testsets import ReadingOptions, ScoreColumns

if TYPE_CHECKING:
    from assets.table.fitting import ScoreTable
    from warehouse.sources.reading import Reading

Scores = Annotated[
    Path,
    typer.Argument(
        help="Table of scores: a row for each score (item_id, judge, score), or a row for each item and a column for "
        "each judge. CSV, JSON lines, Parquet, Excel and more."
    ),
]
System = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        "--systems",
        help="Column of --items that names the item's system. For pairs, give the option twice: the left system, then "
        "the right one. A higher score means that the left answer is better.",
    ),
]
Judges = Annotated[Path | None, typer.Option(help="Table of judges with the columns judge and family.")]
Scale = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        help="Lowest and highest score, such as 1 10; scores outside this range count as missing. JUDGE=0:100 declares "
        "the scale of one judge, whose scores are rescaled to the panel's scale; repeatable.",
    ),
]
OF_FILES = {
    "item": (str, "Column of item ids; by default, CARE recognises its name."),
    "judge": (list[str], "Column with the judge's name. If each judge has its own column, give each of these columns."),
    "score": (str, "Column of scores, in a table with one row for each score."),
    "drop": (list[str], "Judge to leave out, or a column without scores of a judge; repeatable."),
    **{name: (str, f"{words} By default, CARE detects it.") for name, words in explained(ReadingOptions).items()},
    "decimal": (str, "Decimal mark of numbers in a text file: '.' or ','."),
}
"""Options for the columns and the format of a table, each with its type and help text."""

_OTHERWISE = ("aggregators", "scale", "calibration", "structure", "resamples", "placement")
"""Settings of a fit that are not in ``SETTINGS``, because ``care fit`` defines an option for each of them."""

SETTINGS = {
    entry.name: (hints[entry.name], words[entry.name].replace("``", ""))
    for kind in (FitConfig, StructureConfig, AdmissionRule, Calibration)
    for hints, words in [(get_type_hints(kind), explained(kind))]
    for entry in fields(kind)
    if entry.name not in _OTHERWISE
} | {"profile": (Literal["care", "paper"], "paper: use the paper's algorithms, baselines and settings.")}
"""Options for the settings of a fit and of judge admission, each with its type and help text."""

_SEVERAL = {"not_quality": "One of words, sentences, list_items, numbers, or a feature's name; repeatable."}
"""Additional help of repeatable options."""

READING, METHODS = "How a table is read", "Settings of the methods"

Settings = dict[str, Any]
R = TypeVar("R")


class Form(NamedTuple):
    """Columns and format of a table, and the names of the options that declare them."""

    columns: ScoreColumns
    reading: ReadingOptions
    given: tuple[str, ...]


def with_form(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options ``OF_FILES`` to a command, and pass their values to the command as the argument ``form``."""

    def form(given: dict[str, Any]) -> Form:
        columns = score_columns(given["item"], given["judge"], given["score"], given["drop"])
        reading = reading_options(*(given[name] for name in ReadingOptions.model_fields))
        return Form(columns, reading, tuple(f"--{name}" for name, value in given.items() if value is not None))

    added = [_option(name, *option, rich_help_panel=READING) for name, option in OF_FILES.items()]
    return _with_options(command, "form", added, form)


def with_settings(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options ``SETTINGS`` to a command, and pass the given values to the command as the dict ``settings``."""

    def settings(given: dict[str, Any]) -> Settings:
        return {name: value for name, value in given.items() if value is not None}

    added = [
        _option(name, _plain(name, hint), text, rich_help_panel=METHODS) for name, (hint, text) in SETTINGS.items()
    ]
    return _with_options(command, "settings", added, settings)


def _with_options(
    command: Callable[..., R], name: str, added: list[inspect.Parameter], together: Callable[[dict[str, Any]], Any]
) -> Callable[..., R]:
    """Replace a command's parameter ``name`` with options; ``together`` combines their values into one argument."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> R:
        given = {option.name: kwargs.pop(option.name, None) for option in added}
        return command(*args, **{name: together(given)}, **kwargs)

    parameters = inspect.signature(command, eval_str=True).parameters
    kept = [parameter for other, parameter in parameters.items() if other != name]
    signature = inspect.Signature([*kept, *added])
    wrapped.__signature__ = signature  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return wrapped


def _plain(name: str, hint: Any) -> Any:
    if name in _SEVERAL:
        return list[str]
    first = next(iter(get_args(hint)), hint)  # the settings class checks the permitted values
    return first if isinstance(first, type) else type(first)


def _option(name: str, kind: Any, text: str, **shown: Any) -> inspect.Parameter:
    text = f"{text} {_SEVERAL.get(name, '')}".rstrip()
    word = f"--{name.replace('_', '-')}"
    option = Annotated[kind | None, typer.Option(word, help=escape(text), show_default=False, **shown)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)


def refuse_given(why: str, form: Form, **options: object) -> None:
    """Raise ``InputError`` with the reason ``why`` if the user gave any of ``options``, or an option in ``form``."""
    given = [f"--{name}" for name, value in options.items() if value] + list(form.given)
    if given:
        raise InputError(f"{given[0]} {why}")


def output_folder(out: Path | None, scores: Path, command: str) -> Path:
    """Return the output folder: ``out``, or a folder named after the scores and the command, such as ``scores-fit``.

    Raises ``InputError`` if there is a file of that name.
    """
    folder = out or Path(f"{scores.name.split('.')[0]}-{command}")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another folder with --out")
    return folder


def read_table(inputs: TableInputs, form: Form) -> ScoreTable:
    """Read a table of scores, and optional tables of items, judges and labels; print how each table was read."""
    return read_inputs(inputs, form.columns, form.reading, print_reading)


def print_reading(reading: Reading) -> None:
    """Print on standard error how a file was read."""
    first, *more = reading.sentences()
    errors.print(f"read {first}")
    for sentence in more:
        errors.print(f"  {sentence}")
