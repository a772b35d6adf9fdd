"""``care run``: bring a workspace up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from orchestration.cli.forecast import print_forecast
from orchestration.cli.output import console, errors, print_failures, print_logs, show, speaking_errors

if TYPE_CHECKING:
    from assets.judging.failures import Unheard
    from assets.workspace import Workspace
    from orchestration.launches import Launch
    from orchestration.runner import Outcome

_METRICS = ("n", "auc", "tau", "accuracy", "mae", "mae_filled")


@speaking_errors
def run(
    workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path(),
    testset: Annotated[str | None, typer.Option(help="Bring only this test set up to date.")] = None,
    judge: Annotated[str | None, typer.Option(help="Run only this judge, and load only its scores.")] = None,
    select: Annotated[str | None, typer.Option(help="Make only these assets, in Dagster's selection syntax.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Run experiments at the paper's size, which takes hours.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what judges would be asked, for how much, and how long; ask nobody.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what is asked for, by whom, and why.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Materialise everything that is stale, and nothing else; experiments only where they are selected."""
    from orchestration.locks import workspace_alone
    from orchestration.workspace import FULL_SIZE

    started = time.perf_counter()
    if full:
        os.environ[FULL_SIZE] = "1"
    if verbose:
        print_logs(verbose=True)
    if dry_run:
        print_forecast(workspace, testset, judge, as_json=json)
        return
    with workspace_alone(workspace, "care run") as loaded:
        _must_be_known(loaded, testset, judge)
        outcome = _bring_up_to_date(loaded, select=select, testset=testset, judge=judge)
    seconds = time.perf_counter() - started
    _print_results(loaded, as_json=json)
    _print_notes(loaded)
    print_failures(outcome)
    _print_end(loaded, outcome, seconds, as_json=json)
    failures = _failures(loaded, outcome)
    if failures:
        _send_alert(loaded, failures)
        raise typer.Exit(1)


def _print_results(loaded: Workspace, *, as_json: bool) -> None:
    rows = results(loaded) if loaded.warehouse.usable() else []
    if as_json:
        show(rows, "", as_json=True)
    elif rows:
        show(rows, "Aggregates against gold", as_json=False)


def _print_notes(loaded: Workspace) -> None:
    """What a person should know about each test set, whether or not anything was made."""
    owing = _owing(loaded) if loaded.warehouse.usable() else {}
    for testset in sorted(loaded.testsets):
        if not loaded.judges_of(testset):
            errors.print(f"note: {testset}: no judge scores it, so it has no panel", markup=False, soft_wrap=True)
        for warning in warnings_of(loaded, testset, owing.get(testset, [])):
            errors.print(f"warning: {testset}: {warning}", style="yellow", markup=False, soft_wrap=True)


def _print_end(loaded: Workspace, outcome: Outcome, seconds: float, *, as_json: bool) -> None:
    """What is left to others, how much was made, and where the report lies."""
    if outcome.left_to_daemon:
        errors.print(
            f"Dagster has {outcome.left_to_daemon} run(s) or backfill(s) waiting for this workspace; "
            "what depends on them is left to it",
            style="yellow",
        )
    count = len(outcome.materialised)
    nothing = "nothing could be made" if outcome.failures else "nothing to do"
    errors.print(f"{f'{count} asset partitions materialised' if count else nothing} in {seconds:.1f} s")
    index = loaded.report_folder / "index.html"
    if index.exists() and not as_json:
        console.print(f"report: {index}", highlight=False, soft_wrap=True)


def _failures(loaded: Workspace, outcome: Outcome) -> dict[str, str]:
    """Why the command ends with 1, by what failed.

    A fit that was held back on an earlier night is held back tonight, and whoever reads the exit code or the alert must
    know.
    """
    from assets.publication.editions import held_back

    failures = {f"{asset} {partition or ''}".strip(): why for (asset, partition), why in outcome.failures.items()}
    for testset in sorted(loaded.testsets):
        held = held_back(loaded, testset)
        if held is not None:
            failures[f"review {testset}"] = held.text(testset)
    return failures


def _send_alert(loaded: Workspace, failures: Mapping[str, str]) -> None:
    from orchestration.alerts import send
    from orchestration.workspace import read_settings

    text = "; ".join(f"{what}: {why}" for what, why in failures.items())
    send(read_settings(loaded.root).alerts, loaded.root, f"CARE: care run on {loaded.root.name} failed. {text}")


def _bring_up_to_date(loaded: Workspace, *, select: str | None, testset: str | None, judge: str | None) -> Outcome:
    """Materialise what is stale, and show on standard error what is being made."""
    from orchestration.definitions import build_defs
    from orchestration.instance import workspace_instance
    from orchestration.runner import run_stale

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with workspace_instance(loaded) as instance, Progress(*columns, console=errors, transient=True) as display:
        task = display.add_task("looking for what is stale", total=None)

        def progress(launch: Launch, number: int, total: int) -> None:
            display.update(task, description=launch.label, completed=number, total=total)
            display.console.print(f"  {launch.label}", style="dim", markup=False, highlight=False)

        return run_stale(
            build_defs(loaded.root, {"workspace": loaded}),  # the whole night uses the workspace as it was read once
            loaded,
            instance,
            selection=select,
            testset=testset,
            judge=judge,
            progress=progress,
        )


def results(workspace: Workspace) -> list[dict[str, Any]]:
    """The latest evaluation of every test set: a row for each aggregator, without metrics that none of them has."""
    with workspace.warehouse.reader() as connection:
        cursor = connection.execute(
            "SELECT f.testset, f.aggregator, f.labels_used AS labels, e.n, e.auc, e.tau, e.accuracy, e.mae, "
            "e.mae_filled FROM latest_fits f JOIN evaluations e USING (fit_id)"
        )
        names = [column[0] for column in cursor.description or ()]
        every_row = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    order = {name: position for position, name in enumerate(workspace.fit.aggregators)}
    rows = [row for row in every_row if row["testset"] in workspace.testsets and row["aggregator"] in order]
    rows.sort(key=lambda row: (row["testset"], order[row["aggregator"]]))
    empty = {metric for metric in _METRICS if all(row[metric] is None for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


def _owing(workspace: Workspace) -> dict[str, list[Unheard]]:
    """The scores that judges owe, by test set."""
    from assets.judging.failures import unheard

    with workspace.warehouse.reader() as connection:
        return {testset: unheard(workspace, connection, testset) for testset in workspace.testsets}


def warnings_of(workspace: Workspace, testset: str, owing: Sequence[Unheard]) -> list[str]:
    """Of what a person should be warned: an unverified source, what the page says, and what has happened since."""
    from assets.publication.documents import ReviewDocument
    from assets.report.documents import WarningsDocument
    from assets.report.states import notes

    unverified = workspace.testset(testset).unverified()
    folder = workspace.fit_folder(testset)
    page, review = WarningsDocument.find(folder), ReviewDocument.find(folder)
    drawn = page.warnings if page is not None else ()
    warnings = [*([unverified] if unverified else []), *drawn, *notes(workspace, testset, owing)]
    if review is not None and review.state == "pinned":
        warnings.append("the latest fit is not published: a person pinned another; `care history` lists both")
    return warnings


def _must_be_known(workspace: Workspace, testset: str | None, judge: str | None) -> None:
    """Refuse names that the workspace does not have."""
    if testset is not None:
        workspace.testset(testset)
    if judge is not None:
        workspace.judge(judge)
