"""Which stale partitions are requested next, by ``care run`` and by the daemon's sensor and schedule."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg

from assets.fit.made import FIT, RESULTS
from assets.mount import UNMOUNTED, Mount
from assets.report.staleness import Partition, StalePartition, State, stale_partitions, states
from assets.report.verdicts import current_verdicts, index_differs
from assets.workspace import Workspace
from orchestration.alert_causes import forget_mended_failures
from orchestration.instance import (
    backfills_under_way,
    follow_partitions,
    last_nightly_run,
    report_unchanged,
    unfinished_runs,
)
from orchestration.launches import NO_RETRY, REASON, TRIED_AGAIN, Launch, plan, planned_by, requests, split_partition

_ATTEMPTS = 2
"""How often the daemon requests the same partition under the same version."""

_LONGEST_TAG = 200

_NIGHT_IS_NEW_S = 3600.0
"""A sensor that has never run before ignores a night that is older than this."""

INDEX = ("report_index", None)
"""The index of all pages, which is written last."""

_INPUTS = {
    "moments": ("panel",),
    "structure": ("moments",),
    "aggregates": ("structure",),
    **dict.fromkeys(("review", *RESULTS), ("aggregates",)),
    "report": ("review", *RESULTS),
}
"""Direct inputs of each asset of a test set's fit, among those of the fit."""

_KNOWN_AFTER_RUN = ""
"""Version of a partition requested in one run with its inputs, until that run has ended."""


@dataclass
class Tried:
    """How often each stale partition was requested under its version, at most ``most`` times.

    ``asked`` maps "asset partition" to (version, times).
    """

    most: int
    asked: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def look(self, stale: Mapping[Partition, StalePartition], busy: Collection[Partition]) -> None:
        """Forget what is no longer stale, and take the version of what stayed stale after its run."""
        by_name = {_name(key): one for key, one in stale.items()}
        lasting = ("judge_inference", "canary")  # a judge that has answered may lack the items that failed
        self.asked = {n: e for n, e in self.asked.items() if n in by_name or n.partition(" ")[0] in lasting}
        for name, (version, times) in self.asked.items():
            one = by_name.get(name)
            if version == _KNOWN_AFTER_RUN and one is not None and one.key not in busy:
                self.asked[name] = one.version, times

    def may_ask(self, one: StalePartition) -> bool:
        """Return whether a partition may be requested (again)."""
        return self.times(one) < (1 if one.only_waits else self.most)

    def times(self, one: StalePartition) -> int:
        """Return how often a partition was requested under its version."""
        version, times = self.asked.get(_name(one.key), (one.version, 0))
        return times if version in (one.version, _KNOWN_AFTER_RUN) else 0

    def note(self, asked: Sequence[StalePartition]) -> None:
        """Count one more request for each of these."""
        keys = {one.key for one in asked}
        for one in asked:
            with_inputs = any((asset, one.partition) in keys for asset in _INPUTS.get(one.asset, ()))
            self.asked[_name(one.key)] = _KNOWN_AFTER_RUN if with_inputs else one.version, self.times(one) + 1


def _name(key: Partition) -> str:
    return f"{key[0]} {key[1] or ''}"


def find_stale(workspace: Workspace, known: Mapping[str, State] | None = None) -> dict[Partition, StalePartition]:
    """Return what is stale: of each test set (its state may be ``known``), and the index if a verdict has changed."""
    known = states(workspace) if known is None else known
    found = stale_partitions(workspace, known)
    verdicts = current_verdicts(workspace, known)
    if index_differs(workspace, verdicts):
        version = "; ".join(f"{name}: {verdict.headline}" for name, verdict in verdicts.items())
        found[INDEX] = StalePartition(*INDEX, version, reason="a verdict has changed")
    workspace.file_hashes.save()
    return found


def due_canaries(workspace: Workspace, stale: Mapping[Partition, StalePartition]) -> dict[Partition, StalePartition]:
    """Return the judges whose canary is to run today, except those with missing scores."""
    from assets.judging.canary import due, today

    incomplete = {one.partition for one in stale.values() if one.asset == "judge_inference" and not one.only_waits}
    says = "it was not asked again today"
    asked = [
        StalePartition("canary", judge, f"{today()}", reason=says)
        for judge in due(workspace)
        if judge not in incomplete
    ]
    return {one.key: one for one in asked}


def partitions_under_way(instance: dg.DagsterInstance, mount: Mount = UNMOUNTED) -> set[Partition]:
    """Return what unfinished runs are to materialise."""
    return {key for record in unfinished_runs(instance) for key in planned_by(record.dagster_run, instance, mount)}


def ready(
    workspace: Workspace, stale: Mapping[Partition, StalePartition], tried: Tried, busy: Collection[Partition] = ()
) -> list[StalePartition]:
    """Return the stale partitions that can be materialised now, without those of unfinished runs (``busy``).

    A judge waits for the items of all its test sets, so that it is loaded once. A fit waits for items and scores; it
    does without those that have failed. An asset is requested in one run with its stale inputs.
    """
    coming = {key for key, one in stale.items() if key in busy or tried.may_ask(one)}
    asked: list[StalePartition] = []
    for key, one in stale.items():
        if key not in coming or key in busy or one.asset in FIT or key == INDEX:
            continue
        judge, testset = split_partition(one.asset, str(one.partition))
        of = [testset] if judge is None or one.asset == "scores" else workspace.testsets_of(judge)
        if one.asset not in ("items", "gold") and any(("items", each) in coming for each in of):
            continue
        asking = ("judge_inference", judge)
        if one.asset == "scores" and asking in coming and testset in stale[asking].testsets:
            continue
        asked.append(one)
    for testset in sorted({one.partition for one in stale.values() if one.asset in FIT}, key=str):
        if not _waits(stale, coming, busy, str(testset)):
            asked += _of_fit(stale, tried, str(testset))
    return [stale[INDEX]] if not asked and not busy and INDEX in coming else asked


def _waits(
    stale: Mapping[Partition, StalePartition], coming: Collection[Partition], busy: Collection[Partition], testset: str
) -> bool:
    """Return whether a test set's fit is being materialised, or its items or scores are still to come."""
    if any((asset, testset) in busy for asset in FIT):
        return True
    for one in map(stale.__getitem__, coming):
        is_input = one.asset in ("items", "scores") and split_partition(one.asset, str(one.partition))[1] == testset
        if is_input or (one.asset == "judge_inference" and testset in one.testsets):
            return True
    return False


def _of_fit(stale: Mapping[Partition, StalePartition], tried: Tried, testset: str) -> list[StalePartition]:
    """Return the stale stages of a fit whose inputs are up to date or requested with them."""
    asked: dict[str, StalePartition] = {}
    for asset in FIT:
        one = stale.get((asset, testset))
        inputs = [each for each in _INPUTS.get(asset, ()) if (each, testset) in stale]
        if one is not None and all(each in asked for each in inputs) and (inputs or tried.may_ask(one)):
            asked[asset] = one
    return list(asked.values())


@dataclass(frozen=True)
class Cursor:
    """Cursor of the sensor that requests what is stale.

    Attributes
    ----------
    tried : dict name -> (version, times)
        ``Tried.asked``.
    night : float or None
        When the last night began; what failed before it may be requested once more.
    at_work : bool
        Whether something of that night was still to be requested or under way.
    moment : str
        Hash of the unfinished runs, and of the times of the workspace's own files.
    looked_at : float
        Time of the last tick that looked, in seconds since 1970.
    """

    tried: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    night: float | None = None
    at_work: bool = False
    moment: str = ""
    looked_at: float = 0.0


def request_stale(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    seen: Cursor,
    *,
    only_at_night: bool = False,
    run_key: str | None = None,
) -> tuple[list[dg.RunRequest], Cursor]:
    """Return run requests for what is stale, and the next cursor.

    What failed is requested once more, and then not before its inputs change or the next night begins.

    Parameters
    ----------
    only_at_night : bool
        Request nothing between nights. A night begins with the asset `night`, and ends when nothing of it is left to
        be requested, under way or in a batch of an endpoint.
    run_key : str, optional
        Prefix of the key of each run; given by the schedule.
    """
    follow_partitions(workspace, instance)  # only a partition that Dagster knows can be requested
    mount = workspace.mount
    night = last_nightly_run(instance, mount)
    begins = night != seen.night
    if only_at_night and not seen.at_work:
        since = time.time() - _NIGHT_IS_NEW_S if seen.night is None else seen.night
        if night is None or night <= since:
            return [], replace(seen, night=night)
    tried = Tried(_ATTEMPTS, {} if begins else dict(seen.tried))
    known, busy = states(workspace), partitions_under_way(instance, mount)
    forget_mended_failures(workspace, known)
    stale = find_stale(workspace, known)
    stale |= due_canaries(workspace, stale)
    tried.look(stale, busy)
    if begins:
        tried.note([one for key, one in stale.items() if key in busy])  # the schedule has requested it
    waits = backfills_under_way(instance, mount)
    asked = [] if waits else ready(workspace, stale, tried, busy)
    first = {one.key for one in asked if not tried.times(one)}
    tried.note(asked)
    gpu_judges = {name for name, judge in workspace.judges.items() if judge.engine.needs.model}
    launches = plan(requests(one.key for one in asked), instance, mount, gpu_judges)
    at_work = bool(asked or waits or busy or any(one.only_waits for one in stale.values()))
    if seen.at_work and not at_work:
        report_unchanged(workspace, instance, stale)
    seen = replace(seen, tried=tried.asked, night=night, at_work=at_work)
    return [_request(launch, stale, first, mount, run_key) for launch in launches], seen


def _request(
    launch: Launch, stale: Mapping[Partition, StalePartition], first: set[Partition], mount: Mount, run_key: str | None
) -> dg.RunRequest:
    """Return the request for a run, with the reason in its tags, and whether its failures are requested once more."""
    keys = [(asset, partition) for asset in launch.assets for partition in launch.partitions]
    tags = {**launch.tags, **NO_RETRY, REASON: stale[keys[0]].why[:_LONGEST_TAG]}
    if first.issuperset(keys):
        tags[TRIED_AGAIN] = "true"
    if not launch.tags and launch.partitions[0] is not None:
        tags["dagster/partition"] = launch.partitions[0]  # a sensor cannot resolve a `partition_key` of dynamic ones
    key = run_key and f"{run_key} {launch.label} {launch.partitions[0] or ''}"
    return dg.RunRequest(key, asset_selection=[mount.key(asset) for asset in launch.assets], tags=tags)
