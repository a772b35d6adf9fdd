"""Plan of the runs that materialise stale partitions, for ``care run`` and the daemon."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.fit.made import FIT, RESULTS
from assets.mount import UNMOUNTED, Mount
from assets.partitions import JUDGES, TESTSETS, slice_key

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

REASON = "care/reason"
"""Tag of a run that holds the reason for building the run's first partition."""

_LONGEST_TAG = 200

TRIED_AGAIN = "care/tried_again"
"""Tag of runs whose failed partitions the daemon requests once more; its value is "true"."""

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

_STAGES, _FIT_STAGE = {"items": 0, "gold": 0, "judge_inference": 1, "canary": 1, "scores": 2}, 3
"""Stage number of each asset that precedes the fits; all other assets belong to the stage of the fit."""

_KNOWN_AFTER_RUN = ""
"""Placeholder for the version of a partition that is requested in one run with its inputs, until the run ends."""


@dataclass(frozen=True)
class Launch:
    """Run to be started: assets with a common partition or range of partitions, and the reason for the first one.

    The only partition of unpartitioned assets is None.
    """

    assets: tuple[str, ...]
    partitions: tuple[str | None, ...]
    why: str = ""

    @property
    def is_range(self) -> bool:
        """Whether the partitions are given as a range."""
        return self.assets[0] in _RANGES

    @property
    def tags(self) -> dict[str, str]:
        """Dagster tags of the run: range of partitions, reason, and the tag that prevents retries by Dagster."""
        why = {REASON: self.why[:_LONGEST_TAG]} if self.why else {}
        ends = {RANGE_START_TAG: str(self.partitions[0]), RANGE_END_TAG: str(self.partitions[-1])}
        return {**(ends if self.is_range else {}), **why, **NO_RETRY}

    @property
    def keys(self) -> list[Partition]:
        """Pairs (asset, partition) that the run materialises."""
        return [(asset, partition) for asset in self.assets for partition in self.partitions]

    @property
    def label(self) -> str:
        """Label of the run for people, such as ``panel > moments mine`` or ``scores x 12``."""
        assets, first = " > ".join(self.assets), self.partitions[0]
        if len(self.partitions) > 1:
            return f"{assets} x {len(self.partitions)}"
        return assets if first is None else f"{assets} {first}"


def split_partition(asset: str, partition: str) -> tuple[str | None, str | None]:
    """Return the judge and the test set in a partition key, with None for a dimension that the asset does not have."""
    if asset == "scores":
        judge, _, testset = partition.partition("|")
        return judge, testset
    return (partition, None) if asset in ("judge_inference", "canary") else (None, partition)


def plan(
    keys: Iterable[Partition],
    instance: dg.DagsterInstance,
    mount: Mount = UNMOUNTED,
    gpu_judges: Set[str] = frozenset(),
    *,
    stale: Mapping[Partition, StalePartition] = MappingProxyType({}),
) -> list[Launch]:
    """Group partitions into runs, sorted by ``ORDER``, and omit deleted partitions.

    Judges that wait for a GPU do not share a run with other judges. Assets of the same test set share a run. Each
    experiment has its own run, so finished experiments are kept if a later one fails.
    """
    asked: dict[str, set[str | None]] = {}
    for asset, partition in keys:
        asked.setdefault(asset, set()).add(partition)
    judges, testsets = _names(instance, mount)
    to_ask, slices, canaries = (asked.pop(asset, set()) for asset in ("judge_inference", "scores", "canary"))
    of_judges = [*_neighbours(judges, to_ask - gpu_judges), *_neighbours(judges, to_ask & gpu_judges)]
    launches = [Launch(("judge_inference",), tuple(stretch)) for stretch in of_judges]
    for testset in testsets:
        every = [str(slice_key(judge, testset)) for judge in judges]
        launches += [Launch(("scores",), tuple(stretch)) for stretch in _neighbours(every, slices)]
    launches += [Launch((key,), (None,)) for key in EXPERIMENTS if asked.pop(key, None)]
    launches += [Launch(("canary",), (judge,)) for judge in judges if judge in canaries]
    for partition in [*testsets, None]:
        if shared := tuple(asset for asset in ORDER if partition in asked.get(asset, ())):
            launches.append(Launch(shared, (partition,)))
    launches.sort(key=lambda launch: ORDER.index(launch.assets[0]))
    return [replace(each, why=stale[each.keys[0]].why) if each.keys[0] in stale else each for each in launches]


def _neighbours(names: Sequence[str], wanted: Set[str | None]) -> list[list[str]]:
    return [[*stretch] for is_wanted, stretch in groupby(names, wanted.__contains__) if is_wanted]


def planned_by(run: dg.DagsterRun, instance: dg.DagsterInstance, mount: Mount = UNMOUNTED) -> set[Partition]:
    """Return the (asset, partition) pairs that a run will materialise according to its tags."""
    assets = [asset for key in run.asset_selection or () if (asset := mount.asset(key.to_user_string()))]
    if RANGE_START_TAG not in run.tags:
        return {(asset, run.tags.get("dagster/partition")) for asset in assets}
    judges, testsets = _names(instance, mount)
    planned: set[Partition] = set()
    for asset in assets:
        first, last = (split_partition(asset, run.tags[tag]) for tag in (RANGE_START_TAG, RANGE_END_TAG))
        rows, columns = _between(judges, first[0], last[0]), _between(testsets, first[1], last[1])
        scores = [str(slice_key(row, column)) for row in rows for column in columns]
        planned |= {(asset, each) for each in (scores if asset == "scores" else rows or columns)}
    return planned


def _names(instance: dg.DagsterInstance, mount: Mount) -> tuple[Sequence[str], Sequence[str]]:
    judges, testsets = (instance.get_dynamic_partitions(mount.name(str(d.name))) for d in (JUDGES, TESTSETS))
    return judges, testsets


def _between(names: Sequence[str], first: str | None, last: str | None) -> Sequence[str]:
    return names[names.index(first) : names.index(last) + 1] if first in names and last in names else []


@dataclass
class Tried:
    """Number of requests for each version of a stale partition, with ``most`` as the limit.

    ``asked`` maps the text "asset partition" to the pair (version, number of requests).
    """

    most: int
    asked: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def look(self, stale: Mapping[Partition, StalePartition], busy: Collection[Partition]) -> None:
        """Forget partitions that are no longer stale; update the version of partitions that their run left stale."""
        by_name = {_name(key): one for key, one in stale.items()}
        lasting = ("judge_inference", "canary")  # a judge that has answered may lack the items that failed
        self.asked = {n: e for n, e in self.asked.items() if n in by_name or n.partition(" ")[0] in lasting}
        for name, (version, times) in self.asked.items():
            one = by_name.get(name)
            if version == _KNOWN_AFTER_RUN and one is not None and one.key not in busy:
                self.asked[name] = one.version, times

    def may_ask(self, one: StalePartition) -> bool:
        """Return whether a partition may still be requested."""
        return self.times(one) < (1 if one.only_waits else self.most)

    def times(self, one: StalePartition) -> int:
        """Return the number of requests for the current version of a partition."""
        version, times = self.asked.get(_name(one.key), (one.version, 0))
        return times if version in (one.version, _KNOWN_AFTER_RUN) else 0

    def note(self, asked: Sequence[StalePartition]) -> None:
        """Add one to the number of requests for each of the given partitions."""
        keys = {one.key for one in asked}
        for one in asked:
            with_inputs = any((asset, one.partition) in keys for asset in _INPUTS.get(one.asset, ()))
            self.asked[_name(one.key)] = _KNOWN_AFTER_RUN if with_inputs else one.version, self.times(one) + 1


def _name(key: Partition) -> str:
    return f"{key[0]} {key[1] or ''}"


def find_stale(
    workspace: Workspace, known: Mapping[str, State] | None = None, *, canaries: bool = False
) -> dict[Partition, StalePartition]:
    """Return all stale partitions, with the index if a verdict has changed and, optionally, with today's canaries.

    ``known`` holds the states of the test sets, computed if None. A judge with missing scores gets no canary.
    """
    from assets.report.staleness import StalePartition, stale_partitions, states
    from assets.report.verdicts import current_verdicts, index_differs

    known = states(workspace) if known is None else known
    stale = stale_partitions(workspace, known)
    verdicts = current_verdicts(workspace, known)
    if index_differs(workspace, verdicts):
        version = "; ".join(f"{name}: {verdict.headline}" for name, verdict in verdicts.items())
        stale[INDEX] = StalePartition(*INDEX, version, reason="a verdict has changed")
    if canaries:
        from assets.judging.canary import due, today

        incomplete = {one.partition for one in stale.values() if one.asset == "judge_inference" and not one.only_waits}
        for judge in {*due(workspace)} - incomplete:
            why = "it was not asked again today"
            stale["canary", judge] = StalePartition("canary", judge, f"{today()}", reason=why)
    workspace.file_hashes.save()
    return stale


def ready(
    workspace: Workspace, stale: Mapping[Partition, StalePartition], tried: Tried, busy: Collection[Partition] = ()
) -> list[StalePartition]:
    """Return the stale partitions that can be materialised now, except partitions of unfinished runs (``busy``).

    A partition waits for the earlier stages of its test sets that are in progress or can still be requested; the index
    waits for everything. A stale asset of a fit is requested in one run with its stale inputs.
    """
    first: dict[str | None, int] = {}
    for key, one in stale.items():
        if key in busy or tried.may_ask(one):
            for testset in one.testsets or [split_partition(one.asset, str(one.partition))[1]]:
                first[testset] = min(first.get(testset, _FIT_STAGE), _STAGES.get(one.asset, _FIT_STAGE))
    in_fits = {testset for asset, testset in busy if asset in FIT}
    asked: dict[Partition, StalePartition] = {}
    for one in sorted(stale.values(), key=lambda one: ORDER.index(one.asset)):
        judge, testset = split_partition(one.asset, str(one.partition))
        stage, of = (
            _STAGES.get(one.asset, _FIT_STAGE),
            workspace.testsets_of(judge) if judge and not testset else [testset],
        )
        waits = any(first.get(each, stage) < stage for each in of) or (stage == _FIT_STAGE and testset in in_fits)
        if waits or one.key in busy or one.key == INDEX:
            continue
        inputs = [key for asset in _INPUTS.get(one.asset, ()) if (key := (asset, one.partition)) in stale]
        if all(key in asked for key in inputs) and (inputs or tried.may_ask(one)):
            asked[one.key] = one
    index = stale.get(INDEX)
    return [index] if index and not asked and not busy and tried.may_ask(index) else [*asked.values()]
