"""Runner of ``care run``, which materialises stale partitions until no partition is stale.

Runs are recorded in the workspace's own Dagster instance, so the UI shows them. The module ``plan`` decides which
partitions are ready, for ``care run`` and for the daemon.
"""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

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
    workspace_instance,
)
from orchestration.plan import (
    CARE_RUN,
    INDEX,
    LAUNCHED_BY,
    ORDER,
    Launch,
    Tried,
    find_stale,
    plan,
    ready,
    split_partition,
)

_MOST_STEPS = 40
"""Largest number of steps of a ``care run``; it needs about five, and more would request the same work repeatedly."""

_INDEPENDENT = (*EXPERIMENTS, INDEX[0])
"""Assets that are not materialised again because a run was killed."""

Progress = Callable[[Launch, int, int], None]

_logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """Outcome of a ``care run``.

    Attributes
    ----------
    materialised : list of (asset, partition)
        Materialised partitions in the order of their runs.
    left_to_daemon : int
        Number of unfinished runs of Dagster's daemon or UI.
    failures : dict (asset, partition) -> message
        Failures without a later success.
    unselected : list of str
        Stale assets that the selection omits although they precede selected assets; empty if anything was run.
    known : dict test set -> State
        State of the test sets at the end.
    """

    materialised: list[Partition] = field(default_factory=list[Partition])
    left_to_daemon: int = 0
    failures: dict[Partition, str] = field(default_factory=dict[Partition, str])
    unselected: list[str] = field(default_factory=list[str])
    known: Mapping[str, State] = field(default_factory=dict[str, "State"])


def run_stale(
    defs: dg.Definitions,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    *,
    selection: str | None = None,
    testset: str | None = None,
    judge: str | None = None,
    progress: Progress | None = None,
    again: Partition | None = None,
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
        Called before each run with the launch, its number, and the number of launches in this step.
    again : (asset, partition), optional
        Partition to materialise first, even if it is not stale.

    Raises
    ------
    InputError
        The selection is not in Dagster's syntax, or selects nothing.
    KeyboardInterrupt
        A signal has ended the run.
    """
    scope, outcome = Scope(_selected_assets(defs, selection), testset, judge), Outcome()
    with _interruptible() as raise_if_interrupted, closing(workspace.workers):
        unreported = end_abandoned_runs(workspace, instance)
        sweep(workspace)
        finish_forgetting(workspace)
        recover(workspace)
        verify_some(workspace)
        follow_partitions(workspace, instance)
        unreadable = rebuild_warehouse(workspace) if needs_rebuild(workspace) else {}
        outcome.failures.update({("judge_inference", name): why for name, why in unreadable.items()})
        executor = _Executor(defs, workspace, instance)
        for launches in _steps(workspace, instance, scope, unreported, outcome, again):
            for number, launch in enumerate(_executing(executor, workspace, launches, outcome)):
                raise_if_interrupted()
                if progress is not None:
                    progress(launch, number, len(launches))
            raise_if_interrupted()
    return outcome


def run_launches(
    defs: dg.Definitions, workspace: Workspace, instance: dg.DagsterInstance, launches: Sequence[Launch]
) -> Outcome:
    """Run the ``launches`` in order until the first failure; the caller must hold the workspace's lock."""
    outcome = Outcome()
    end_abandoned_runs(workspace, instance)
    follow_partitions(workspace, instance)
    for _ in _executing(_Executor(defs, workspace, instance), workspace, launches, outcome):
        if outcome.failures:
            break
    return outcome


@dataclass(frozen=True)
class Scope:
    """Assets and partitions that a ``care run`` covers."""

    assets: set[str]
    testset: str | None
    judge: str | None

    def wants(self, one: StalePartition) -> bool:
        """Return whether a stale partition is in scope."""
        if one.asset not in self.assets or one.partition is None:
            return one.asset in self.assets
        judge, testset = split_partition(one.asset, one.partition)
        is_of_judge = self.judge is None or judge is None or judge == self.judge
        return is_of_judge and (self.testset is None or self.testset in (testset, *one.testsets))


def _steps(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    scope: Scope,
    unreported: Set[Partition],
    outcome: Outcome,
    again: Partition | None,
) -> Iterator[list[Launch]]:
    """Yield the runs of each step until no partition is stale or all were tried once; complete the outcome.

    Partitions that a killed run may have written without an event in Dagster (``unreported``) are materialised again.
    """
    if again is not None:
        yield plan([again], instance)
    tried, why = Tried(most=1), "the run that was to materialise it was killed"
    left = {key: StalePartition(*key, "", reason=why) for key in unreported if key[0] not in _INDEPENDENT}
    experiments = scope.assets & {*EXPERIMENTS}
    for _ in range(_MOST_STEPS):
        outcome.known = states(workspace)
        stale = left | find_stale(workspace, outcome.known, canaries=True)
        wanted, busy = {key: one for key, one in stale.items() if scope.wants(one)}, partitions_under_way(instance)
        tried.look(wanted, busy)
        asked = ready(workspace, wanted, tried, busy)
        for one in asked:
            _logger.info("%s %s is to be materialised: %s", one.asset, one.partition or "", one.why)
        tried.note(asked)
        left = {key: one for key, one in left.items() if one not in asked}
        launches = plan([one.key for one in asked], instance, stale=stale)
        if not launches and not experiments:
            break
        if not launches:
            launches = plan([(key, None) for key in stale_experiments(workspace, experiments)], instance)
            experiments = set[str]()
        yield launches
    else:
        _logger.warning("Some assets are still stale after %d steps; run `care run` again to continue.", _MOST_STEPS)
        return
    if outcome.materialised:
        report_unchanged(workspace, instance, stale)
    outcome.left_to_daemon = len(unfinished_runs(instance))
    if not outcome.materialised and not outcome.failures:
        last = max((ORDER.index(asset) for asset in scope.assets if asset in ORDER), default=0)
        earlier = {*ORDER[:last]} - scope.assets
        outcome.unselected = [one.asset for one in stale.values() if replace(scope, assets=earlier).wants(one)]


def _selected_assets(defs: dg.Definitions, selection: str | None) -> set[str]:
    if selection is None:
        return {*ORDER} - {*EXPERIMENTS}
    try:
        with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
            chosen = dg.AssetSelection.from_string(selection)
    except dg.DagsterError as error:
        raise InputError(f"--select {selection}: not in Dagster's syntax; write key:panel or group:fit") from error
    found = {key.to_user_string() for key in chosen.resolve(defs.resolve_asset_graph())}
    if not found:
        raise InputError(f"--select {selection}: names no asset; write, for example, key:panel or group:fit")
    return found


@contextmanager
def _interruptible() -> Generator[Callable[[], None]]:
    """Raise ``KeyboardInterrupt`` after a signal, when the yielded function is called or the block fails.

    Dagster may treat the signal as a failed step, and DuckDB as an error of a query.
    """
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def raise_if_interrupted() -> None:
        with suppress(BlockingIOError):
            if {signal.SIGINT, signal.SIGTERM}.intersection(os.read(read, 4096)):
                raise KeyboardInterrupt

    try:
        yield raise_if_interrupted
    except BaseException:
        raise_if_interrupted()
        raise
    finally:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


class _Executor:
    """Executor of launches in this process, or in the worker process to which it is sent."""

    def __init__(self, defs: dg.Definitions, workspace: Workspace, instance: dg.DagsterInstance) -> None:
        self._job, self._workspace, self._instance = defs.resolve_job_def(IMPLICIT_ASSET_JOB), workspace, instance

    def __reduce__(self) -> tuple[Callable[..., _Executor], tuple[Workspace]]:
        return _executor_of_worker, (replace(self._workspace, dask=DaskConfig(workers=0)),)

    def __call__(self, launch: Launch) -> tuple[list[Partition], dict[Partition, str]]:
        _logger.info("Running %s.", launch.label)
        result = self._job.execute_in_process(
            instance=self._instance,
            asset_selection=[dg.AssetKey(asset) for asset in launch.assets],
            partition_key=None if launch.is_range else launch.partitions[0],
            tags={**launch.tags, LAUNCHED_BY: CARE_RUN},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )
        materialised = [one for one in materialisations(self._instance, result.run_id) if one[0] in launch.assets]
        failures: dict[Partition, str] = {}
        for event in result.all_events:
            if event.is_step_failure and event.step_key is not None and not is_blocked(event.step_failure_data):
                message, reasons = failure_message(event), reasons_of(event.step_failure_data)
                asset = event.step_key if event.step_key in launch.assets else launch.assets[0]  # an experiment's step
                for partition in launch.partitions:
                    if (asset, partition) not in materialised:
                        why = reasons.get(partition or asset, message)
                        failures[asset, partition] = why
                        _logger.info("%s %s failed: %s", asset, partition or "", why)
        return materialised, failures


_of_worker: dict[Path, _Executor] = {}
_until_worker_ends = ExitStack()
"""Executors of a worker process by workspace, and the Dagster instances that stay open until the process ends."""


def _executor_of_worker(workspace: Workspace) -> _Executor:
    if workspace.root not in _of_worker:
        workspace.workers.place = f"Dask ({LOCAL})"
        instance = _until_worker_ends.enter_context(workspace_instance(workspace))
        _of_worker[workspace.root] = _Executor(build_defs(workspace.root, workspace), workspace, instance)
    return _of_worker[workspace.root]


def _executing(
    executor: _Executor, workspace: Workspace, launches: Sequence[Launch], outcome: Outcome
) -> Generator[Launch]:
    """Yield each launch, then add its result to the outcome; fits use local workers if that saves time.

    If the workspace has a store, this process holds the store's lease and does all the work.
    """
    may_spread = workspace.workers.are_local and workspace.store is None
    for are_fits, group in groupby(launches, lambda launch: launch.assets[0] in FIT):
        together = [*group]
        results = iter((workspace.workers.map if are_fits and may_spread else map)(executor, together))
        for launch in together:
            yield launch
            materialised, failures = next(results)
            outcome.materialised += materialised
            outcome.failures = {k: why for k, why in (outcome.failures | failures).items() if k not in materialised}
