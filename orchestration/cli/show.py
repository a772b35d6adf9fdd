"""``care status``, ``report``, ``ui`` and ``care admin daemon``: look at a workspace, and watch over it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import webbrowser
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.errors import InputError, WarehouseError
from orchestration.cli.output import Json, Root, Why, console, errors, print_verdict, show

if TYPE_CHECKING:
    from assets.report.outdated import State
    from assets.workspace import Workspace

_LAST_WORDS_S = 2.0
_DEFINITIONS = __name__.removesuffix("cli.show") + "definitions"
_WEBSERVER = __name__.removesuffix("cli.show") + "webserver"


def status(workspace: Root = Path(), json: Json = False, why: Why = False) -> None:
    """Show the verdict on each test set, how much each judge scored, what is missing, stale or failed; the bill."""
    from assets.experiments.registry import KEYS, outdated_kept
    from assets.judging.batches import told
    from assets.judging.bill import bill_of_night, bills
    from assets.partitions import JUDGES
    from assets.report.outdated import states
    from assets.report.verdicts import current_verdicts
    from orchestration.instance import failed_last, partition_statuses, workspace_instance
    from orchestration.stores import workspace_to_look_at

    loaded = workspace_to_look_at(workspace)
    known = states(loaded)
    with workspace_instance(loaded) as instance:
        of_judges = partition_statuses(instance, "judge_inference", JUDGES)
        failed = sorted(key.path[-1] for key in failed_last(instance, [loaded.mount.key(key) for key in KEYS]))
    slices = _judged(loaded, known, {judge for judge, said in of_judges.items() if said == "FAILED"})
    verdicts = current_verdicts(loaded, known)
    if json:
        paid = {(bill.judge, bill.testset): bill.dollars for bill in bills(loaded)}
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
    console.print("scores / items; empty: the judge does not score the test set", style="dim")
    if bill := bill_of_night(loaded):
        console.print(bill)
    for sentence in filter(None, (loaded.labels_of_nobody(), *told(loaded))):
        console.print(sentence)
    if outdated := outdated_kept(loaded):
        console.print(f"experiments out of date: {', '.join(outdated)}")
    if failed:
        console.print(f"experiments that failed: {', '.join(failed)}; `care run --select key:{failed[0]}` says why")


def _judged(workspace: Workspace, known: Mapping[str, State], failed: Collection[str]) -> dict[tuple[str, str], str]:
    """What is there of each judge on each test set: scores of items, or ``missing``, ``stale`` or ``failed``.

    It follows from what is stored; Dagster's record says only which judges have ``failed``, of those without any score.
    """
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    if workspace.warehouse.usable():
        with workspace.warehouse.reader() as connection:
            rows = connection.execute("SELECT judge, testset, n_ok, n_items FROM slices").fetchall()
        counts = {(judge, testset): (n_ok, n_items) for judge, testset, n_ok, n_items in rows}
    said: dict[tuple[str, str], str] = {}
    for testset, state in known.items():
        outdated = {(one.asset, one.partition) for one in state.outdated}
        broken = {entry.judge for entry in state.owing if entry.why}
        stale = {entry.judge for entry in state.owing if not entry.loaded}
        sent = {entry.judge: f", {entry.in_batch} in a batch" for entry in state.owing if entry.in_batch}
        for judge in workspace.judges_of(testset):
            n_ok, n_items = counts.get((judge, testset), (0, None))
            without_scores = judge in failed or (n_items is not None and ("scores", f"{judge}|{testset}") in outdated)
            if judge in broken or (without_scores and not n_ok):
                said[judge, testset] = "failed"
            elif n_items is None:
                said[judge, testset] = "missing"
            else:
                is_stale = judge in stale or ("items", testset) in outdated
                said[judge, testset] = "stale" if is_stale else f"{n_ok} / {n_items}"
            said[judge, testset] += sent.get(judge, "")
    return dict(sorted(said.items()))


def report(
    workspace: Root = Path(),
    open_: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> None:
    """Print where the report lies, or open it in a browser."""
    from orchestration.stores import workspace_to_look_at

    index = workspace_to_look_at(workspace).report_folder / "index.html"
    if not index.exists():
        raise InputError(f"{index}: there is no report yet; run `care run --workspace {workspace}` first")
    console.print(str(index))
    if open_:
        webbrowser.open(index.as_uri())


def ui(
    workspace: Root = Path(),
    port: Annotated[int, typer.Option(help="Port on localhost.")] = 3000,
    read_only: Annotated[bool, typer.Option("--read-only", help="Launch and change nothing from the UI.")] = False,
) -> None:
    """Serve Dagster's UI over the workspace on localhost, with its daemon, until interrupted."""
    from orchestration.locks import hold_daemon_lock
    from orchestration.stores import workspace_to_look_at

    loaded = workspace_to_look_at(workspace)
    environment = _environment(loaded)
    hold_daemon_lock(loaded)
    errors.print(f"http://127.0.0.1:{port} (Ctrl-C ends it)")
    command = [sys.executable, "-m", _WEBSERVER, *(["--read-only"] if read_only else []), "dev"]
    command += ["-m", _DEFINITIONS, "-h", "127.0.0.1"]
    code = _with_children([*command, "-p", str(port)], environment)
    raise typer.Exit(0 if code in (0, 130, -2) else 1)


def _with_children(command: list[str], environment: dict[str, str]) -> int:
    """Run a command in a process group of its own, and end the group when this process is told to end.

    The command starts a webserver, a daemon and code servers. A signal that reached this process alone would leave them
    running, and the next `care ui` would find a daemon at work.
    """
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(_number: int, _frame: object) -> None:
        for process in started:
            os.killpg(process.pid, signal.SIGINT)

    # A shell makes what it runs in the background ignore interrupts, and a child inherits that. So the handlers are set
    # before the command starts.
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        started.append(subprocess.Popen(command, env=environment, start_new_session=True))
        return started[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
                time.sleep(_LAST_WORDS_S)
                os.killpg(process.pid, signal.SIGKILL)


def daemon(workspace: Root = Path()) -> None:
    """Run Dagster's daemon over the workspace without the UI, until interrupted: it watches, schedules and runs."""
    from orchestration.locks import hold_daemon_lock
    from orchestration.stores import workspace_to_look_at

    loaded = workspace_to_look_at(workspace)
    hold_daemon_lock(loaded)
    command = [sys.executable, "-m", "orchestration.daemon", "run", "-m", _DEFINITIONS]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores in what it runs in the background
    os.execve(sys.executable, command, _environment(loaded))


def _environment(loaded: Workspace) -> dict[str, str]:
    from orchestration.instance import dagster_home, deployed_home

    if deployed_home(loaded) is not None:
        raise WarehouseError(f"{loaded.root} is served by a deployment, which has a daemon and a webserver of its own")
    return {**os.environ, "DAGSTER_HOME": str(dagster_home(loaded)), "CARE_WORKSPACE": str(loaded.root)}
