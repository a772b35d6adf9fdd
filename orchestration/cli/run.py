"""``care run``: bring a workspace up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from orchestration.cli.output import console, errors, show, speaking_errors

if TYPE_CHECKING:
    from assets.judging.failures import Unheard
    from assets.workspace import Workspace
    from orchestration.launches import Launch
    from orchestration.runner import Outcome

_METRICS = ("n", "auc", "tau", "accuracy", "mae", "mae_filled")


@speaking_errors
def run(
    workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path(),
    testset: Annotated[str | None, typer.Option(help="Only this test set.")] = None,
    judge: Annotated[str | None, typer.Option(help="Only this judge's inference and scores.")] = None,
    select: Annotated[str | None, typer.Option(help="Only these assets, in Dagster's selection syntax.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Experiments at the paper's size; hours.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Materialise everything that is stale, and nothing else; experiments where they are selected."""
    from assets.publication.editions import held_back
    from orchestration.alerts import send
    from orchestration.locks import workspace_alone
    from orchestration.workspace import FULL_SIZE, read_settings

    started = time.perf_counter()
    if full:
        os.environ[FULL_SIZE] = "1"
    with workspace_alone(workspace, "care run") as loaded:
        _must_be_known(loaded, testset, judge)
        outcome = _bring_up_to_date(loaded, select=select, testset=testset, judge=judge)
    seconds = time.perf_counter() - started
    there = loaded.warehouse.usable()
    rows = results(loaded) if there else []
    if json:
        show(rows, "", as_json=True)
    elif rows:
        show(rows, "Aggregates against gold", as_json=False)
    owing = _owing(loaded) if there else {}
    for testset in sorted(loaded.testsets):
        if not loaded.judges_of(testset):
            errors.print(f"note: {testset}: no judge scores it, so it has no panel", markup=False, soft_wrap=True)
        for warning in warnings_of(loaded, testset, owing.get(testset, [])):
            errors.print(f"warning: {testset}: {warning}", style="yellow", markup=False, soft_wrap=True)
    for (asset, partition), message in outcome.failures.items():
        errors.print(
            f"failed: {asset} {partition or ''}: {message}", style="red", markup=False, highlight=False, soft_wrap=True
        )
    done = len(outcome.materialised)
    if outcome.left_to_daemon:
        errors.print(
            f"Dagster has {outcome.left_to_daemon} run(s) or backfill(s) waiting for this workspace; "
            "what depends on them is left to it",
            style="yellow",
        )
    words = f"{done} asset partitions materialised" if done else "nothing to do"
    errors.print(f"{words} in {seconds:.1f} s")
    index = loaded.report_folder / "index.html"
    if index.exists() and not json:
        console.print(f"report: {index}", highlight=False, soft_wrap=True)
    failed = {f"{asset} {partition or ''}".strip(): why for (asset, partition), why in outcome.failures.items()}
    # Held back on an earlier night is held back tonight, and whoever reads the exit code or the alert must know.
    failed |= {
        f"review {t}": held.text(t) for t in sorted(loaded.testsets) if (held := held_back(loaded, t)) is not None
    }
    if failed:
        said = "; ".join(f"{what}: {why}" for what, why in failed.items())
        send(read_settings(loaded.root).alerts, loaded.root, f"CARE: care run on {loaded.root.name} failed. {said}")
        raise typer.Exit(1)


def _bring_up_to_date(loaded: Workspace, *, select: str | None, testset: str | None, judge: str | None) -> Outcome:
    """``run_stale``, with what is being made shown on standard error."""
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
            build_defs(loaded.root, {"workspace": loaded}),  # as it was read: one state of it for the whole night
            loaded,
            instance,
            selection=select,
            testset=testset,
            judge=judge,
            progress=progress,
        )


def results(workspace: Workspace) -> list[dict[str, Any]]:
    """The latest evaluation of every test set, empty where there is none."""
    with workspace.warehouse.reader() as connection:
        found = connection.execute(
            "SELECT f.testset, f.aggregator, f.labels_used AS labels, e.n, e.auc, e.tau, e.accuracy, e.mae, "
            "e.mae_filled FROM latest_fits f JOIN evaluations e USING (fit_id)"
        )
        names = [column[0] for column in found.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    order = {name: k for k, name in enumerate(workspace.fit.aggregators)}
    rows = [row for row in rows if row["testset"] in workspace.testsets and row["aggregator"] in order]
    rows.sort(key=lambda row: (row["testset"], order[row["aggregator"]]))
    empty = [m for m in _METRICS if all(row[m] is None for row in rows)]
    return [{k: v for k, v in row.items() if k not in empty} for row in rows]


def _owing(workspace: Workspace) -> dict[str, list[Unheard]]:
    """What judges owe, by test set."""
    from assets.judging.failures import unheard

    with workspace.warehouse.reader() as connection:
        return {testset: unheard(workspace, connection, testset) for testset in workspace.testsets}


def warnings_of(workspace: Workspace, testset: str, owing: Sequence[Unheard]) -> list[str]:
    """What nobody has checked about the test set, and what its page warns of once there is one."""
    from assets.publication.documents import ReviewDocument
    from assets.report.documents import WarningsDocument
    from assets.report.states import notes

    unverified = workspace.testset(testset).unverified()
    folder = workspace.fit_folder(testset)
    page, review = WarningsDocument.find(folder), ReviewDocument.find(folder)
    drawn = page.warnings if page is not None else ()
    found = [*([unverified] if unverified else []), *drawn, *notes(workspace, testset, owing)]
    if review is not None and review.state == "pinned":
        found.append("the latest fit is not published: a person pinned another; `care history` lists both")
    return found


def _must_be_known(workspace: Workspace, testset: str | None, judge: str | None) -> None:
    if testset is not None:
        workspace.testset(testset)
    if judge is not None:
        workspace.judge(judge)
