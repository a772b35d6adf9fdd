"""Plan of the runs that materialise stale partitions, for ``care run`` and the daemon."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.fit.made import FIT, RESULTS
from assets.mount import UNMOUNTED, Mount
from assets.partitions import JUDGES, TESTSETS

if TYPE_CHECKING:
    from assets.report.staleness import Partition, StalePartition, State
    from assets.workspace import Workspace

ORDER = ("items", "gold", "judge_inference", "canary", "scores", *FIT, "report_index", *EXPERIMENTS)
"""Assets in the order of their runs: each asset follows its inputs."""

ASSETS = (*ORDER, "night")
"""All assets of a workspace."""

INDEX = ("report_index", None)
"""Asset and partition of the index of all pages, which is written last."""

RANGE_START_TAG, RANGE_END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
"""Tags of a run that materialises a range of partitions."""

_PARTITION_TAG = "dagster/partition"

REASON = "care/reason"
"""Tag of a run that holds the reason for building the run's first partition."""

_LONGEST_TAG = 200

TRIED_AGAIN = "care/tried_again"
"""Tag with the value "true" on runs whose failed partitions the daemon requests once more."""

LAUNCHED_BY, CARE_RUN = "care/launched_by", "care run"
"""Tag of the runs that ``care run`` starts, and the value of this tag."""

NO_RETRY = {"dagster/max_retries": "0"}
"""Tags of runs that Dagster must not retry, because ``care run`` or the sensor retries them."""

_RANGES = ("judge_inference", "scores")
"""Assets whose neighbouring partitions share a run; otherwise, a new workspace would start thousands of runs."""

_INPUTS = {
    **{"moments": ("panel",), "structure": ("moments",), "aggregates": ("structure",)},
    **dict.fromkeys(("review", *RESULTS), ("aggregates",)),
    "report": ("review", *RESULTS),
}
"""Direct inputs of each asset of a test set's fit, without inputs from outside the fit."""

_STAGES = dict.fromkeys(ORDER, 3) | {"items": 0, "gold": 0, "judge_inference": 1, "canary": 1, "scores": 2}
"""Stage of each asset; all assets after the scores belong to the stage of the fit."""

_LASTING = ("judge_inference ", "canary ")
"""Prefixes of partition names that a cursor keeps when they are not stale, because a judge may still miss items."""

_KNOWN_AFTER_RUN = ""
"""Placeholder version of a partition that is requested together with its inputs, until their run ends."""


def split_partition(asset: str, partition: str | None) -> tuple[str | None, str | None]:
    """Return the judge and the test set in a partition key, with None for a dimension that the asset does not have."""
    if asset == "scores" and partition is not None:
        judge, _, testset = partition.partition("|")
        return judge, testset
    return (partition, None) if asset in ("judge_inference", "canary") else (None, partition)


def plan(
    asked: Iterable[StalePartition],
    instance: dg.DagsterInstance,
    mount: Mount = UNMOUNTED,
    gpu_judges: Set[str] = frozenset(),
    first: Set[Partition] = frozenset(),
) -> list[dg.RunRequest]:
    """Group partitions into runs, and sort the runs by the order of assets in ``ORDER``; omit deleted partitions.

    Judges that wait for a GPU do not share a run with other judges. Assets of the same test set share a run. Each
    experiment has its own run, so finished experiments are kept if a later one fails. The daemon repeats a failed run
    once, but only if all of its partitions are in ``first``, the partitions requested for the first time.
    """
    judges, testsets = _names(instance, mount)
    places: dict[tuple[int, int, int], StalePartition] = {}
    for one in asked:
        judge, testset = split_partition(*one.key)
        if judge in judges and testset in testsets:
            places[ORDER.index(one.asset), testsets.index(testset), judges.index(judge)] = one
    runs: dict[object, list[StalePartition]] = {}  # a range is at the place of its next partition
    for (asset, testset, judge), one in sorted(places.items(), key=lambda item: item[0]):
        if one.asset in _RANGES:
            is_gpu = judges[judge] in gpu_judges
            runs[asset, testset, judge + 1, is_gpu] = [*runs.pop((asset, testset, judge, is_gpu), []), one]
        else:
            runs.setdefault(one.key if one.asset in ("canary", *EXPERIMENTS) else testset, []).append(one)
    requests: list[dg.RunRequest] = []
    for run in sorted(runs.values(), key=lambda run: ORDER.index(run[0].asset)):
        tags = {REASON: run[0].why[:_LONGEST_TAG], **NO_RETRY}
        if run[0].asset in _RANGES:
            tags |= {RANGE_START_TAG: str(run[0].partition), RANGE_END_TAG: str(run[-1].partition)}
        elif run[0].partition is not None:
            tags[_PARTITION_TAG] = run[0].partition  # a sensor cannot resolve `partition_key`, being dynamic
        if {one.key for one in run} <= first:
            tags[TRIED_AGAIN] = "true"
        selected = dict.fromkeys(mount.key(one.asset) for one in run)
        requests.append(dg.RunRequest(asset_selection=[*selected], tags=tags))
    return requests


def planned_by(
    run: dg.DagsterRun | dg.RunRequest, instance: dg.DagsterInstance, mount: Mount = UNMOUNTED
) -> set[Partition]:
    """Return the (asset, partition) pairs that a run will materialise according to its tags."""
    judges, testsets = _names(instance, mount)
    ends = [run.tags.get(tag, run.tags.get(_PARTITION_TAG)) for tag in (RANGE_START_TAG, RANGE_END_TAG)]
    planned: set[Partition] = set()
    for key in run.asset_selection or ():
        if asset := mount.asset(key.to_user_string()):
            first, last = (split_partition(asset, end) for end in ends)
            pairs = product(_between(judges, first[0], last[0]), _between(testsets, first[1], last[1]))
            planned |= {(asset, "|".join(filter(None, pair)) or None) for pair in pairs}
    return planned


def _names(instance: dg.DagsterInstance, mount: Mount) -> list[list[str | None]]:
    """Return the partition keys of judges and of test sets; each list ends with None, for assets without such a key."""
    return [[*instance.get_dynamic_partitions(mount.name(str(each.name))), None] for each in (JUDGES, TESTSETS)]


def _between(names: Sequence[str | None], first: str | None, last: str | None) -> Sequence[str | None]:
    if first == last:
        return [first]
    return names[names.index(first) : names.index(last) + 1] if first in names and last in names else []


@dataclass
class Cursor:
    """Record of the requests for stale partitions; the cursor of the daemon's sensor contains this record.

    Attributes
    ----------
    tried : dict "asset partition" -> (version, times)
        Number of requests for the last version of each partition.
    run_began : float or None
        Start of the last nightly run; partitions that failed before this time may be requested once more.
    at_work : bool
        Whether work was left at the last tick: partitions requested, in progress or waiting for a Batch API.
    most : int
        Maximum number of requests for the same version of a partition.
    """

    tried: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    run_began: float | None = None
    at_work: bool = False
    most: int = 2

    def request(
        self, workspace: Workspace, stale: Mapping[Partition, StalePartition], busy: Collection[Partition] = ()
    ) -> list[StalePartition]:
        """Return the stale partitions that can be materialised now, and count a request for each of them.

        A partition waits while an earlier stage of its test sets is in progress (``busy``) or can still be requested;
        the report index waits for all partitions. A stale asset of a fit is requested in one run with its stale inputs.
        """
        self._forget(stale, busy)
        first = {testset: _STAGES["scores"] for asset, testset in busy if asset in FIT}
        for key, one in stale.items():
            if key in busy or self.may_ask(one):
                for testset in one.testsets or [split_partition(*key)[1]]:
                    first[testset] = min(first.get(testset, _STAGES["report"]), _STAGES[one.asset])
        asked: dict[Partition, StalePartition] = {}
        for key, one in sorted(stale.items(), key=lambda item: ORDER.index(item[1].asset)):
            judge, testset = split_partition(*key)
            of = workspace.testsets_of(judge) if judge and not testset else [testset]
            waits = any(first.get(each, _STAGES["report"]) < _STAGES[one.asset] for each in of)
            inputs = [place for asset in _INPUTS.get(one.asset, ()) if (place := (asset, one.partition)) in stale]
            may_run = all(each in asked for each in inputs) and (inputs or self.may_ask(one))
            if may_run and not waits and key not in busy and not (key == INDEX and (asked or busy)):
                asked[key] = one
                self.tried[_name(key)] = _KNOWN_AFTER_RUN if inputs else one.version, self.times(one) + 1
        return [*asked.values()]

    def _forget(self, stale: Mapping[Partition, StalePartition], busy: Collection[Partition]) -> None:
        """Forget partitions that are no longer stale; if a partition is stale after its run, store its new version."""
        by_name = {_name(key): one for key, one in stale.items()}
        for name, (version, times) in [*self.tried.items()]:
            one = by_name.get(name)
            if one is None and not name.startswith(_LASTING):
                del self.tried[name]
            elif one is not None and version == _KNOWN_AFTER_RUN and one.key not in busy:
                self.tried[name] = one.version, times

    def forget(self, keys: Iterable[Partition]) -> None:
        """Forget the requests for partitions, which can then be requested again."""
        for key in keys:
            self.tried.pop(_name(key), None)

    def may_ask(self, stale: StalePartition) -> bool:
        """Return whether a run may be requested: at most ``most`` per partition version, or one if ``only_waits``."""
        return self.times(stale) < (1 if stale.only_waits else self.most)

    def times(self, stale: StalePartition) -> int:
        """Return the number of requests for the current version of a partition."""
        version, times = self.tried.get(_name(stale.key), (stale.version, 0))
        return times if version in (stale.version, _KNOWN_AFTER_RUN) else 0


def _name(key: Partition) -> str:
    return f"{key[0]} {key[1] or ''}"


def find_stale(
    workspace: Workspace, current: Mapping[str, State] | None = None, *, canaries: bool = False
) -> dict[Partition, StalePartition]:
    """Return all stale partitions, including the report index if a verdict has changed.

    With ``canaries``, add the canary of each judge that is due for a retest and has no missing score. ``current``
    contains the states of the test sets, if they were already read.
    """
    from assets.report.staleness import StalePartition, stale_partitions, states
    from assets.report.verdicts import current_verdicts, index_differs

    current = states(workspace) if current is None else current
    stale = stale_partitions(workspace, current)
    verdicts = current_verdicts(workspace, current)
    if index_differs(workspace, verdicts):
        version = "; ".join(f"{name}: {verdict.headline}" for name, verdict in verdicts.items())
        stale[INDEX] = StalePartition(*INDEX, version, reason="a verdict has changed")
    if canaries:
        from assets.judging.canary import due, today

        incomplete = {one.partition for one in stale.values() if one.asset == "judge_inference" and not one.only_waits}
        for judge in {*due(workspace)} - incomplete:
            stale["canary", judge] = StalePartition(
                "canary", judge, f"{today()}", reason="the judge was not retested today"
            )
    workspace.file_hashes.save()
    return stale
