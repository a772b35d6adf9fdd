"""Runner of ``care run``, which materialises stale partitions until no partition is stale.

Runs are recorded in the workspace's own Dagster instance, so the UI shows them. The module ``plan`` decides which
partitions are ready, for ``care run`` and for the daemon.
"""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import call
from pathlib import Path
from socket import socketpair

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.experiments.registry import stale as stale_experiments
from assets.fit.made import FIT
from assets.judging.journal import recover
from assets.metadata import is_blocked, reasons_of
from assets.report.staleness import Partition, StalePartition, State, states
from assets.state.rebuild import needs_rebuild, rebuild_warehouse
from assets.state.repair import verify_some
from assets.state.retention import finish_forgetting, sweep
from assets.workers import LOCAL, DaskConfig
from assets.workspace import Workspace
from care_ops.errors import InputError
from orchestration.alerts import failure_message
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB, materialisations
from orchestration.definitions import build_defs
from orchestration.instance import (
    end_abandoned_runs,
    follow_partitions,
    partitions_under_way,
    report_unchanged,
    unfinished_runs,
    unreported_by,
    workspace_instance,
)
from orchestration.plan import (
    CARE_RUN,
    LAUNCHED_BY,
    ORDER,
    Cursor,
    find_stale,
    plan,
    planned_by,
    split_partition,
)

_MOST_STEPS = 40
"""Largest number of steps in a ``care run``; about five are needed, and more would only repeat the same work."""

_OF_TESTSETS = ("items", "gold", "scores", *FIT)
"""Assets whose runs send no requests to judges and belong to one test set."""

_FIT_S = 1.5
"""Approximate minimum time in seconds of the fit and report of a test set; 600 items and 10 judges take 1.8."""

Progress = Callable[[str, int, int], None]

_logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """Result of a ``care run``: what was built, what failed, and what remains.

    Attributes
    ----------
    materialised : list of (asset, partition)
        Materialised partitions in the order of their runs.
    left_to_daemon : int
        Number of unfinished runs of Dagster's daemon or UI.
    failures : dict (asset, partition) -> message
        Failures without a later success.
    unselected : list of str
        Unselected stale assets that selected assets need; empty if anything was run.
    known : dict test set -> State
        State of the test sets at the end.
    """

    materialised: list[Partition] = field(default_factory=list[Partition])
    left_to_daemon: int = 0
    failures: dict[Partition, str] = field(default_factory=dict[Partition, str])
    unselected: list[str] = field(default_factory=list[str])
    known: Mapping[str, State] = field(default_factory=dict[str, "State"])


def run_stale(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    *,
    selection: str | None = None,
    testset: str | None = None,
    judge: str | None = None,
    progress: Progress = lambda _label, _number, _total: None,
    again: Sequence[Partition] = (),
) -> Outcome:
    """Materialise all stale partitions, stage by stage.

    The caller holds the workspace's lock (``locks.exclusive_lock``).

    Parameters
    ----------
    selection : str, optional
        Assets in Dagster's selection syntax; by default all assets except experiments.
    testset, judge : str, optional
        Only partitions of this test set or judge.
    progress : callable, optional
        Called before each run with its label, its number, and the number of runs in this step.
    again : sequence of (asset, partition)
        Partitions to materialise first, even if they are not stale.

    Raises
    ------
    InputError
        The selection is not in Dagster's syntax, or selects nothing.
    KeyboardInterrupt
        A signal has ended the run.
    """
    defs = build_defs(workspace.root, workspace)  # later changes of files must not affect this run
    assets, outcome = _selected_assets(defs, selection), Outcome()

    def wants(one: StalePartition, assets: Collection[str]) -> bool:
        of_judge, of_testset = split_partition(*one.key)
        is_of_judge = judge is None or of_judge in (None, judge)
        is_of_testset = testset is None or testset in (of_testset, *one.testsets)
        return one.asset in assets and (one.partition is None or (is_of_judge and is_of_testset))

    with _interruptible() as raise_if_interrupted, closing(workspace.workers):
        lost = end_abandoned_runs(workspace, instance)
        sweep(workspace)
        finish_forgetting(workspace)
        recover(workspace)
        verify_some(workspace)
        follow_partitions(workspace, instance)
        unreadable = rebuild_warehouse(workspace) if needs_rebuild(workspace) else {}
        outcome.failures.update({("judge_inference", name): why for name, why in unreadable.items()})
        executor = _Executor(defs, workspace, instance)
        for requests in _steps(workspace, instance, assets, wants, lost, again, outcome):
            for number, label in enumerate(executor.run(requests, outcome)):
                raise_if_interrupted()
                progress(label, number, len(requests))
            raise_if_interrupted()
    return outcome


def _steps(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    assets: Collection[str],
    wants: Callable[[StalePartition, Collection[str]], bool],
    lost: Collection[Partition],
    again: Sequence[Partition],
    outcome: Outcome,
) -> Iterator[list[dg.RunRequest]]:
    """Yield the run requests of each step until each stale partition has been requested once; fill in ``outcome``.

    Partitions of killed runs (``lost``) are requested again, and fits that a failed run stored without a Dagster event.
    """
    tried, first, repeated = Cursor(most=1), _requested(again, "a command requested it"), set[Partition]()
    left = _requested([key for key in lost if key[1] is not None], "an earlier run of this partition was killed")
    for _ in range(_MOST_STEPS):
        outcome.known = states(workspace)
        stale = find_stale(workspace, outcome.known, canaries=True)
        unreported = {key for key in outcome.failures.keys() - stale.keys() - repeated if key[0] in FIT}
        repeated |= unreported
        tried.forget(unreported)
        left |= _requested(unreported, "a run stored the result and then failed")
        stale = left | stale
        wanted = first or {key: one for key, one in stale.items() if wants(one, assets)}
        asked = tried.request(workspace, wanted, () if first else partitions_under_way(instance))
        first = {}
        for one in asked:
            _logger.info("CARE will materialise %s %s: %s", one.asset, one.partition or "", one.why)
        left = {key: one for key, one in left.items() if one not in asked}
        if not (requests := plan(asked, instance)):
            break
        yield requests
    else:
        _logger.warning("Some assets are still stale after %d steps; run `care run` again to continue.", _MOST_STEPS)
        return
    if experiments := {*assets} & {*EXPERIMENTS}:
        found = [(key, None) for key in stale_experiments(workspace, experiments)]
        yield plan(_requested(found, "its findings are missing or stale").values(), instance)
    if outcome.materialised:
        report_unchanged(workspace, instance, stale)
    outcome.left_to_daemon = len(unfinished_runs(instance))
    if not outcome.materialised and not outcome.failures:
        last = max((ORDER.index(asset) for asset in assets if asset in ORDER), default=0)
        earlier = {*ORDER[:last]} - {*assets}
        outcome.unselected = [one.asset for one in stale.values() if wants(one, earlier)]


def _requested(keys: Iterable[Partition], why: str) -> dict[Partition, StalePartition]:
    return {key: StalePartition(*key, "", reason=why) for key in keys}


def _selected_assets(defs: dg.Definitions, selection: str | None) -> set[str]:
    if selection is None:
        return {*ORDER} - {*EXPERIMENTS}
    try:
        with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
            chosen = dg.AssetSelection.from_string(selection)
    except dg.DagsterError as error:
        raise InputError(f"--select {selection} is not in Dagster's syntax; write, for example, key:panel") from error
    found = {key.to_user_string() for key in chosen.resolve(defs.resolve_asset_graph())}
    if not found:
        raise InputError(f"--select {selection} names no asset; write, for example, key:panel or group:fit")
    return found


@contextmanager
def _interruptible() -> Generator[Callable[[], None]]:
    """Delay ``KeyboardInterrupt`` after a signal until the yielded function is called or the block fails.

    Dagster may treat the signal as a failed step, and DuckDB as an error of a query.
    """
    signals, written = socketpair()
    with signals, written:
        signals.setblocking(False)
        written.setblocking(False)
        before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)

        def raise_if_interrupted() -> None:
            with suppress(BlockingIOError):
                if {signal.SIGINT, signal.SIGTERM}.intersection(signals.recv(4096)):
                    raise KeyboardInterrupt

        try:
            yield raise_if_interrupted
        except BaseException:
            raise_if_interrupted()
            raise
        finally:
            signal.set_wakeup_fd(before)


class _Executor:
    """Executor of Dagster runs, in this process or, after pickling, in a worker process."""

    def __init__(self, defs: dg.Definitions, workspace: Workspace, instance: dg.DagsterInstance) -> None:
        self._job, self._workspace, self._instance = defs.resolve_job_def(IMPLICIT_ASSET_JOB), workspace, instance

    def __reduce__(self) -> tuple[Callable[..., _Executor], tuple[Workspace]]:
        return _executor_of_worker, (replace(self._workspace, dask=DaskConfig(workers=0)),)

    def __call__(self, request: dg.RunRequest) -> tuple[list[Partition], dict[Partition, str]]:
        """Execute a run, and return the materialised partitions and the failures."""
        assets, planned = _assets(request), planned_by(request, self._instance)
        result = self._job.execute_in_process(
            instance=self._instance,
            asset_selection=[dg.AssetKey(asset) for asset in assets],
            tags={**request.tags, LAUNCHED_BY: CARE_RUN},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )
        materialised = [one for one in materialisations(self._instance, result.run_id) if one in planned]
        failures: dict[Partition, str] = {}
        if not result.success:
            unreported = unreported_by(result.run_id, materialised, self._instance)
            materialised = [one for one in materialised if one not in unreported]
        for event in result.all_events:
            if event.is_step_failure and event.step_key is not None and not is_blocked(event.step_failure_data):
                message, reasons = failure_message(event), reasons_of(event.step_failure_data)
                failed = event.step_key if event.step_key in assets else assets[0]  # an experiment's step
                for asset, partition in sorted(planned.difference(materialised), key=str):
                    if asset == failed:
                        failures[asset, partition] = reasons.get(partition or asset, message)
        return materialised, failures

    def run(self, requests: Sequence[dg.RunRequest], outcome: Outcome) -> Iterator[str]:
        """Execute runs: yield the label of each run, then add the run's result to the outcome.

        Local workers execute the runs of test sets if this saves time. With a remote store, this process executes all
        runs, because it holds the store's lease.
        """
        workers = self._workspace.workers
        may_spread = workers.are_local and self._workspace.store is None
        for is_of_testset, group in groupby(requests, lambda request: _assets(request)[0] in _OF_TESTSETS):
            together = [*group]
            calls = [partial(self, request) for request in together]  # Dask would iterate over a request
            later = _FIT_S * len(calls) if _assets(together[0]) == ["scores"] else 0.0
            spread = is_of_testset and may_spread
            results = workers.map(call, calls, later=later) if spread else map(call, calls)
            for request in together:
                assets, partitions = " > ".join(_assets(request)), {p for _, p in planned_by(request, self._instance)}
                single = " ".join(filter(None, [assets, *partitions]))
                label = f"{assets} x {len(partitions)}" if len(partitions) > 1 else single
                _logger.info("Running %s.", label)
                yield label
                materialised, failures = next(results)
                for (asset, partition), why in failures.items():
                    _logger.info("%s %s failed: %s", asset, partition or "", why)
                outcome.materialised += materialised
                outcome.failures = {k: why for k, why in (outcome.failures | failures).items() if k not in materialised}


def _assets(request: dg.RunRequest) -> list[str]:
    return [key.to_user_string() for key in request.asset_selection or ()]


_of_worker: dict[Path, _Executor] = {}
_until_worker_ends = ExitStack()
"""Executors of a worker process by workspace, and the Dagster instances that stay open until the process ends."""


def _executor_of_worker(workspace: Workspace) -> _Executor:
    if workspace.root not in _of_worker:
        workspace.workers.place = f"Dask ({LOCAL})"
        instance = _until_worker_ends.enter_context(workspace_instance(workspace))
        _of_worker[workspace.root] = _Executor(build_defs(workspace.root, workspace), workspace, instance)
    return _of_worker[workspace.root]
