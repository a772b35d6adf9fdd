"""What commands that read tables share: the options that name columns and formats, and printing what was read.

Belongs here: options. Belongs elsewhere: what they mean together (``assets.table.reading``, ``assets.table.options``),
reading (``warehouse.sources``).
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from assets.table.reading import reading_options as reading_options
from assets.table.reading import score_columns as score_columns
from care_ops.config import AdmissionRule, FitConfig, StructureConfig, TensorConfig
from orchestration.cli.output import errors

if TYPE_CHECKING:
    from warehouse.sources.reading import Reading

Scores = Annotated[
    Path,
    typer.Argument(
        help="Table of scores: a row for each score (item_id, judge, score), or a row for each item and a column for "
        "each judge. CSV, JSON lines, Parquet, Excel and more."
    ),
]
Judges = Annotated[Path | None, typer.Option(help="judge, family.")]
Item = Annotated[str | None, typer.Option("--item", help="Column of item ids; by default found by its name.")]
Judge = Annotated[
    list[str] | None,
    typer.Option("--judge", help="Column that names the judge of each row; or, repeated, the column of each judge."),
]
Score = Annotated[str | None, typer.Option("--score", help="Column of scores, in a table with one row for each score.")]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="Column that is no judge, in a table with a column for each judge; repeatable."),
]
Separator = Annotated[
    str | None, typer.Option("--separator", help="Character between the columns of a text file; by default found.")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of a text file; by default UTF-8.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal mark of numbers in a text file: '.' or ','.")]
Sheet = Annotated[str | None, typer.Option("--sheet", help="Sheet to read of a workbook that has several.")]

SETTINGS = {
    "program": "Loss that splits the judges' precision: frobenius or dtrace.",
    "gamma": "Penalty of the structure, as `care select` chooses it.",
    "tau": "Weight of the low-rank part's penalty, as `care select` chooses it.",
    "edges_within": "Judges, like a,b, between which S may have direct edges, and between no others; repeatable. "
    "'none' allows no edge at all.",
    "nonnegative_within": "Judges, like a,b, between which no entry of L may be negative; repeatable.",
    "states": "States of care_tensor's mixture; 0 chooses by BIC.",
    "views": "How care_tensor groups judges: structure or within.",
    "observation_model": "How a score is distributed given the state: gaussian, graded, categorical, student, "
    "scale_mixture.",
    "quality": "Which factor care_svd takes for quality without anchors: leading or balance.",
    "subtract_confounders": "Take the other factors' directions off care_svd's weights.",
    "missing": "What is done about missing scores: pairwise or em.",
    "absent": "What a score that is not there means: failed, not_asked, or auto, which takes it for not asked where "
    "most judges scored less than half of the items.",
    "max_missing": "Largest share of scores that an admitted judge may lack.",
    "max_mode_share": "A judge that gives one score this often is not admitted.",
    "min_entropy": "A judge whose scores carry fewer bits is not admitted.",
    "min_return": "Agreement that must come back where shifted rows are put right, to call a judge misaligned.",
    "min_gain": "How far that agreement must exceed the one of the rows as they are.",
    "report_agreement": "Agreement with the other judges below this is reported.",
}
"""Options that are settings of a fit or of admission by the same names, each with its help text."""

_GROUPS = ("edges_within", "nonnegative_within")
"""Options whose value is groups of judges; each use of such an option is one group, its names separated by commas."""

_NO_GROUP = "none"

Settings = dict[str, Any]
R = TypeVar("R")


def with_settings(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command an option for each of ``SETTINGS``; it gets those that were given as the dict ``settings``."""
    hints: dict[str, Any] = {}
    for kind in (FitConfig, StructureConfig, TensorConfig, AdmissionRule):
        every_hint = get_type_hints(kind)
        hints |= {entry.name: every_hint[entry.name] for entry in fields(kind) if entry.name in SETTINGS}

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> R:
        given = {name: kwargs.pop(name, None) for name in SETTINGS}
        given |= {name: _judge_groups(given[name]) for name in _GROUPS if given[name]}
        return command(*args, settings={name: value for name, value in given.items() if value is not None}, **kwargs)

    parameters = inspect.signature(command, eval_str=True).parameters
    added = [_option(name, hints[name], text) for name, text in SETTINGS.items()]
    kept = [parameter for name, parameter in parameters.items() if name != "settings"]
    signature = inspect.Signature([*kept, *added])
    wrapped.__signature__ = signature  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return wrapped


def _option(name: str, hint: Any, text: str) -> inspect.Parameter:
    """The parameter of a setting, whose value None stands for the default; words are checked by the settings class."""
    plain = type(get_args(hint)[0]) if get_args(hint) and get_origin(hint) is not None else hint
    plain = list[str] if name in _GROUPS else plain
    option = Annotated[plain | None, typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=False)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)


def _judge_groups(groups: Sequence[str]) -> list[list[str]]:
    """The groups of judges that are written as ``a,b``; a name that has a comma stands in quotes, as in CSV."""
    if list(groups) == [_NO_GROUP]:
        return []
    return [[name.strip() for name in names] for names in csv.reader(groups, skipinitialspace=True)]


def tell(reading: Reading) -> None:
    """Print on standard error how a file was read, before anything is computed from it."""
    first, *more = reading.sentences()
    errors.print(f"read {first}", markup=False, highlight=False, soft_wrap=True)
    for sentence in more:
        errors.print(f"  {sentence}", markup=False, highlight=False, soft_wrap=True)
