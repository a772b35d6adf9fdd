"""Commands ``care rate`` and ``care gate``, which estimate rates of systems from scores and a few labels."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from care_ops.errors import InputError
from orchestration.cli import tables
from orchestration.cli.output import Json, console, errors, show, watching

if TYPE_CHECKING:
    from assets.table.fitting import ScoreTable, TableConfig
    from assets.table.rating import RatingOptions
    from assets.table.reading import TableInputs
    from care_ops.labels import Labels as LabelRecord
    from care_ops.results.gate import Decision
    from care_ops.results.rates import Rate
    from care_ops.results.repeats import VarianceSplit

_OF_TABLES = "applies only to tables; --workspace reads the test set's file instead. Leave out one of the two options"

REGRESSION, NOT_ENOUGH, JUDGE_CHANGED = 3, 4, 6
"""Exit codes of ``care gate``, in addition to 1 for a failure and 2 for invalid input."""

ScoresOrName = Annotated[Path, typer.Argument(help="Table of scores; with --workspace, the name of a test set.")]
Folder = Annotated[Path | None, typer.Option("--workspace", help="Folder of care.yaml; SCORES then names a test set.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Table with item_id and label; `drawn` (random or chosen) and `probability` state how items were "
        "sampled. With --workspace, the default is the test set's labels."
    ),
]
Drawn = Annotated[
    Literal["random"] | None,
    typer.Option(help="How items were sampled, if --labels has no column `drawn`; rates need a random sample."),
]
Items = Annotated[
    Path | None, typer.Option(help="Table of items: item_id, split_unit, and the column that names the system.")
]
FitLabels = Annotated[Path | None, typer.Option(help="Labels for the fit only: table with item_id and label.")]
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
Sequential = Annotated[
    bool, typer.Option("--sequential", help="Compute wider intervals that stay valid however often you check them.")
]
LabelBounds = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Lowest and highest possible label (default: 0 1); used by --sequential and for pairs."),
]
_MARGIN = (
    "Non-inferiority margin: largest acceptable decrease of the mean label, such as 0.02 for two percentage points of "
    "the pass rate; for pairs, of the share of wins minus the share of losses. Choose it before you see results."
)
PassK = Annotated[
    int, typer.Option(min=1, help="k of pass^k, the share of tasks (split_unit) on which k runs of a system all pass.")
]


@tables.with_form
def rate(
    scores: ScoresOrName,
    labels: Labels = None,
    drawn: Drawn = None,
    items: Items = None,
    system: tables.System = None,
    workspace: Folder = None,
    judges: tables.Judges = None,
    scale: tables.Scale = None,
    fit_labels: FitLabels = None,
    population: Annotated[
        bool, typer.Option("--population", help="Estimate rates for future items instead of the items in the table.")
    ] = False,
    width: Annotated[float | None, typer.Option(help="Print how many labels give this interval half-width.")] = None,
    level: Level = 0.9,
    sequential: Sequential = False,
    label_bounds: LabelBounds = None,
    pass_k: PassK = 1,
    json: Json = False,
    *,
    form: tables.Form,
) -> None:
    """Print each system's pass rate or mean label, with an interval, from judges' scores corrected by labels."""
    from assets.table.rating import rate_table, score_variance
    from care_ops.results.rates import KINDS, labels_needed

    if sequential and width is not None:
        raise InputError("--width cannot be combined with --sequential; leave out one of the two options")
    inputs = tables.TableInputs(scores, items, judges, fit_labels, *tables.declared_scales(scale or ()))
    table, given, config = read_sample(inputs, labels, drawn, system, workspace, form)
    _print_checks(table, given, config)
    options: RatingOptions = {"level": level, "sequential": sequential, "label_bounds": label_bounds, "pass_k": pass_k}
    options["population"] = population
    with watching("fitting the panel") as watch:
        rates = rate_table(table, given, config, watch, **options)
    intervals = "intervals valid at every look" if sequential else "intervals"
    kind = KINDS[rates.kind] if pass_k == 1 else f"pass^{pass_k}: share of tasks on which {pass_k} runs all pass"
    title = f"{kind}, {level:.0%} {intervals}"
    rows = [_row(each) for each in rates.rates]
    if width is not None:
        for row, each in zip(rows, rates.rates, strict=True):
            row[f"labels for +-{width:g}"] = labels_needed(each, width)
    split, best = score_variance(table, config), rates.rates[0].system
    rows = [row if split is None else row | {"judge noise": split.noise_between(best, row["system"])} for row in rows]
    headings = {**_HEADINGS, "value": rates.kind if pass_k == 1 else f"pass^{pass_k}"}
    shown = rows if json else [{headings.get(name, name): value for name, value in row.items()} for row in rows]
    show(shown, title, as_json=json)
    if split is not None and not json:
        console.print(variance_sentence(split))
    for name, why in rates.left_out.items():
        errors.print(f"no rate for system {name}: {why}", style="yellow")


def _print_checks(table: ScoreTable, labels: LabelRecord, config: TableConfig) -> None:
    from assets.table.rating import contradiction_of_labels, pair_reading, unnamed_systems

    if message := pair_reading(table, config) or unnamed_systems(table, config):
        errors.print(message)
    if message := contradiction_of_labels(table, labels, config):
        errors.print(f"warning: {message}", style="yellow")


@tables.with_form
def gate(
    scores: ScoresOrName,
    new: Annotated[str, typer.Argument(help="System to release.")],
    against: Annotated[str, typer.Option(help="System to compare with.")],
    labels: Labels = None,
    drawn: Drawn = None,
    items: Items = None,
    system: tables.System = None,
    margin: Annotated[float, typer.Option(help=_MARGIN)] = 0.0,
    workspace: Folder = None,
    judges: tables.Judges = None,
    scale: tables.Scale = None,
    fit_labels: FitLabels = None,
    level: Level = 0.9,
    sequential: Sequential = False,
    label_bounds: LabelBounds = None,
    pass_k: PassK = 1,
    json: Json = False,
    *,
    form: tables.Form,
) -> None:
    """Compare two systems; exit with 0 if the new one passes, 3 if it is worse, 4 if undecided, 6 if judges changed."""
    from assets.table.rating import gate_table, score_variance
    from care_ops.results.gate import TooFewLabelsError

    if workspace is None and (labels is None or not system):
        needed = {"--labels labels.csv": labels, "--system model (a column of --items)": system}
        missing = " and ".join(option for option, given in needed.items() if not given)
        raise InputError(f"nothing was compared: give {missing} or, for a test set, --workspace")
    inputs = tables.TableInputs(scores, items, judges, fit_labels, *tables.declared_scales(scale or ()))
    table, given, config = read_sample(inputs, labels, drawn, system, workspace, form, gate=True)
    _print_checks(table, given, config)
    options: RatingOptions = {"level": level, "sequential": sequential, "label_bounds": label_bounds, "pass_k": pass_k}
    try:
        with watching("fitting the panel") as watch:
            how: dict[str, Any] = {"margin": margin, "watch": watch}
            decision = gate_table(table, given, config, new, against, **how, **options)
        row, sentence, passes = _decision_row(decision), _sentence(decision, config, options), decision.passes
        noise = None if (split := score_variance(table, config)) is None else split.noise_between(new, against)
        if noise is not None:
            row["judge noise"] = noise
            sentence += f"; judge noise is {noise:.0%} of the variance of the difference in mean score"
    except TooFewLabelsError as error:
        row = {"outcome": "undecided", "new": new, "against": against, "why": str(error)}
        sentence, passes = f"not decided: {error}", None
    if json:
        show([row], "gate", as_json=True)
    else:
        console.print(sentence)
    if passes is not True:
        raise typer.Exit(REGRESSION if passes is False else NOT_ENOUGH)


def read_sample(
    inputs: TableInputs,
    labels: Path | None,
    drawn: Drawn,
    system: list[str] | None,
    workspace: Path | None,
    form: tables.Form,
    *,
    cut: float | None = None,
    gate: bool = False,
    rates: bool = True,
) -> tuple[ScoreTable, LabelRecord, TableConfig]:
    """Return the scores, labels and settings of tables or, with ``workspace``, of the test set ``inputs.scores``.

    Prints how each table was read. Exits with 6 if ``gate`` is True and a judge of the test set has changed.
    """
    from assets.labels import read_labels
    from assets.table.rating import read_rated_table, workspace_table

    if workspace is None:
        if labels is None:
            raise InputError("there are no labels to compare with; give --labels, a table with item_id and label")
        how = form.columns, form.reading, tables.print_reading
        return read_rated_table(inputs, labels, *how, drawn=drawn, systems=system or (), cut=cut)
    from assets.judging.retests import changed_judges
    from care_ops.results.attribution import of_judges
    from orchestration.stores import read_workspace

    given = {"items": inputs.items, "judges": inputs.judges, "scale": inputs.scale or inputs.scales}
    tables.refuse_given(_OF_TABLES, form, **given, fit_labels=inputs.labels)
    loaded, testset = read_workspace(workspace), str(inputs.scores)
    if gate and (judges := changed_judges(loaded, loaded.testset(testset).name)):
        console.print(f"the systems are not compared until the test set has new labels: {' '.join(of_judges(judges))}")
        raise typer.Exit(JUDGE_CHANGED)
    table, config = workspace_table(loaded, testset, tuple(system or ()))
    config = config if cut is None else replace(config, fit=replace(config.fit, cut=cut))
    if rates and not config.systems:
        raise InputError(f"test set {testset!r} declares no column of systems; set --system, or `systems` in its file")
    file = labels or loaded.labels_file(testset)
    if file is None:
        raise InputError(f"test set {testset!r} has no labels in care.yaml; give a table of labels with --labels")
    return table, read_labels(file, report=tables.print_reading, unstated=drawn), config


def variance_sentence(split: VarianceSplit) -> str:
    """Return a sentence with the shares of score variance due to judges, tasks, runs and judge noise."""
    words = {"judge": "judges", "item": "tasks", "run": "runs of a system on a task", "residual": "noise of the judges"}
    parts = ", ".join(f"{words[name]} {part.share:.0%}" for name, part in split.components.items())
    noise = "share of judge noise in the variance of the difference between a system and the best system"
    return f"variance of a score: {parts}; the column `judges' noise` shows the {noise}"


_HEADINGS = {"lo": "from", "hi": "to", "judges alone": "judges' mean", "judge noise": "judges' noise"}


def _row(rate: Rate) -> dict[str, Any]:
    row = asdict(rate)
    return row | {"judges alone": row.pop("by_judges")}


def _decision_row(decision: Decision) -> dict[str, Any]:
    names = {"first": "new", "second": "against", "value": "difference"}
    row = {names.get(name, name): value for name, value in asdict(decision.difference).items()}
    return {"outcome": decision.outcome, **row, "margin": decision.margin}


def _sentence(decision: Decision, config: TableConfig, options: RatingOptions) -> str:
    interval = f"{options.get('level', 0.9):.0%} interval{' valid at every look' if options.get('sequential') else ''}"
    what = "share of wins minus share of losses" if len(config.systems) == 2 else "difference"
    difference = decision.difference
    words = {"undecided": "not decided: label more items", "not worse": f"not worse by {decision.margin:g} or more"}
    return (
        f"{difference.first} against {difference.second}: {words.get(decision.outcome, decision.outcome)}, "
        f"{what} {difference.value:+.3f} ({interval} {difference.lo:+.3f} to {difference.hi:+.3f})"
    )
