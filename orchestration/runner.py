"""``care run``: ask the conditions what is stale and materialise it, until nothing is.

The workspace's own definitions run in this process on its own Dagster instance, so the UI shows every
run; what is stale is decided by the conditions that the daemon uses.

Belongs here: the loop. Does not: the rule (``conditions``), the grouping into runs (``launches``), the
instance (``instance``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.experiments.registry import outdated
from assets.partitions import JUDGES, SLICES, TESTSETS, slice_key
from assets.publication.editions import held_back
from assets.state.rebuild import rebuild_warehouse
from assets.state.reconcile import missing
from assets.state.retention import finish_forgetting, sweep
from assets.workspace import Workspace
from orchestration.alerts import words
from orchestration.instance import (
    LAUNCHED_BY,
    dagster_home,
    end_abandoned_runs,
    engines_kept,
    partition_statuses,
    partitions_read_once,
    under_way,
)
from orchestration.launches import ORDER, Launch, plan, split_partition
from orchestration.observe import observe, report
from warehouse.storage import DamagedError, read_document, write_document

_MOST_TICKS = 40
_INDEX = ("report_index",)


@dataclass
class Outcome:
    """What a ``care run`` did.

    Attributes
    ----------
    materialised : list of (asset, partition)
    failures : dict (asset, partition) -> message
        What failed and was not healed by a later run.
    left_to_daemon : int
        Runs and backfills of Dagster's daemon or UI that were queued, or waited for the workspace, at the end.
    """

    materialised: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, "str | None"]])
    left_to_daemon: int = 0
    failures: dict[tuple[str, str | None], str] = field(default_factory=dict[tuple[str, "str | None"], str])


Progress = Callable[[Launch, int, int], None]


def run_stale(
    defs: dg.Definitions,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    *,
    selection: str | None = None,
    testset: str | None = None,
    judge: str | None = None,
    progress: Progress | None = None,
    again: tuple[str, str | None] | None = None,
) -> Outcome:
    """Materialise all that is stale, stage by stage; the caller holds the workspace alone (``locks.alone``).

    Parameters
    ----------
    selection : str, optional
        Dagster's asset selection syntax; only these assets.
    testset, judge : str, optional
        Only partitions of this test set or judge.
    progress : callable, optional
        Told of each run before it starts: the launch, its number, how many this tick has.
    again : (asset, partition), optional
        Materialised first, stale or not.
    """
    with engines_kept():
        end_abandoned_runs(workspace, instance)
        sweep(workspace)
        finish_forgetting(workspace)
        outcome = _run_stale(defs, workspace, instance, selection, testset, judge, progress, again)
        outcome.left_to_daemon = under_way(instance)
        return outcome


def _run_stale(
    defs: dg.Definitions,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    selection: str | None,
    testset: str | None,
    judge: str | None,
    progress: Progress | None,
    again: tuple[str, str | None] | None,
) -> Outcome:
    cursor = Cursor(workspace)
    state = cursor.load()
    first = state is None
    if first:
        # The baseline: a first night that is killed must not take what changes meanwhile for the start.
        state = dg.evaluate_automation_conditions(defs, instance).cursor
        cursor.save(state)
    report(observe(workspace, instance), instance)
    chosen = dg.AssetSelection.from_string(selection) if selection else dg.AssetSelection.all()
    wanted = Wanted({key.to_user_string() for key in chosen.resolve(defs.resolve_asset_graph())}, testset, judge)
    narrowed = selection is not None or testset is not None or judge is not None
    outcome, tried = Outcome(), set[tuple[str, str | None]]()
    requested = _failed(instance)
    requested["report"] -= {t for t in workspace.testsets if held_back(workspace, t) is not None}
    if again is not None:
        requested.setdefault(again[0], set()).add(again[1])
    if (not first or workspace.parts.testsets()) and not workspace.warehouse.usable():
        broken = rebuild_warehouse(workspace)
        outcome.failures.update({("judge_inference", judge): why for judge, why in broken.items()})
    asked = experimented = False
    for _ in range(_MOST_TICKS):
        with partitions_read_once(instance):
            result = dg.evaluate_automation_conditions(defs, instance, cursor=state)
        for asset in ORDER:
            requested.setdefault(asset, set()).update(result.get_requested_partitions(dg.AssetKey(asset)))
        # A narrowed run leaves the cursor alone: what it does not materialise stays requested.
        fresh = {
            a: {p for p in ps if wanted.has(a, p) and not (narrowed and (a, p) in tried)} for a, ps in requested.items()
        }
        launches = plan(fresh, instance)
        if not launches and testset is not None and not asked:
            # Judges wait for the items of every test set; a run narrowed to one does not make the others'.
            asked = True
            requested = {"judge_inference": _unscored(workspace, instance, testset)}
            fresh = {a: {p for p in ps if wanted.has(a, p) and (a, p) not in tried} for a, ps in requested.items()}
            launches = plan(fresh, instance)
        if not launches and workspace.warehouse.usable():
            # Conditions act on changes; what got lost on the way is seen from the state alone, and so is what the pages
            # must say once everything else has run.
            lost = {a: {p for p in ps if wanted.has(a, p)} for a, ps in missing(workspace).items()}
            launches = plan({a: {p for p in ps if (a, p) not in tried} for a, ps in lost.items()}, instance)
        if not launches and selection is not None and not experimented and wanted.assets & set(EXPERIMENTS):
            # Minutes of work that no night needs: only where they are asked for by name.
            experimented = True
            launches = plan({key: {None} for key in outdated(workspace, wanted.assets)}, instance)
        if not launches:
            if not narrowed:
                cursor.save(result.cursor)
            break
        for number, launch in enumerate(launches):
            if progress is not None:
                progress(launch, number, len(launches))
            _execute(defs, instance, launch, outcome)
            if launch.assets != _INDEX:
                tried.discard((*_INDEX, None))
            tried.update((asset, p) for asset in launch.assets for p in launch.partitions)
        if not narrowed:
            # Only now: a run killed before this line sees the same changes again.
            state = result.cursor
            cursor.save(state)
        requested = {}
    return outcome


def _unscored(workspace: Workspace, instance: dg.DagsterInstance, testset: str) -> set[str | None]:
    """Judges of a test set that have no slice on it yet."""
    made = partition_statuses(instance, "scores", SLICES)
    return {j for j in workspace.judges_of(testset) if made.get(str(slice_key(j, testset))) != "MATERIALIZED"}


@dataclass(frozen=True)
class Wanted:
    """What a ``care run`` was narrowed to."""

    assets: set[str]
    testset: str | None
    judge: str | None

    def has(self, asset: str, partition: str | None) -> bool:
        """Whether this partition of this asset is to be run."""
        if asset not in self.assets:
            return False
        if partition is None:
            return True
        judge, testset = split_partition(asset, partition)
        judge_fits = self.judge is None or judge is None or judge == self.judge
        return judge_fits and (self.testset is None or testset is None or testset == self.testset)


class Cursor:
    """Up to where ``care run`` has acted on the conditions; the daemon keeps its own."""

    def __init__(self, workspace: Workspace) -> None:
        self._path = dagster_home(workspace) / "care_run_cursor.json"

    def load(self) -> Any:
        """The cursor, or None before the first run; also where it is damaged, for the state tells what is stale."""
        from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
        from dagster_shared.serdes import deserialize_value
        from dagster_shared.serdes.errors import DeserializationError

        try:
            return deserialize_value(read_document(self._path)["cursor"], AssetDaemonCursor)
        except FileNotFoundError:
            return None
        except (DamagedError, KeyError, DeserializationError) as error:  # another form: an earlier release's
            logging.getLogger(__name__).warning("%s: cannot be read (%s); it is made anew", self._path, error)
            return None

    def save(self, cursor: Any) -> None:
        """Replace the cursor."""
        from dagster_shared.serdes import serialize_value

        write_document(self._path, {"cursor": serialize_value(cursor)})


def _execute(defs: dg.Definitions, instance: dg.DagsterInstance, launch: Launch, outcome: Outcome) -> None:
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(asset) for asset in launch.assets],
        partition_key=None if launch.tags else launch.partitions[0],
        tags={**launch.tags, LAUNCHED_BY: "care run"},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    )
    # From the instance: what a step logged before it failed is not among the result's own events.
    for entry in instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.dagster_event
        if event is not None and event.asset_key is not None and event.asset_key.to_user_string() in launch.assets:
            done = (event.asset_key.to_user_string(), event.partition)
            outcome.materialised.append(done)
            outcome.failures.pop(done, None)
    now = set(outcome.materialised)
    for event in result.all_events:
        if event.is_step_failure and event.step_key is not None:
            held = _held_back(result, event.step_key)
            left = [(event.step_key, p) for p in launch.partitions if held or (event.step_key, p) not in now]
            outcome.failures.update(dict.fromkeys(left, held or words(event)))


def _held_back(result: dg.ExecuteInProcessResult, asset: str) -> str:
    """What the blocking checks of an asset say that failed in this run; empty where none did."""
    says = [
        f"{e.check_name}: {e.description}"
        for e in result.get_asset_check_evaluations()
        if e.asset_key.to_user_string() == asset and not e.passed and e.blocking
    ]
    return "held back, what was published before stays. " + " | ".join(says) if says else ""


def _failed(instance: dg.DagsterInstance) -> dict[str, set[str | None]]:
    """Partitions whose last run failed: a person who runs again wants them tried again."""
    failed: dict[str, set[str | None]] = {}
    for asset, definition in (
        ("judge_inference", JUDGES),
        ("scores", SLICES),
        *((a, TESTSETS) for a in ORDER if a not in ("judge_inference", "scores", "report_index")),
    ):
        statuses = partition_statuses(instance, asset, definition)
        failed[asset] = {p for p, status in statuses.items() if status == "FAILED"}
    return failed
