"""Which runs make what is asked for: assets and partitions grouped into launches.

Belongs here: the order of the stages, and the grouping. Does not: deciding what is stale, running it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.partitions import JUDGES, TESTSETS, slice_key

_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"
ORDER = (
    "items",
    "gold",
    "judge_inference",
    "scores",
    "panel",
    "moments",
    "structure",
    "aggregates",
    "review",
    "evaluation",
    "intervals",
    "systems",
    "factors",
    "report",
    "report_index",
    *EXPERIMENTS,
)


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
    for asset in ORDER:
        partitions = requested.get(asset, set())
        if asset == "judge_inference":
            present = {p for p in partitions if p in judges}
            launches += [_range(asset, run[0], run[-1], run) for run in _neighbours(present, judges)]
        elif asset == "scores":
            launches += _grids(partitions, judges, testsets)
        else:
            for partition in partitions:
                if asset in EXPERIMENTS:  # a run each: what is done stays done
                    launches.append(Launch((asset,), (partition,), {}))
                elif partition is None or partition in testsets:
                    by_partition.setdefault(partition, []).append(asset)
    ordered = sorted(by_partition.items(), key=lambda entry: (ORDER.index(entry[1][0]), str(entry[0])))
    launches += [Launch(tuple(assets), (partition,), {}) for partition, assets in ordered]
    return sorted(launches, key=lambda launch: ORDER.index(launch.assets[0]))


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
