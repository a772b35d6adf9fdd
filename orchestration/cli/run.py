"""Command ``care run``, which brings a workspace up to date."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from care_ops.errors import InputError, WarehouseError, counted
from orchestration.cli.output import (
    Json,
    Root,
    Why,
    console,
    errors,
    print_failures,
    print_logs,
    print_verdict,
    progress_bar,
    show,
)

if TYPE_CHECKING:
    from assets.judging.forecast import Forecast
    from assets.workspace import Workspace
    from care_ops.results.verdict import Verdict
    from orchestration.runner import Outcome

_METRICS = ("n", "auc", "tau", "accuracy", "mae", "mae_filled")


def run(
    workspace: Root = Path(),
    testset: Annotated[str | None, typer.Option(help="Bring only this test set up to date.")] = None,
    judge: Annotated[str | None, typer.Option(help="Run only this judge, and load only its scores.")] = None,
    select: Annotated[str | None, typer.Option(help="Build only these assets (Dagster's selection syntax).")] = None,
    experiments: Annotated[bool, typer.Option("--experiments", help="Run the paper's experiments too.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Run experiments at the paper's size, which takes hours.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the requests to judges, their cost and time, without sending any.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print why each asset is materialised.")] = False,
    json: Json = False,
    why: Why = False,
) -> None:
    """Bring the workspace up to date. Add --experiments to run the paper's experiments too.

    Exits with 1 if something failed, and with 130 after Ctrl-C. A new fit that waits for your review is not a failure.
    """
    from orchestration.locks import locked_workspace
    from orchestration.workspace import FULL_SIZE

    started = time.perf_counter()
    if full:
        os.environ[FULL_SIZE] = "1"
    if verbose:
        print_logs(verbose=True)
    if dry_run:
        print_forecast(workspace, testset, judge, as_json=json)
        return
    with _interruptible(), locked_workspace(workspace, "care run") as loaded:
        if testset is not None:
            loaded.testset(testset)  # raises if the workspace has no such test set
        if judge is not None:
            loaded.judge(judge)
        outcome = _bring_up_to_date(loaded, select=select, testset=testset, judge=judge)
        if experiments:  # experiments read the new fits
            more = _bring_up_to_date(loaded, select="group:experiments", testset=None, judge=None)
            outcome.materialised.extend(more.materialised)
            outcome.failures.update(more.failures)
        if outcome.unselected:
            raise InputError(
                f"nothing was materialised: the selected assets need {outcome.unselected[0]}, which is stale and not "
                "selected; run `care run` without --select first"
            )
        verdicts = _update_verdicts(loaded, outcome, narrowed=any((select, testset, judge)))
    seconds = time.perf_counter() - started
    _print_results(loaded, verdicts, as_json=json, everything=why)
    print_failures(outcome)
    _print_end(loaded, outcome, seconds, as_json=json)
    _alert(loaded, outcome, verdicts, narrowed=any((select, testset, judge)))
    if outcome.failures:
        raise typer.Exit(1)


@contextmanager
def _interruptible() -> Generator[None]:
    try:
        yield
    except KeyboardInterrupt:
        errors.print("interrupted: all scores so far are kept; run the same command to continue")
        raise typer.Exit(130) from None


def _alert(loaded: Workspace, outcome: Outcome, verdicts: Mapping[str, Verdict], *, narrowed: bool) -> None:
    from assets.judging.bill import latest_bill_message
    from orchestration.alert_causes import failure_cause, notifier_of, report_conditions, report_failures
    from orchestration.instance import workspace_instance
    from orchestration.workspace import read_settings

    settings = read_settings(loaded.root)
    notifier = notifier_of(loaded, settings.alerts)
    if not notifier.has_recipient:
        return
    with workspace_instance(loaded) as instance:
        report_conditions(notifier, loaded, instance, verdicts, settings.nightly)
    report_failures(notifier, [failure_cause(*place, why) for place, why in outcome.failures.items()])
    notifier.send()
    if not (narrowed or outcome.failures) and notifier.needs_heartbeat(now := time.time()):
        notifier.send_heartbeat(now, latest_bill_message(loaded))


def _update_verdicts(loaded: Workspace, outcome: Outcome, *, narrowed: bool) -> dict[str, Verdict]:
    """Store a run's failures, rebuild pages whose verdict has changed, and return the verdict on every test set."""
    from assets.report.report_index import write_verdicts
    from assets.report.verdicts import current_verdicts, index_differs, note_failures
    from orchestration.alert_causes import testset_of_failure

    failed: dict[str, dict[str, str]] = {}
    for (asset, partition), why in outcome.failures.items():
        if (testset := testset_of_failure(asset, partition)) is not None:
            failed.setdefault(testset, {})[asset] = why
    for testset in loaded.testsets:
        if testset in failed or not narrowed:
            note_failures(loaded, testset, failed.get(testset, {}))
    verdicts = current_verdicts(loaded, outcome.known)
    return write_verdicts(loaded, outcome.known) if index_differs(loaded, verdicts, steps=True) else verdicts


def _print_results(loaded: Workspace, verdicts: Mapping[str, Verdict], *, as_json: bool, everything: bool) -> None:
    for name, verdict in verdicts.items():
        print_verdict(verdict, errors if as_json else console, name, everything=everything)
    rows = results(loaded) if loaded.warehouse.usable() else []
    if as_json:
        show(rows, "", as_json=True)
    elif rows:
        show(_by_testset(rows), "Agreement of aggregates with gold (AUC or Kendall's tau)", as_json=False)
    if wrong := loaded.labels_of_nobody():
        errors.print(f"warning: {wrong}", style="yellow")
    for testset in sorted(name for name in loaded.testsets if not loaded.judges_of(name)):
        errors.print(f"note: {testset}: no judge scores this test set; add a judge with `care judges new`")


def _print_end(loaded: Workspace, outcome: Outcome, seconds: float, *, as_json: bool) -> None:
    from assets.judging.batches import batch_messages

    if outcome.left_to_daemon:
        errors.print(
            "some assets are still stale; Dagster runs that are waiting for this command will build these assets when "
            "the command ends",
            style="yellow",
        )
    for sentence in batch_messages(loaded):
        errors.print(sentence)
    nothing = "nothing could be materialised" if outcome.failures else "nothing to do"
    done = f"{counted(len(outcome.materialised), 'asset partition')} materialised"
    errors.print(f"{done if outcome.materialised else nothing} in {seconds:.1f} s")
    index = loaded.report_folder / "index.html"
    if index.exists() and not as_json:
        console.print(f"report: {index}")


def _bring_up_to_date(loaded: Workspace, *, select: str | None, testset: str | None, judge: str | None) -> Outcome:
    from orchestration.instance import delete_old_runs, launcher_that_ends_runs_of_commands, workspace_instance
    from orchestration.runner import run_stale

    with workspace_instance(loaded) as instance, progress_bar(prints_above=False) as display:
        if launcher := launcher_that_ends_runs_of_commands(instance):
            raise WarehouseError(
                f"nothing was run: {loaded.root} belongs to a deployment whose {launcher} would treat the runs of this "
                "command as lost; materialise assets in Dagster's UI, or let the daemon materialise stale assets"
            )
        task = display.add_task("searching for stale assets", total=None)

        def progress(label: str, number: int, total: int) -> None:
            display.update(task, description=label, completed=number, total=total)
            if not display.disable:
                display.console.print(f"  {label}", style="dim")

        outcome = run_stale(loaded, instance, selection=select, testset=testset, judge=judge, progress=progress)
        delete_old_runs(loaded, instance)
        return outcome


def results(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the latest evaluations: a row for each test set and aggregator, and for each test set's best judge.

    Metrics that are missing in all rows are omitted.
    """
    from assets.results.evaluation import BEST_JUDGE
    from care_ops.records import Evaluation

    with workspace.warehouse.reader() as connection:
        found = connection.sql(
            "SELECT f.testset, f.aggregator, f.labels_used AS labels, e.n, e.auc, e.tau, e.accuracy, e.mae, "
            "e.mae_filled FROM latest_fits f JOIN evaluations e USING (fit_id)"
        )
        every_row = found.to_arrow_table().to_pylist()
    order = {name: position for position, name in enumerate(workspace.fit.aggregators)}
    rows = [row for row in every_row if row["testset"] in workspace.testsets and row["aggregator"] in order]
    for testset in {row["testset"] for row in rows}:
        best = workspace.fit_folder(testset).find(Evaluation, BEST_JUDGE)
        if best is not None:
            rows.append(
                {"testset": testset, "aggregator": "best judge", "labels": 0, **{m: getattr(best, m) for m in _METRICS}}
            )
    rows.sort(key=lambda row: (row["testset"], order.get(row["aggregator"], len(order))))
    empty = {metric for metric in _METRICS if all(row[metric] is None for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


def _by_testset(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    by_testset: dict[str, dict[str, Any]] = {}
    for row in rows:
        order = row.get("tau") if row.get("auc") is None else row["auc"]
        line = by_testset.setdefault(row["testset"], {"testset": row["testset"], "n": row["n"]})
        line[row["aggregator"]] = f"{order:.3f} ({row['labels']} labels)" if row["labels"] and order else order
    names = dict.fromkeys(name for line in by_testset.values() for name in line)
    return [{name: line.get(name) for name in names} for line in by_testset.values()]


def print_forecast(folder: Path, testset: str | None, judge: str | None, *, as_json: bool) -> None:
    """Print the expected requests, tokens, cost and time for each judge and test set, and their totals."""
    from assets.judging.forecast import forecast
    from orchestration.stores import read_workspace

    workspace = read_workspace(folder)
    judges = [judge] if judge else sorted(workspace.judges)
    rows = forecast(workspace, judges, [testset] if testset else sorted(workspace.testsets))
    if as_json:
        show([asdict(row) for row in rows], "", as_json=True)
        return
    if not rows:
        console.print("every judge has scored every item: `care run` would send no requests")
        return

    def printed(row: Forecast) -> dict[str, Any]:
        unmeasured = "" if row.measured or not row.tokens else "about "
        dollars = f"{unmeasured}{row.dollars:,.2f}" if row.dollars else "–"
        nobody = "scores are recorded, or shared with another test set" if row.items and not row.questions else ""
        notes = [row.message or nobody] if row.message or nobody else []
        if row.given_up:
            notes.append(f"CARE gave up on {row.given_up:,} items; raise `attempts` in the judge's file to retry")
        return {
            "judge": row.judge,
            "test set": row.testset,
            "items": row.items,
            "questions": row.questions,
            "tokens": f"{unmeasured}{row.tokens:,.0f}" if row.tokens else "–",
            "US $": "price unknown" if row.dollars is None else dollars,
            "time": "not measured yet" if row.seconds is None else duration(row.seconds),
            "note": row.failure or "; ".join(notes),
        }

    show([printed(row) for row in rows], "Requests that `care run` would send", as_json=False)
    if not any(row.questions or row.given_up or row.failure for row in rows):
        console.print("all these scores are recorded: `care run` reads them and sends no requests to judges")
        return
    known = [row.seconds for row in rows if row.seconds is not None]
    unpriced = sorted({row.judge for row in rows if row.dollars is None})
    console.print(
        f"total: {sum(row.items for row in rows):,} items, {sum(row.tokens for row in rows):,.0f} tokens, "
        f"US $ {sum(row.dollars or 0.0 for row in rows):,.2f}"
        + (f" plus the cost of {', '.join(unpriced)} (set price_in and price_out of each judge)" if unpriced else "")
        + f", {duration(sum(known))} if judges run one after the other"
        + ("" if len(known) == len(rows) else ", plus the time of judges whose speed is unknown")
    )
    for sentence in _limits_passed(workspace, rows):
        console.print(sentence)


def _limits_passed(workspace: Workspace, rows: Sequence[Forecast]) -> Iterator[str]:
    from assets.judging.bill import purses

    dollars = defaultdict[str, float](float)
    for row in rows:
        dollars[row.judge] += row.dollars or 0.0
    for purse in purses(workspace):
        if purse.spent + purse.perhaps + sum(dollars.values()) > purse.limit:
            yield f"a spend limit would end this run before all requests are sent: {purse}"
    for judge, cost in dollars.items():
        limit = getattr(workspace.judge(judge).engine, "spend_limit", None) if cost else None
        if limit is not None and cost > limit:
            limited = f"spend_limit in the judge's file is {limit} US dollars; raise it, or run again to continue"
            yield f"judge {judge} will not get all questions in one run: {limited}"


def duration(seconds: float) -> str:
    """Format a duration in hours, minutes or seconds, such as 1.5 h."""
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
