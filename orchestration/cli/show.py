"""Command ``care admin daemon``, and the commands ``care status``, ``report`` and ``ui``, which show a workspace."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.errors import InputError, WarehouseError
from orchestration.cli.output import Json, Root, Why, console, errors, print_verdict, show

if TYPE_CHECKING:
    from assets.report.staleness import State
    from assets.workspace import Workspace
    from care_ops.results.verdict import Verdict

_STALE = 3
"""Exit code of `care status --exit-code` if something is missing or stale, or a fit waits for review."""

_DAEMON = __name__.removesuffix("cli.show") + "daemon"


def status(
    workspace: Root = Path(),
    json: Json = False,
    why: Why = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if something failed, with 3 if something is stale.")
    ] = False,
) -> None:
    """Show verdicts, counts of scores, the cost of judges, and missing, stale and failed assets."""
    from assets.report.staleness import states
    from assets.report.verdicts import current_verdicts
    from orchestration.stores import read_workspace

    loaded = read_workspace(workspace)
    with loaded.warehouse.reader() if loaded.warehouse.usable() else nullcontext():  # opened once for the whole command
        known = states(loaded)
        slices = _score_counts(loaded, known)
        verdicts = current_verdicts(loaded, known)
        _print_status(loaded, slices, verdicts, json=json, why=why)
    if not exit_code:
        return
    found = {verdict.state for verdict in verdicts.values()}
    if "failed" in found.union(slices.values()):
        raise typer.Exit(1)
    if found & {"held back", "stale"} or any(state.stale for state in known.values()):
        raise typer.Exit(_STALE)


def _print_status(
    loaded: Workspace, slices: Mapping[tuple[str, str], str], verdicts: Mapping[str, Verdict], *, json: bool, why: bool
) -> None:
    from assets.judging.batches import batch_messages
    from assets.judging.bill import bills, latest_bill_message

    if json:
        paid = {(bill["judge"], bill["testset"]): bill["dollars"] for bill in bills(loaded)}
        sentences = {testset: verdict.headline for testset, verdict in verdicts.items()}
        rows = [
            {"judge": j, "testset": t, "state": s, "dollars": paid.get((j, t)), "verdict": sentences.get(t)}
            for (j, t), s in slices.items()
        ]
        show(rows, "", as_json=True)
        return
    for name, verdict in verdicts.items():
        print_verdict(verdict, console, name, everything=why)
    rows = [
        {"judge": judge, **{testset: slices.get((judge, testset), "") for testset in sorted(loaded.testsets)}}
        for judge in sorted(loaded.judges)
    ]
    show(rows, f"{loaded.root}", as_json=False)
    console.print("A cell shows scored items / all items, or is empty if the judge skips the test set.", style="dim")
    if bill := latest_bill_message(loaded):
        console.print(bill)
    for sentence in filter(None, (loaded.labels_of_nobody(), *batch_messages(loaded))):
        console.print(sentence)
    if any((loaded.data / "experiments").glob("*")):
        from assets.experiments.registry import stale_findings

        if stale := stale_findings(loaded):
            console.print(f"stale experiments: {', '.join(stale)}")


def _score_counts(workspace: Workspace, current: Mapping[str, State]) -> dict[tuple[str, str], str]:
    """Return, for each judge and test set, the numbers of scores and items, or ``missing``, ``stale`` or ``failed``."""
    from assets.judging.failures import why_nothing_came

    counts: dict[tuple[str, str], tuple[int, int]] = {}
    if workspace.warehouse.usable():
        with workspace.warehouse.reader() as connection:
            rows = connection.execute("SELECT judge, testset, n_ok, n_items FROM slices").fetchall()
        counts = {(judge, testset): (n_ok, n_items) for judge, testset, n_ok, n_items in rows}
    found: dict[tuple[str, str], str] = {}
    for testset, state in current.items():
        stale_keys = {(one.asset, one.partition) for one in state.stale}
        broken = {entry.judge for entry in state.incomplete if entry.why}
        stale = {entry.judge for entry in state.incomplete if not entry.loaded}
        sent = {entry.judge: f", {entry.in_batch} in a batch" for entry in state.incomplete if entry.in_batch}
        for judge in workspace.judges_of(testset):
            n_ok, n_items = counts.get((judge, testset), (0, None))
            if judge in broken or (not n_ok and state.items_hash and why_nothing_came(workspace, judge, testset)):
                found[judge, testset] = "failed"
            elif n_items is None:
                found[judge, testset] = "missing"
            else:
                is_stale = judge in stale or ("items", testset) in stale_keys
                found[judge, testset] = "stale" if is_stale else f"{n_ok} / {n_items}"
            found[judge, testset] += sent.get(judge, "")
    return dict(sorted(found.items()))


def report(
    workspace: Root = Path(),
    open_: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> None:
    """Print the path of the report; with --open, also open it in a browser."""
    from orchestration.stores import read_workspace

    index = read_workspace(workspace).report_folder / "index.html"
    if not index.exists():
        raise InputError(f"{index}: there is no report yet; run `care run --workspace {workspace}` first")
    console.print(str(index))
    if open_:
        webbrowser.open(index.as_uri())


def ui(
    workspace: Root = Path(),
    port: Annotated[int, typer.Option(help="Port on localhost.")] = 3000,
    read_only: Annotated[bool, typer.Option("--read-only", help="Forbid launches and changes in the UI.")] = False,
) -> None:
    """Serve Dagster's UI for the workspace on localhost and run its daemon, until interrupted."""
    environment = _as_daemon(workspace)
    errors.print(f"http://127.0.0.1:{port} (press Ctrl-C to stop)")
    _become_daemon(environment, *(["--read-only"] if read_only else []), "-h", "127.0.0.1", "-p", str(port))


def daemon(workspace: Root = Path()) -> None:
    """Run Dagster's daemon for the workspace without the UI, until interrupted."""
    _become_daemon(_as_daemon(workspace))


def _become_daemon(environment: dict[str, str], *arguments: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell would ignore Ctrl-C
    os.execve(sys.executable, [sys.executable, "-m", _DAEMON, *arguments], environment)


def _as_daemon(folder: Path) -> dict[str, str]:
    """Acquire the lock of the workspace's daemon; return the environment variables for the daemon."""
    from orchestration.instance import dagster_home, deployed_home
    from orchestration.locks import hold_daemon_lock
    from orchestration.stores import read_workspace

    loaded = read_workspace(folder)
    if deployed_home(loaded) is not None:
        raise WarehouseError(f"{loaded.root} is served by a deployment; use the deployment's own daemon and UI")
    home = dagster_home(loaded)
    hold_daemon_lock(loaded)
    return {**os.environ, "DAGSTER_HOME": str(home), "CARE_WORKSPACE": str(loaded.root)}
