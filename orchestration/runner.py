"""``care run``: ask the conditions what is stale and materialise it, until nothing is.

The workspace's own definitions run in this process on its own Dagster instance, so the UI shows every
run; what is stale is decided by the conditions that the daemon uses.

Belongs here: the loop. Does not: the rule (``conditions``), the grouping into runs (``launches``), the
instance (``instance``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.experiments.registry import outdated
from assets.partitions import JUDGES, SLICES, TESTSETS, slice_key
from assets.publication.editions import held_back
from assets.state.rebuild import rebuild_warehouse
from assets.state.reconcile import FIT, RESULTS, missing
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

_MOST_STEPS = 40
Requests = dict[str, set[str | None]]
"""Partitions that are asked for, by asset."""

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
        run = _Run(defs, workspace, instance, _wanted(defs, selection, testset, judge))
        report(observe(workspace, instance), instance)
        run.requested = _failed(workspace, instance)
        if again is not None:
            run.requested.setdefault(again[0], set()).add(again[1])
        outcome = Outcome()
        if (workspace.parts.testsets() or not run.is_first) and not workspace.warehouse.usable():
            broken = rebuild_warehouse(workspace)
            outcome.failures.update({("judge_inference", judge): why for judge, why in broken.items()})
        for _ in range(_MOST_STEPS):
            launches = run.next()
            for number, launch in enumerate(launches):
                if progress is not None:
                    progress(launch, number, len(launches))
                _execute(defs, instance, launch, outcome)
            run.done(launches)
            if not launches:
                break
        outcome.left_to_daemon = under_way(instance)
        return outcome


class _Run:
    """One ``care run``: what is to be done next, asked of one source of work after the other.

    The conditions act on changes. What got lost on the way is seen from the state alone, once the conditions ask for
    nothing; and so is what the pages must say once everything else has run.
    """

    def __init__(
        self, defs: dg.Definitions, workspace: Workspace, instance: dg.DagsterInstance, wanted: Wanted
    ) -> None:
        self._defs, self._workspace, self._instance, self._wanted = defs, workspace, instance, wanted
        self._cursor = Cursor(workspace)
        self._state = self._cursor.load()
        self.is_first = self._state is None
        if self.is_first:
            # The baseline: a first night that is killed must not take what changes meanwhile for the start.
            self._advance(dg.evaluate_automation_conditions(defs, instance).cursor)
        self._reported: Any = None
        self._tried: set[tuple[str, str | None]] = set()
        self._asked_once: set[str] = set()
        self._later: Requests = {}
        self.requested: Requests = {}

    def next(self) -> list[Launch]:
        """The runs of the next step; none where nothing is left to do."""
        now, self._later = _scores_first(self._chosen(self._stale))
        launches = plan(now, self._instance)
        if not launches:
            launches, self._later = plan(self._later, self._instance), {}
        for source in (self._unscored, self._missing, self._experiments):
            launches = launches or plan(self._chosen(source), self._instance)
        return launches

    def done(self, launches: Sequence[Launch]) -> None:
        """What was launched has ended, well or not.

        Only now is the cursor moved: a run that is killed before sees the same changes again. A narrowed run leaves
        the cursor alone, since what it does not materialise stays requested.
        """
        for launch in launches:
            if launch.assets != _INDEX:
                self._tried.discard((*_INDEX, None))
            self._tried.update((asset, partition) for asset in launch.assets for partition in launch.partitions)
        self.requested = self._later
        if not self._wanted.narrowed:
            self._advance(self._reported)

    def _advance(self, cursor: Any) -> None:
        self._state = cursor
        self._cursor.save(cursor)

    def _chosen(self, source: Callable[[], Requests]) -> Requests:
        """What a source asks for, of what is wanted. Only the conditions may ask again for what was tried."""
        again = source == self._stale and not self._wanted.narrowed
        return {
            asset: {p for p in partitions if self._wanted.has(asset, p) and (again or (asset, p) not in self._tried)}
            for asset, partitions in source().items()
        }

    def _stale(self) -> Requests:
        """What the conditions ask for; at first also what failed last time or was asked for by name."""
        with partitions_read_once(self._instance):
            result = dg.evaluate_automation_conditions(self._defs, self._instance, cursor=self._state)
        self._reported = result.cursor
        for asset in ORDER:
            self.requested.setdefault(asset, set()).update(result.get_requested_partitions(dg.AssetKey(asset)))
        return self.requested

    def _unscored(self) -> Requests:
        """Judges of the one wanted test set without a slice: they wait for the items of every test set otherwise."""
        testset = self._wanted.testset
        if testset is None or not self._once("unscored"):
            return {}
        made = partition_statuses(self._instance, "scores", SLICES)
        judges = self._workspace.judges_of(testset)
        return {"judge_inference": {j for j in judges if made.get(str(slice_key(j, testset))) != "MATERIALIZED"}}

    def _missing(self) -> Requests:
        """What the workspace lacks, whatever happened before."""
        return missing(self._workspace) if self._workspace.warehouse.usable() else {}

    def _experiments(self) -> Requests:
        """Minutes of work that no night needs: only where they are asked for by name."""
        names = self._wanted.assets & set(EXPERIMENTS) if self._wanted.by_name else set[str]()
        if not names or not self._once("experiments"):
            return {}
        return {key: {None} for key in outdated(self._workspace, names)}

    def _once(self, source: str) -> bool:
        first = source not in self._asked_once
        self._asked_once.add(source)
        return first


def _scores_first(requested: Mapping[str, set[str | None]]) -> tuple[Requests, Requests]:
    """What runs now, and what waits for the next tick: a fit, and all that is said of it, whose items or scores change.

    Both are asked for at once where an earlier night ended between scores and fit, and items have changed since. A
    panel made at once would lack the scores of the new items.
    """
    judging = bool(requested.get("judge_inference"))
    changing = {
        *requested.get("items", ()),
        *(split_partition("scores", str(p))[1] for p in requested.get("scores", ())),
    }
    now: Requests = {}
    later: Requests = {}
    for asset, partitions in requested.items():
        waiting = (
            {p for p in partitions if judging or p in changing} if asset in (*FIT, *RESULTS) else set[str | None]()
        )
        now[asset], later[asset] = partitions - waiting, waiting
    return now, later


@dataclass(frozen=True)
class Wanted:
    """What a ``care run`` was narrowed to.

    Attributes
    ----------
    assets : set of str
    testset, judge : str, optional
    by_name : bool
        Whether a person selected the assets.
    """

    assets: set[str]
    testset: str | None
    judge: str | None
    by_name: bool

    @property
    def narrowed(self) -> bool:
        """Whether anything is left out."""
        return self.by_name or self.testset is not None or self.judge is not None

    def has(self, asset: str, partition: str | None) -> bool:
        """Whether this partition of this asset is to be run."""
        if asset not in self.assets:
            return False
        if partition is None:
            return True
        judge, testset = split_partition(asset, partition)
        judge_fits = self.judge is None or judge is None or judge == self.judge
        return judge_fits and (self.testset is None or testset is None or testset == self.testset)


def _wanted(defs: dg.Definitions, selection: str | None, testset: str | None, judge: str | None) -> Wanted:
    chosen = dg.AssetSelection.from_string(selection) if selection else dg.AssetSelection.all()
    assets = {key.to_user_string() for key in chosen.resolve(defs.resolve_asset_graph())}
    return Wanted(assets, testset, judge, selection is not None)


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


def _failed(workspace: Workspace, instance: dg.DagsterInstance) -> Requests:
    """Partitions whose last run failed: a person who runs again wants them tried again, but for what is held back."""
    failed: Requests = {}
    for asset, definition in (
        ("judge_inference", JUDGES),
        ("scores", SLICES),
        *((a, TESTSETS) for a in ORDER if a not in ("judge_inference", "scores", "report_index")),
    ):
        statuses = partition_statuses(instance, asset, definition)
        failed[asset] = {p for p, status in statuses.items() if status == "FAILED"}
    failed["report"] -= {testset for testset in workspace.testsets if held_back(workspace, testset) is not None}
    return failed
