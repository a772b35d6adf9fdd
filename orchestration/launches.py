"""Runs of Dagster: which partitions one run materialises, and the tags that say so."""

import logging
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.fit.made import FIT
from assets.mount import UNMOUNTED, Mount
from assets.partitions import JUDGES, TESTSETS, slice_key

_logger = logging.getLogger(__name__)

ORDER = ("items", "gold", "judge_inference", "canary", "scores", *FIT, "report_index", *EXPERIMENTS)
"""Assets in the order of their runs: an asset comes after those that it reads."""

ASSETS = (*ORDER, "night")
"""All assets of a workspace."""

RANGE_START_TAG, RANGE_END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
"""Tags of a run that materialises a range of partitions."""

REASON = "care/reason"
"""Tag of the runs that the schedule or a sensor requests: why."""

TRIED_AGAIN = "care/tried_again"
"""Tag, "true", of runs whose failures the daemon requests once more."""

LAUNCHED_BY, CARE_RUN = "care/launched_by", "care run"
"""Tag of the runs that ``care run`` starts, and its value."""

NO_RETRY = {"dagster/max_retries": "0"}
"""Tags of runs that Dagster does not retry, because ``care run`` or the sensor does."""

_OF_JUDGES = ("judge_inference", "canary", "scores")
"""Assets whose partitions are judges, or judges and test sets."""

Requests = dict[str, set[str | None]]
"""Requested partitions by asset."""


@dataclass(frozen=True)
class Launch:
    """One run: assets that share a partition or a range of partitions (None for assets without partitions)."""

    assets: tuple[str, ...]
    partitions: tuple[str | None, ...]

    @property
    def tags(self) -> dict[str, str]:
        """Tags that tell Dagster the range; empty for assets whose runs have a single partition."""
        if self.assets[0] in ("judge_inference", "scores"):
            return {RANGE_START_TAG: str(self.partitions[0]), RANGE_END_TAG: str(self.partitions[-1])}
        return {}

    @property
    def label(self) -> str:
        """Text for people, such as ``panel > moments mine`` or ``scores x 12``."""
        assets, first = " > ".join(self.assets), self.partitions[0]
        if len(self.partitions) > 1:
            return f"{assets} x {len(self.partitions)}"
        return assets if first is None else f"{assets} {first}"


def requests(keys: Iterable[tuple[str, str | None]]) -> Requests:
    """Group (asset, partition) by asset."""
    requested: Requests = {}
    for asset, partition in keys:
        requested.setdefault(asset, set()).add(partition)
    return requested


def split_partition(asset: str, partition: str) -> tuple[str | None, str | None]:
    """Return (judge, test set) of a partition key; None for a dimension that the asset lacks."""
    if asset == "scores":
        judge, _, testset = partition.partition("|")
        return judge, testset
    return (partition, None) if asset in ("judge_inference", "canary") else (None, partition)


def plan(
    requested: Requests, instance: dg.DagsterInstance, mount: Mount = UNMOUNTED, gpu_judges: Set[str] = frozenset()
) -> list[Launch]:
    """Group requested partitions into runs, in ``ORDER``; partitions that have been deleted are left out.

    Neighbouring partitions of judges and of scores share a run, because a new workspace would start thousands
    otherwise. Judges that wait for a GPU share no run with others. Other assets on the same partition share one, but
    each experiment has its own: what is done stays done when a later one fails.
    """
    judges, testsets = _names(instance, mount)
    asked = requested.get("judge_inference", set())
    stretches = [*_neighbours(judges, asked - gpu_judges), *_neighbours(judges, asked & gpu_judges)]
    launches = [Launch(("judge_inference",), tuple(stretch)) for stretch in stretches]
    launches += [Launch(("scores",), keys) for keys in _rectangles(requested.get("scores", set()), judges, testsets)]
    launches += [Launch((key,), (None,)) for key in EXPERIMENTS if requested.get(key)]
    launches += [Launch(("canary",), (judge,)) for judge in judges if judge in requested.get("canary", ())]
    others = [asset for asset in ORDER if asset not in (*_OF_JUDGES, *EXPERIMENTS)]
    for partition in [*testsets, None]:
        if shared := [asset for asset in others if partition in requested.get(asset, ())]:
            launches.append(Launch(tuple(shared), (partition,)))
    launches.sort(key=lambda launch: ORDER.index(launch.assets[0]))
    if launches:
        _logger.debug("Planned: %s.", "; ".join(launch.label for launch in launches))
    return launches


def _neighbours(names: Sequence[str], wanted: Set[str | None]) -> list[list[str]]:
    """Return the longest stretches of names that are all wanted."""
    return [[*stretch] for is_wanted, stretch in groupby(names, wanted.__contains__) if is_wanted]


def _rectangles(slices: Set[str | None], judges: Sequence[str], testsets: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Cut scores into neighbouring judges x neighbouring test sets, which is what a range can cover."""
    wanted = {judge: {name for name in testsets if str(slice_key(judge, name)) in slices} for judge in judges}
    for columns, rows in groupby(judges, wanted.__getitem__):
        grouped = [*rows]
        for stretch in _neighbours(testsets, {*columns}):
            yield tuple(str(slice_key(judge, testset)) for judge in grouped for testset in stretch)


def planned_by(
    run: dg.DagsterRun, instance: dg.DagsterInstance, mount: Mount = UNMOUNTED
) -> set[tuple[str, str | None]]:
    """Return what a run is to materialise, by its tags: (asset, partition or None)."""
    assets = [asset for key in run.asset_selection or () if (asset := mount.asset(key.to_user_string()))]
    if RANGE_START_TAG not in run.tags:
        return {(asset, run.tags.get("dagster/partition")) for asset in assets}
    judges, testsets = _names(instance, mount)
    planned: set[tuple[str, str | None]] = set()
    for asset in assets:
        first, last = (split_partition(asset, run.tags[tag]) for tag in (RANGE_START_TAG, RANGE_END_TAG))
        rows, columns = _between(judges, first[0], last[0]), _between(testsets, first[1], last[1])
        scores = [str(slice_key(row, column)) for row in rows for column in columns]
        planned |= {(asset, each) for each in (scores if asset == "scores" else rows or columns)}
    return planned


def _names(instance: dg.DagsterInstance, mount: Mount) -> tuple[Sequence[str], Sequence[str]]:
    """Return the judges and the test sets that Dagster knows of a workspace."""
    judges, testsets = (instance.get_dynamic_partitions(mount.name(str(d.name))) for d in (JUDGES, TESTSETS))
    return judges, testsets


def _between(names: Sequence[str], first: str | None, last: str | None) -> Sequence[str]:
    """Return the names from one to another; none where one of them has been deleted."""
    return names[names.index(first) : names.index(last) + 1] if first in names and last in names else []
