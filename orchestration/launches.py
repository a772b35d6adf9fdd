"""Which runs make what is asked for: assets and partitions grouped into launches."""

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.fit.made import FIT
from assets.mount import ALONE, Mount
from assets.partitions import JUDGES, TESTSETS, slice_key
from orchestration.dagster_internals import RANGE_END_TAG, RANGE_START_TAG

_logger = logging.getLogger(__name__)

ORDER = ("items", "gold", "judge_inference", "canary", "scores", *FIT, "report_index", *EXPERIMENTS)
"""The stages of a night, then experiments: a launch never comes before one whose result it reads."""

REASON = "care/reason"
"""Tag of the runs that the schedule or a sensor asks for: why."""

TRIED_AGAIN = "care/tried_again"
"""Tag of the runs of which the daemon asks once more for what fails; its value is true."""

LAUNCHED_BY, CARE_RUN = "care/launched_by", "care run"
"""Tag of the runs that ``care run`` starts, and its value."""

NO_RETRY = {"dagster/max_retries": "0"}
"""Tags of runs that whoever asked for them tries again."""

Requests = dict[str, set[str | None]]
"""Partitions that are asked for, by asset."""

_OF_JUDGES = ("judge_inference", "canary", "scores")
"""Assets whose partitions are judges, or judges and test sets."""


@dataclass(frozen=True)
class Launch:
    """One run to be started: assets that share a partition or a range of partitions.

    Attributes
    ----------
    partitions : tuple of str
        One, or all of a range; a single None for assets without partitions.
    tags : dict
        How Dagster is told a range; empty for a single partition.
    """

    assets: tuple[str, ...]
    partitions: tuple[str | None, ...]
    tags: dict[str, str]

    @property
    def label(self) -> str:
        """The launch as a person reads it, such as ``panel > moments mine`` or ``scores x 12``."""
        assets, first = " > ".join(self.assets), self.partitions[0]
        if len(self.partitions) > 1:
            return f"{assets} x {len(self.partitions)}"
        return assets if first is None else f"{assets} {first}"


def requests(keys: Iterable[tuple[str, str | None]]) -> Requests:
    """Partitions by asset, of assets with their partitions."""
    asked: Requests = {}
    for asset, partition in keys:
        asked.setdefault(asset, set()).add(partition)
    return asked


def split_partition(asset: str, partition: str) -> tuple[str | None, str | None]:
    """(judge, test set) of a partition key; None for a dimension that the asset lacks."""
    if asset == "scores":
        judge, _, testset = partition.partition("|")
        return judge, testset
    return (partition, None) if asset in ("judge_inference", "canary") else (None, partition)


def plan(
    requested: Requests, instance: dg.DagsterInstance, mount: Mount = ALONE, apart: Set[str] = frozenset()
) -> list[Launch]:
    """Turn requested partitions into runs, in the order of the stages.

    Neighbouring partitions of judges and of scores share a run, so that a fresh deployment starts tens of runs, not
    thousands; the judges ``apart`` share none with others, since they wait for a GPU. Other assets that are asked for
    on the same partition share one. Partitions that have been deleted meanwhile are left out.
    """
    judges, testsets = _names(instance, mount)
    asked = requested.get("judge_inference", set())
    stretches = [*_neighbours(asked - apart, judges), *_neighbours(asked & apart, judges)]
    launches = [_range("judge_inference", stretch) for stretch in stretches]
    launches += _grids(requested.get("scores", set()), judges, testsets)
    # Each experiment has a run of its own, so that what is done stays done when a later one fails.
    launches += [Launch((key,), (None,), {}) for key in EXPERIMENTS if requested.get(key)]
    launches += [Launch(("canary",), (judge,), {}) for judge in judges if judge in requested.get("canary", ())]
    launches += _shared(requested, testsets)
    launches = sorted(launches, key=lambda launch: ORDER.index(launch.assets[0]))
    if launches:
        _logger.debug("Planned: %s.", "; ".join(launch.label for launch in launches))
    return launches


def _shared(requested: Mapping[str, Set[str | None]], testsets: Sequence[str]) -> list[Launch]:
    """A launch for each test set, and one for assets without partitions, with all of its assets that are asked for."""
    assets_of: dict[str | None, list[str]] = {}
    for asset in ORDER:
        if asset in _OF_JUDGES or asset in EXPERIMENTS:
            continue
        for partition in requested.get(asset, ()):
            if partition is None or partition in testsets:
                assets_of.setdefault(partition, []).append(asset)
    in_order = sorted(assets_of.items(), key=lambda entry: (ORDER.index(entry[1][0]), str(entry[0])))
    return [Launch(tuple(assets), (partition,), {}) for partition, assets in in_order]


def _neighbours(requested: Set[str | None], names: Sequence[str]) -> list[list[str]]:
    """The longest stretches of ``names`` that are all requested."""
    return [[*stretch] for is_requested, stretch in groupby(names, requested.__contains__) if is_requested]


def _grids(partitions: set[str | None], judges: Sequence[str], testsets: Sequence[str]) -> list[Launch]:
    """Slices as rectangles of neighbouring judges and neighbouring test sets, which is what a range can cover."""
    testsets_of: dict[str, set[str]] = {}
    for partition in partitions:
        judge, testset = split_partition("scores", str(partition))
        if judge in judges and testset in testsets:
            testsets_of.setdefault(str(judge), set()).add(str(testset))
    judges_with: dict[frozenset[str], set[str]] = {}
    for judge in judges:
        if judge in testsets_of:
            judges_with.setdefault(frozenset(testsets_of[judge]), set()).add(judge)
    return [
        _range("scores", [str(slice_key(judge, testset)) for judge in rows for testset in columns])
        for wanted_testsets, alike in judges_with.items()
        for rows in _neighbours(alike, judges)
        for columns in _neighbours(wanted_testsets, testsets)
    ]


def partitions_of(
    run: dg.DagsterRun, asset: str, instance: dg.DagsterInstance, mount: Mount = ALONE
) -> Sequence[str | None]:
    """The partitions of an asset that a run is to make, by its tags."""
    first, last = run.tags.get(RANGE_START_TAG), run.tags.get(RANGE_END_TAG)
    if first is None or last is None:
        return [run.tags.get("dagster/partition")]
    judges, testsets = _names(instance, mount)
    begin, end = split_partition(asset, first), split_partition(asset, last)
    rows, columns = _between(judges, begin[0], end[0]), _between(testsets, begin[1], end[1])
    if asset == "scores":
        return [str(slice_key(judge, testset)) for judge in rows for testset in columns]
    return rows or columns


def promised_by(run: dg.DagsterRun, instance: dg.DagsterInstance, mount: Mount = ALONE) -> set[tuple[str, str | None]]:
    """Assets, with the partition where they have any, that a run is to make."""
    assets = (mount.asset(key.to_user_string()) for key in run.asset_selection or ())
    return {(asset, each) for asset in assets if asset for each in partitions_of(run, asset, instance, mount)}


def _names(instance: dg.DagsterInstance, mount: Mount) -> tuple[Sequence[str], Sequence[str]]:
    """The judges and the test sets that Dagster knows of a workspace."""
    kinds = (JUDGES, TESTSETS)
    judges, testsets = (instance.get_dynamic_partitions(mount.name(str(kind.name))) for kind in kinds)
    return judges, testsets


def _between(names: Sequence[str], first: str | None, last: str | None) -> list[str]:
    """The names from one to another; none where one of them has left."""
    if first not in names or last not in names:
        return []
    return list(names[names.index(first) : names.index(last) + 1])


def _range(asset: str, partitions: Sequence[str]) -> Launch:
    return Launch((asset,), tuple(partitions), {RANGE_START_TAG: partitions[0], RANGE_END_TAG: partitions[-1]})
