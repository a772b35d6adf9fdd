"""What of the outdated is made now, for ``care run`` and for the daemon: what waits, and what was tried already."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assets.report.outdated import FIT, Outdated, Partition, State, outdated, states
from assets.report.verdicts import current_verdicts, index_differs
from orchestration.instance import unfinished_runs
from orchestration.launches import partitions_of, split_partition

if TYPE_CHECKING:
    import dagster as dg

    from assets.workspace import Workspace

INDEX = ("report_index", None)
"""The index of all pages, which is made once, at the end."""

_MADE_OF = {
    "probes": ("panel",),
    "moments": ("panel",),
    "structure": ("moments",),
    "aggregates": ("structure", "probes"),
    **dict.fromkeys(("review", "evaluation", "intervals", "systems", "factors"), ("aggregates",)),
    "report": ("review", "evaluation", "intervals", "systems", "factors"),
}
"""What each asset of a test set's fit is made of, among those of the fit."""

_FROM_ITS_RUN = ""
"""Version of what was asked for in one run with what it is made of, so that it is known only when that has ended."""


@dataclass
class Tried:
    """What has been asked for, and how often under the same version.

    Attributes
    ----------
    most : int
        How often the same is asked for.
    asked : dict name -> (version, times)
        Only of what is outdated still.
    """

    most: int
    asked: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def look(self, stale: Mapping[Partition, Outdated], busy: Collection[Partition]) -> None:
        """Forget what has been made, and take note of what was not, although the run that was to make it has ended."""
        by_name = {_name(key): one for key, one in stale.items()}
        self.asked = {name: entry for name, entry in self.asked.items() if name in by_name}
        for name, (version, times) in self.asked.items():
            one = by_name[name]
            if version == _FROM_ITS_RUN and one.key not in busy:
                self.asked[name] = one.version, times

    def may_ask(self, one: Outdated) -> bool:
        """Whether this has not been asked for as often as may be."""
        return self.times(one) < self.most

    def times(self, one: Outdated) -> int:
        """How often this was asked for under its version."""
        version, times = self.asked.get(_name(one.key), (one.version, 0))
        return times if version in (one.version, _FROM_ITS_RUN) else 0

    def note(self, asked: Sequence[Outdated]) -> None:
        """Take note that all of this is asked for."""
        keys = {one.key for one in asked}
        for one in asked:
            rides = any((asset, one.partition) in keys for asset in _MADE_OF.get(one.asset, ()))
            self.asked[_name(one.key)] = _FROM_ITS_RUN if rides else one.version, self.times(one) + 1


def _name(key: Partition) -> str:
    return f"{key[0]} {key[1] or ''}"


def all_outdated(workspace: Workspace, known: Mapping[str, State] | None = None) -> dict[Partition, Outdated]:
    """All that is outdated of the test sets, and the index where it no longer says how things stand.

    Parameters
    ----------
    known : dict test set -> State, optional
        For a caller that has looked at the test sets.
    """
    known = states(workspace) if known is None else known
    found = outdated(workspace, known)
    verdicts = current_verdicts(workspace, known)
    if index_differs(workspace, verdicts):
        version = "; ".join(f"{name}: {verdict.headline}" for name, verdict in verdicts.items())
        found[INDEX] = Outdated(*INDEX, version, says="the index says something else")
    return found


def partitions_under_way(instance: dg.DagsterInstance) -> set[Partition]:
    """Assets, with the partition where they have any, that runs which have not ended are to make."""
    return {
        (key.to_user_string(), partition)
        for record in unfinished_runs(instance)
        for key in record.dagster_run.asset_selection or ()
        for partition in partitions_of(record.dagster_run, key.to_user_string(), instance)
    }


def ready(
    workspace: Workspace, stale: Mapping[Partition, Outdated], tried: Tried, busy: Collection[Partition] = ()
) -> list[Outdated]:
    """What is to be asked for now, of what is outdated.

    A judge waits for the items of its test sets, so that it is loaded once. A fit waits for items and scores, unless
    they were tried in vain: then it goes without. What is made of something in the same run is asked for with it.

    Parameters
    ----------
    stale : mapping
        Of ``all_outdated``, or the part of it that is wanted.
    busy : collection of (asset, partition)
        What runs that have not ended are to make.
    """
    coming = {key for key, one in stale.items() if key in busy or tried.may_ask(one)}
    asked: list[Outdated] = []
    for key, one in stale.items():
        if key not in coming or key in busy or one.asset in FIT or key == INDEX:
            continue
        judge, testset = split_partition(one.asset, str(one.partition))
        of = [testset] if judge is None or one.asset == "scores" else workspace.testsets_of(judge)
        if one.asset not in ("items", "gold") and any(("items", each) in coming for each in of):
            continue
        if one.asset == "scores" and _owes(stale, coming, judge, testset):
            continue
        asked.append(one)
    for testset in sorted({one.partition for one in stale.values() if one.asset in FIT}, key=str):
        if not _waits(stale, coming, busy, str(testset)):
            asked += _of_fit(stale, tried, str(testset))
    if not asked and not busy and INDEX in coming and coming == {INDEX}:
        return [stale[INDEX]]
    return asked


def _owes(
    stale: Mapping[Partition, Outdated], coming: Collection[Partition], judge: str | None, testset: str | None
) -> bool:
    """Whether a judge is still to be asked about a test set."""
    key = ("judge_inference", judge)
    return key in coming and key in stale and testset in stale[key].testsets


def _waits(
    stale: Mapping[Partition, Outdated], coming: Collection[Partition], busy: Collection[Partition], testset: str
) -> bool:
    """Whether a test set's fit is being made, or its items or scores are still to come."""
    if any((asset, testset) in busy for asset in FIT):
        return True
    for key in coming:
        one = stale[key]
        is_input = one.asset in ("items", "scores") and split_partition(one.asset, str(one.partition))[1] == testset
        if is_input or (one.asset == "judge_inference" and testset in one.testsets):
            return True
    return False


def _of_fit(stale: Mapping[Partition, Outdated], tried: Tried, testset: str) -> list[Outdated]:
    """The stages of a fit that can be made: with what they are made of, or where that is up to date."""
    asked: dict[str, Outdated] = {}
    for asset in FIT:
        one = stale.get((asset, testset))
        if one is None:
            continue
        outdated_inputs = [each for each in _MADE_OF.get(asset, ()) if (each, testset) in stale]
        if all(each in asked for each in outdated_inputs) and (outdated_inputs or tried.may_ask(one)):
            asked[asset] = one
    return list(asked.values())
