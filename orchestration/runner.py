"""``care run``: ask what is outdated, plan it and make it, until nothing is.

The workspace's own definitions run in this process on its own Dagster instance, so the UI shows every run. What is
outdated and what waits is decided as for the daemon (``plan``).
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.experiments.registry import outdated as outdated_experiments
from assets.fit.documents import FitDocument
from assets.judging.journal import recover
from assets.metadata import reasons_of
from assets.report.outdated import Outdated, Partition, State, states
from assets.state.rebuild import is_outdated, rebuild_warehouse
from assets.state.repair import verify_some
from assets.state.retention import finish_forgetting, sweep
from assets.workspace import Workspace
from orchestration.alerts import failure_message
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB, materialisations, selected_assets
from orchestration.instance import end_abandoned_runs, follow_partitions, tell_unchanged, under_way
from orchestration.launches import CARE_RUN, LAUNCHED_BY, NO_RETRY, ORDER, Launch, plan, requests, split_partition
from orchestration.plan import (
    INDEX,
    Tried,
    all_outdated,
    due_canaries,
    partitions_under_way,
    ready,
)

_MOST_STEPS = 40
"""A night has about five steps. One that comes to this many asks for the same work again and again, and is ended."""

_LAST = (*EXPERIMENTS, INDEX[0])
"""What waits for no stage of a fit."""

Progress = Callable[[Launch, int, int], None]

_logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """What a ``care run`` did.

    Attributes
    ----------
    materialised : list of (asset, partition)
    left_to_daemon : int
        Runs and backfills of Dagster's daemon or UI that were queued, or waited for the workspace, at the end.
    failures : dict (asset, partition) -> message
        What failed and was not mended by a later run.
    outdated : set of str
        Test sets whose fit is not of the scores, settings and code that are there at the end, and whose fit was asked
        for and did not fail.
    waits_for : str or None
        Where nothing was made: the first stage that what was selected waits for, and that the selection leaves out.
    known : dict test set -> State
        How the test sets were found at the end.
    """

    materialised: list[Partition] = field(default_factory=list[Partition])
    left_to_daemon: int = 0
    failures: dict[Partition, str] = field(default_factory=dict[Partition, str])
    outdated: set[str] = field(default_factory=set[str])
    waits_for: str | None = None
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
    """Materialise all that is outdated, stage by stage; the caller holds the workspace alone (``locks.alone``).

    Parameters
    ----------
    selection : str, optional
        Dagster's asset selection syntax; only these assets.
    testset, judge : str, optional
        Only partitions of this test set or judge.
    progress : callable, optional
        Called before each run: with the launch, its number, and how many launches this step has.
    again : (asset, partition), optional
        Materialised first, stale or not.

    Raises
    ------
    KeyboardInterrupt
        A signal has ended it.
    """
    scope = Scope(selected_assets(defs, selection), testset, judge, by_name=selection is not None)
    with _interruptible() as must_go_on:
        untold = end_abandoned_runs(workspace, instance)  # what killed processes left behind
        sweep(workspace)
        finish_forgetting(workspace)
        recover(workspace)
        verify_some(workspace)
        run = _Run(workspace, instance, scope, untold)
        follow_partitions(workspace, instance)
        outcome = Outcome()
        unreadable = rebuild_warehouse(workspace) if is_outdated(workspace) else {}
        outcome.failures.update({("judge_inference", name): why for name, why in unreadable.items()})
        launches = plan(requests([again] if again is not None else []), instance) or run.next()
        for _ in range(_MOST_STEPS):
            if not launches:
                break
            for number, launch in enumerate(launches):
                if progress is not None:
                    progress(launch, number, len(launches))
                _execute(defs, instance, launch, outcome)
                must_go_on()
            launches = run.next()
        else:
            _logger.warning("After %d steps there is still work; the next `care run` goes on with it.", _MOST_STEPS)
        if outcome.materialised:
            tell_unchanged(workspace, instance, run.every)
        outcome.left_to_daemon = under_way(instance)
        outcome.outdated, outcome.known = run.behind(outcome), run.known
        if scope.by_name and not outcome.materialised and not outcome.failures:
            outcome.waits_for = run.waits_for()
        return outcome


def run_launches(
    defs: dg.Definitions, workspace: Workspace, instance: dg.DagsterInstance, launches: Sequence[Launch]
) -> Outcome:
    """Run what a person asked for by name, one launch after the other, up to the first that fails.

    The caller holds the workspace alone (``locks.alone``).
    """
    outcome = Outcome()
    end_abandoned_runs(workspace, instance)
    follow_partitions(workspace, instance)
    for launch in launches:
        _execute(defs, instance, launch, outcome)
        if outcome.failures:
            break
    return outcome


class _Run:
    """One ``care run``: asks what is outdated, until nothing is or all that is was tried once.

    What a killed run may have made and told Dagster nothing of (``untold``) is made again, so that its UI shows it.
    """

    def __init__(
        self, workspace: Workspace, instance: dg.DagsterInstance, scope: Scope, untold: Iterable[Partition]
    ) -> None:
        self._workspace, self._instance, self._scope = workspace, instance, scope
        self._tried = Tried(most=1)
        says = "the run that was to make it was killed"
        self._untold = [Outdated(*key, "", says=says) for key in untold if key[0] not in _LAST]
        self._stale: dict[Partition, Outdated] = {}
        self.every: dict[Partition, Outdated] = {}
        self.known: dict[str, State] = {}
        self._experiments = scope.assets & set(EXPERIMENTS) if scope.by_name else set[str]()

    def next(self) -> list[Launch]:
        """The runs of the next step; none where nothing is left to do."""
        self.known = states(self._workspace)
        self.every = {one.key: one for one in self._untold} | all_outdated(self._workspace, self.known)
        self.every |= due_canaries(self._workspace, self.every)
        self._stale = {key: one for key, one in self.every.items() if self._scope.wants(one)}
        busy = partitions_under_way(self._instance)
        self._tried.look(self._stale, busy)
        asked = ready(self._workspace, self._stale, self._tried, busy)
        for one in asked:
            _logger.info("%s %s is to be materialised: %s", one.asset, one.partition or "", one.why)
        self._tried.note(asked)
        self._untold = [one for one in self._untold if one not in asked]
        launches = plan(requests(one.key for one in asked), self._instance)
        if launches or not self._experiments:
            return launches
        selected, self._experiments = self._experiments, set[str]()
        return plan({key: {None} for key in outdated_experiments(self._workspace, selected)}, self._instance)

    def behind(self, outcome: Outcome) -> set[str]:
        """Test sets in scope whose fit is still outdated at the end, and of which nothing failed.

        What a run of Dagster may be about to make is left to it.
        """
        if outcome.left_to_daemon:
            return set()
        failed = {split_partition(asset, str(partition))[1] for asset, partition in outcome.failures}
        return {str(partition) for asset, partition in self._stale if asset == "aggregates"} - failed

    def waits_for(self) -> str | None:
        """The first stage that is left out, of a test set without a fit, before the last stage that was selected."""
        last = max((ORDER.index(asset) for asset in self._scope.assets if asset not in _LAST), default=0)
        every = all_outdated(self._workspace)
        for asset in ORDER[:last]:
            for one in every.values():
                testset = split_partition(one.asset, str(one.partition))[1]
                is_unfitted = any(
                    self._workspace.fit_folder(each).find(FitDocument) is None
                    for each in (one.testsets or [testset or ""])
                    if self._scope.testset in (None, each)
                )
                if one.asset == asset and asset not in self._scope.assets and is_unfitted:
                    return asset
        return None


@dataclass(frozen=True)
class Scope:
    """What a ``care run`` is narrowed to; ``by_name`` where a person selected the assets."""

    assets: set[str]
    testset: str | None
    judge: str | None
    by_name: bool

    def wants(self, one: Outdated) -> bool:
        """Whether this is to be made."""
        if one.asset not in self.assets or one.partition is None:
            return one.asset in self.assets
        judge, testset = split_partition(one.asset, one.partition)
        judge_fits = self.judge is None or judge is None or judge == self.judge
        return judge_fits and (self.testset is None or self.testset in (testset, *one.testsets))


@contextmanager
def _interruptible() -> Generator[Callable[[], None]]:
    """Where a signal has come, raise ``KeyboardInterrupt`` at the end, or by what is yielded.

    Whoever was at work may have taken it for something else: Dagster for a failed step, DuckDB for an error of a query.
    """
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def must_go_on() -> None:
        with suppress(BlockingIOError):
            if {signal.SIGINT, signal.SIGTERM}.intersection(os.read(read, 4096)):
                raise KeyboardInterrupt

    try:
        yield must_go_on
    except BaseException:
        must_go_on()
        raise
    finally:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


def _execute(defs: dg.Definitions, instance: dg.DagsterInstance, launch: Launch, outcome: Outcome) -> None:
    """Run one launch in this process and add what came of it to the outcome."""
    _logger.info("Running %s.", launch.label)
    result = defs.resolve_job_def(IMPLICIT_ASSET_JOB).execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(asset) for asset in launch.assets],
        partition_key=None if launch.tags else launch.partitions[0],
        tags={**launch.tags, LAUNCHED_BY: CARE_RUN, **NO_RETRY},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    )
    for asset, partition in materialisations(instance, result.run_id):
        if asset in launch.assets:
            outcome.materialised.append((asset, partition))
            outcome.failures.pop((asset, partition), None)
    materialised = set(outcome.materialised)
    for event in result.all_events:
        if event.is_step_failure and event.step_key is not None:
            message, reasons = failure_message(event), reasons_of(event.step_failure_data)
            asset = event.step_key if event.step_key in launch.assets else launch.assets[0]  # an experiment's step
            for partition in launch.partitions:
                if (asset, partition) not in materialised:
                    why = reasons.get(partition or asset, message)
                    outcome.failures[asset, partition] = why
                    _logger.info("%s %s failed: %s", asset, partition or "", why)
