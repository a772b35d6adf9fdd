"""``care run``: ask the conditions what is stale and materialise it, until nothing is.

The workspace's own definitions run in this process on its own Dagster instance, so the UI shows every
run; what is stale is decided by the conditions that the daemon uses.

Belongs here: the loop, and turning requests into runs. Does not: the rule (``conditions``).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from assets.partitions import JUDGES, SLICES, TESTSETS, slice_key
from assets.rebuild import rebuild_warehouse
from assets.workspace import Workspace
from care_ops.errors import WarehouseError
from orchestration.observe import observe, report
from warehouse.parts import write_bytes

_MOST_TICKS = 40
_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"
_LAUNCHED_BY = "care/launched_by"
_DAEMON_SILENCE_S = 90.0
_ORDER = (
    "items",
    "gold",
    "judge_inference",
    "scores",
    "panel",
    "moments",
    "structure",
    "aggregates",
    "evaluation",
    "factors",
    "report",
    "report_index",
)
_BATCHED = ("judge_inference", "scores")


@dataclass(frozen=True)
class Launch:
    """One run to be started: assets that share a partition or a range of partitions."""

    assets: tuple[str, ...]
    partitions: tuple[str | None, ...]
    tags: dict[str, str]

    @property
    def label(self) -> str:
        """What a person reads."""
        first = self.partitions[0]
        where = "" if first is None else f" {first}" if len(self.partitions) == 1 else f" x {len(self.partitions)}"
        return f"{' > '.join(self.assets)}{where}"


@dataclass
class Outcome:
    """What a ``care run`` did.

    Attributes
    ----------
    materialised : list of (asset, partition)
    failures : dict (asset, partition) -> message
        What failed and was not healed by a later run.
    left_to_daemon : int
        Runs and backfills of a living daemon that were under way at the end.
    """

    materialised: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, "str | None"]])
    left_to_daemon: int = 0
    failures: dict[tuple[str, str | None], str] = field(default_factory=dict[tuple[str, "str | None"], str])


Progress = Callable[[Launch, int, int], None]


def dagster_home(workspace: Workspace) -> Path:
    """The folder of the workspace's Dagster instance, made on first use."""
    home = workspace.data / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        settings.write_text(
            "telemetry:\n  enabled: false\n"
            "nux:\n  enabled: false\n"
            "run_retries:\n  enabled: true\n  max_retries: 2\n  retry_on_asset_or_op_failure: false\n"
            "concurrency:\n  pools:\n    granularity: op\n    default_limit: 1\n"
        )
    return home


@contextmanager
def workspace_instance(workspace: Workspace) -> Generator[dg.DagsterInstance]:
    """The workspace's own Dagster instance."""
    previous = os.environ.get("DAGSTER_HOME")
    os.environ["DAGSTER_HOME"] = str(dagster_home(workspace))
    try:
        with dg.DagsterInstance.get() as instance:
            yield instance
    finally:
        if previous is None:
            os.environ.pop("DAGSTER_HOME", None)
        else:
            os.environ["DAGSTER_HOME"] = previous


def run_stale(
    defs: dg.Definitions,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    *,
    selection: str | None = None,
    testset: str | None = None,
    judge: str | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Materialise all that is stale, stage by stage.

    Parameters
    ----------
    selection : str, optional
        Dagster's asset selection syntax; only these assets.
    testset, judge : str, optional
        Only partitions of this test set or judge.
    progress : callable, optional
        Told of each run before it starts: the launch, its number, how many this tick has.

    Raises
    ------
    WarehouseError
        Another ``care run`` is at work on this workspace.
    """
    with _alone(workspace):
        _end_abandoned_runs(instance)
        outcome = _run_stale(defs, workspace, instance, selection, testset, judge, progress)
        outcome.left_to_daemon = len(instance.get_runs(_unfinished())) + len(_open_backfills(instance))
        return outcome


def _run_stale(
    defs: dg.Definitions,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    selection: str | None,
    testset: str | None,
    judge: str | None,
    progress: Progress | None,
) -> Outcome:
    cursor = Cursor(workspace)
    state, first = cursor.load(), False
    if state is None:
        first = True
        # The baseline: a first night that is killed must not take what changes meanwhile for the start.
        state = dg.evaluate_automation_conditions(defs, instance).cursor
        cursor.save(state)
    report(observe(workspace, instance), instance)
    chosen = dg.AssetSelection.from_string(selection) if selection else dg.AssetSelection.all()
    wanted = Wanted({key.to_user_string() for key in chosen.resolve(defs.resolve_asset_graph())}, testset, judge)
    narrowed = selection is not None or testset is not None or judge is not None
    outcome, tried = Outcome(), set[tuple[str, str | None]]()
    requested = _failed(instance)
    if not first and not workspace.warehouse.usable():
        lost, broken = rebuild_warehouse(workspace)
        outcome.failures.update({("judge_inference", judge): why for judge, why in broken.items()})
        for asset in _ORDER[_ORDER.index("panel") : -1]:
            requested[asset].update(lost)
    for _ in range(_MOST_TICKS):
        with _partitions_read_once(instance):
            result = dg.evaluate_automation_conditions(defs, instance, cursor=state)
        for asset in _ORDER:
            requested.setdefault(asset, set()).update(result.get_requested_partitions(dg.AssetKey(asset)))
        # A narrowed run leaves the cursor alone: what it does not materialise stays requested.
        fresh = {
            a: {p for p in ps if wanted.has(a, p) and not (narrowed and (a, p) in tried)} for a, ps in requested.items()
        }
        launches = plan(fresh, instance)
        if not launches:
            if not narrowed:
                cursor.save(result.cursor)
            break
        for number, launch in enumerate(launches):
            if progress is not None:
                progress(launch, number, len(launches))
            _execute(defs, instance, launch, outcome)
            tried.update((asset, p) for asset in launch.assets for p in launch.partitions)
        if not narrowed:
            # Only now: a run killed before this line sees the same changes again.
            state = result.cursor
            cursor.save(state)
        requested = {}
    return outcome


@contextmanager
def _alone(workspace: Workspace) -> Generator[None]:
    """Hold the workspace's lock; the system lets go of it when the process dies, however it dies."""
    with (dagster_home(workspace) / "care_run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WarehouseError(
                f"another `care run` is at work on {workspace.root}; wait for it to end, or stop it"
            ) from error
        yield


def _end_abandoned_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs that nobody is working on any more as failed, and backfills as canceled.

    Until then they count as in progress, hold up everything that depends on them, and keep the places in
    their pools. Runs of another ``care run`` were killed: we hold the lock. Anything else is the daemon's,
    and abandoned once no daemon is alive; what was asked for is still stale, and is asked for again.
    """
    daemon = daemon_is_alive(instance)
    for run in instance.get_runs(_unfinished({_LAUNCHED_BY: "care run"} if daemon else {})):
        instance.report_run_failed(run, "whoever launched this run was killed")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    if daemon:
        return
    for backfill in _open_backfills(instance):
        instance.update_backfill(backfill.with_status(type(backfill.status).CANCELED))


def _unfinished(tags: dict[str, str] | None = None) -> dg.RunsFilter:
    status = dg.DagsterRunStatus
    open_ = [status.QUEUED, status.NOT_STARTED, status.STARTING, status.STARTED, status.CANCELING]
    return dg.RunsFilter(statuses=open_, tags=tags or {})


def _open_backfills(instance: dg.DagsterInstance) -> list[Any]:
    return [b for b in instance.get_backfills() if b.status.value in ("REQUESTED", "CANCELING", "FAILING")]


def daemon_is_alive(instance: dg.DagsterInstance) -> bool:
    """Whether a Dagster daemon of this instance has given a sign of life in the last minute and a half."""
    beats = instance.get_daemon_heartbeats().values()
    return any(time.time() - beat.timestamp < _DAEMON_SILENCE_S for beat in beats)


@contextmanager
def _partitions_read_once(instance: dg.DagsterInstance) -> Generator[None]:
    """Read each dynamic partition set once while conditions are evaluated.

    An evaluation asks for them thousands of times, a query each: nine tenths of its time. Nobody adds
    partitions meanwhile in this process, and what another adds is seen by the next evaluation.
    """
    read = cache(instance.get_dynamic_partitions)
    instance.get_dynamic_partitions = read  # type: ignore[method-assign]
    try:
        yield
    finally:
        del instance.get_dynamic_partitions


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
        """The cursor, or None before the first run."""
        from dagster_shared.serdes import deserialize_value

        return deserialize_value(self._path.read_text()) if self._path.exists() else None

    def save(self, cursor: Any) -> None:
        """Replace the cursor."""
        from dagster_shared.serdes import serialize_value

        write_bytes(self._path, serialize_value(cursor).encode())


def split_partition(asset: str, partition: str) -> tuple[str | None, str | None]:
    """(judge, test set) of a partition key; None for a dimension that the asset lacks."""
    if asset == "scores":
        judge, _, testset = partition.partition("|")
        return judge, testset
    return (partition, None) if asset == "judge_inference" else (None, partition)


def plan(requested: dict[str, set[str | None]], instance: dg.DagsterInstance) -> list[Launch]:
    """Turn requested partitions into runs, in the order of the stages.

    Judges are batched: neighbouring partitions share a run, so that a fresh deployment starts tens of
    runs, not thousands. Other assets that ask for the same partition share one.
    """
    launches: list[Launch] = []
    judges = instance.get_dynamic_partitions(str(JUDGES.name))
    testsets = instance.get_dynamic_partitions(str(TESTSETS.name))
    by_partition: dict[str | None, list[str]] = {}
    for asset in _ORDER:
        partitions = requested.get(asset, set())
        if asset == "judge_inference":
            present = {p for p in partitions if p in judges}
            launches += [_range(asset, run[0], run[-1], run) for run in _neighbours(present, judges)]
        elif asset == "scores":
            launches += _grids(partitions, judges, testsets)
        else:
            for partition in partitions:
                if partition is None or partition in testsets:
                    by_partition.setdefault(partition, []).append(asset)
    ordered = sorted(by_partition.items(), key=lambda entry: (_ORDER.index(entry[1][0]), str(entry[0])))
    launches += [Launch(tuple(assets), (partition,), {}) for partition, assets in ordered]
    return sorted(launches, key=lambda launch: _ORDER.index(launch.assets[0]))


def _neighbours(wanted: Set[str | None], every: Sequence[str]) -> list[list[str]]:
    """Maximal stretches of ``every`` that are all wanted."""
    stretches: list[list[str]] = [[]]
    for name in every:
        if name in wanted:
            stretches[-1].append(name)
        elif stretches[-1]:
            stretches.append([])
    return [stretch for stretch in stretches if stretch]


def _grids(partitions: set[str | None], judges: Sequence[str], testsets: Sequence[str]) -> list[Launch]:
    """Slices as rectangles of neighbouring judges and neighbouring test sets."""
    by_judge: dict[str, set[str]] = {}
    for partition in partitions:
        judge, testset = split_partition("scores", str(partition))
        if judge in judges and testset in testsets:
            by_judge.setdefault(str(judge), set()).add(str(testset))
    launches: list[Launch] = []
    while by_judge:
        pattern = next(by_judge[j] for j in judges if j in by_judge)
        alike = {j for j, wanted in by_judge.items() if wanted == pattern}
        for rows in _neighbours(alike, judges):
            for columns in _neighbours(pattern, testsets):
                keys = [str(slice_key(j, t)) for j in rows for t in columns]
                launches.append(_range("scores", keys[0], keys[-1], keys))
        by_judge = {j: wanted for j, wanted in by_judge.items() if j not in alike}
    return launches


def _range(asset: str, first: str, last: str, partitions: Sequence[str]) -> Launch:
    return Launch((asset,), tuple(partitions), {_RANGE_START: first, _RANGE_END: last})


def _execute(defs: dg.Definitions, instance: dg.DagsterInstance, launch: Launch, outcome: Outcome) -> None:
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(asset) for asset in launch.assets],
        partition_key=None if launch.tags else launch.partitions[0],
        tags={**launch.tags, _LAUNCHED_BY: "care run"},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    )
    # From the instance: what a step logged before it failed is not among the result's own events.
    for entry in instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.dagster_event
        if event is not None and event.asset_key is not None:
            done = (event.asset_key.to_user_string(), event.partition)
            outcome.materialised.append(done)
            outcome.failures.pop(done, None)
    now = set(outcome.materialised)
    for event in result.all_events:
        if event.is_step_failure and event.step_key is not None:
            left = [(event.step_key, p) for p in launch.partitions if (event.step_key, p) not in now]
            outcome.failures.update(dict.fromkeys(left, _message(event)))


def _message(event: Any) -> str:
    """The failure's own words, without the stack."""
    error = event.step_failure_data.error
    while error is not None and error.cause is not None:
        error = error.cause
    user = event.step_failure_data.user_failure_data
    if user is not None and user.description:
        return str(user.description)
    return error.message.strip().split("\n")[0] if error is not None else "the step failed"


def _failed(instance: dg.DagsterInstance) -> dict[str, set[str | None]]:
    """Partitions whose last run failed: a person who runs again wants them tried again."""
    failed: dict[str, set[str | None]] = {}
    for asset, definition in (
        ("judge_inference", JUDGES),
        ("scores", SLICES),
        *((a, TESTSETS) for a in _ORDER if a not in (*_BATCHED, "report_index")),
    ):
        statuses = partition_statuses(instance, asset, definition)
        failed[asset] = {p for p, status in statuses.items() if status == "FAILED"}
    return failed


def partition_statuses(instance: dg.DagsterInstance, asset: str, definition: dg.PartitionsDefinition) -> dict[str, str]:
    """Status by partition: MATERIALIZED, FAILED, IN_PROGRESS; partitions never run are left out."""
    keys = definition.get_partition_keys(dynamic_partitions_store=instance)
    found = instance.get_status_by_partition(dg.AssetKey(asset), keys, definition) or {}
    return {str(key): status.value for key, status in found.items() if status is not None}
