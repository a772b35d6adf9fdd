"""What of the outdated is made now, for ``care run`` and for the daemon: what waits, and what was tried already."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg

from assets.fit.made import FIT, RESULTS
from assets.mount import ALONE, Mount
from assets.report.outdated import Outdated, Partition, State, outdated, states
from assets.report.verdicts import current_verdicts, index_differs
from assets.workspace import Workspace
from orchestration.instance import (
    backfills_under_way,
    follow_partitions,
    last_night,
    tell_unchanged,
    unfinished_runs,
)
from orchestration.launches import NO_RETRY, REASON, TRIED_AGAIN, Launch, plan, promised_by, requests, split_partition
from orchestration.standing import forget_mended_failures

_ATTEMPTS = 2
"""How often the daemon asks for the same: once, and once more where that failed."""

_LONGEST_TAG = 200

_NIGHT_IS_NEW_S = 3600.0
"""A sensor that has never looked before takes an older night for one that is over."""

INDEX = ("report_index", None)
"""The index of all pages, which is made once, at the end."""

_MADE_OF = {
    "probes": ("panel",),
    "moments": ("panel",),
    "structure": ("moments",),
    "aggregates": ("structure", "probes"),
    **dict.fromkeys(("review", *RESULTS), ("aggregates",)),
    "report": ("review", *RESULTS),
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
        Of judges, and of what is outdated still.
    """

    most: int
    asked: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def look(self, stale: Mapping[Partition, Outdated], busy: Collection[Partition]) -> None:
        """Forget what has been made, and take note of what was not, although the run that was to make it has ended."""
        by_name = {_name(key): one for key, one in stale.items()}
        lasting = ("judge_inference", "canary")  # a judge that has answered may owe what it failed on
        self.asked = {n: e for n, e in self.asked.items() if n in by_name or n.partition(" ")[0] in lasting}
        for name, (version, times) in self.asked.items():
            one = by_name.get(name)
            if version == _FROM_ITS_RUN and one is not None and one.key not in busy:
                self.asked[name] = one.version, times

    def may_ask(self, one: Outdated) -> bool:
        """Whether this has not been asked for as often as may be."""
        return self.times(one) < (1 if one.only_waits else self.most)

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

    A caller that has looked at the test sets hands on what is ``known``.
    """
    known = states(workspace) if known is None else known
    found = outdated(workspace, known)
    verdicts = current_verdicts(workspace, known)
    if index_differs(workspace, verdicts):
        version = "; ".join(f"{name}: {verdict.headline}" for name, verdict in verdicts.items())
        found[INDEX] = Outdated(*INDEX, version, says="the index says something else")
    workspace.file_hashes.save()
    return found


def due_canaries(workspace: Workspace, stale: Mapping[Partition, Outdated]) -> dict[Partition, Outdated]:
    """The judges that are to be asked again today, except those that still owe scores."""
    from assets.judging.canary import due, today

    owing = {one.partition for one in stale.values() if one.asset == "judge_inference" and not one.only_waits}
    says = "it was not asked again today"
    asked = [Outdated("canary", judge, f"{today()}", says=says) for judge in due(workspace) if judge not in owing]
    return {one.key: one for one in asked}


def partitions_under_way(instance: dg.DagsterInstance, mount: Mount = ALONE) -> set[Partition]:
    """Assets, with the partition where they have any, that runs which have not ended are to make."""
    return {key for record in unfinished_runs(instance) for key in promised_by(record.dagster_run, instance, mount)}


def ready(
    workspace: Workspace, stale: Mapping[Partition, Outdated], tried: Tried, busy: Collection[Partition] = ()
) -> list[Outdated]:
    """What is to be asked for now, of what is outdated (``all_outdated``), or of the part of it that is wanted.

    A judge waits for the items of its test sets, so that it is loaded once. A fit waits for items and scores, unless
    they were tried in vain: then it goes without. What is made of something in the same run is asked for with it. What
    runs that have not ended are to make is ``busy``.
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
        asking = ("judge_inference", judge)
        if one.asset == "scores" and asking in coming and testset in stale[asking].testsets:
            continue
        asked.append(one)
    for testset in sorted({one.partition for one in stale.values() if one.asset in FIT}, key=str):
        if not _waits(stale, coming, busy, str(testset)):
            asked += _of_fit(stale, tried, str(testset))
    if not asked and not busy and INDEX in coming:
        return [stale[INDEX]]
    return asked


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


@dataclass(frozen=True)
class Seen:
    """What the sensor that asks for the outdated knows from its last look.

    Attributes
    ----------
    tried : dict name -> (version, times)
        What it has asked for and is outdated still.
    night : float or None
        When the last night began. What failed before it may be asked for once more.
    at_work : bool
        Whether something of that night was still to be asked for or under way.
    moment : str
        Hash of the runs that had not ended, and of the times of the workspace's own files.
    looked_at : float
        When it last looked, in seconds since 1970.
    """

    tried: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    night: float | None = None
    at_work: bool = False
    moment: str = ""
    looked_at: float = 0.0


def look(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    seen: Seen,
    *,
    only_at_night: bool = False,
    run_key: str | None = None,
) -> tuple[list[dg.RunRequest], Seen]:
    """What is outdated and to be asked for, and what is remembered of it.

    What failed is asked for once more, and then left alone until what it is made of changes or the next night comes.

    Parameters
    ----------
    only_at_night : bool
        Ask for nothing between nights. A night begins with the asset `night`, and ends when nothing of it is left to
        be asked for, under way or in a batch of an endpoint.
    run_key : str, optional
        What the key of each run begins with; given by the schedule.
    """
    follow_partitions(workspace, instance)  # a partition has to be there to be asked for
    mount = workspace.mount
    night = last_night(instance, mount)
    begins = night != seen.night
    if only_at_night and not seen.at_work:
        since = time.time() - _NIGHT_IS_NEW_S if seen.night is None else seen.night
        if night is None or night <= since:
            return [], replace(seen, night=night)
    tried = Tried(_ATTEMPTS, {} if begins else dict(seen.tried))
    known, busy = states(workspace), partitions_under_way(instance, mount)
    forget_mended_failures(workspace, known)
    stale = all_outdated(workspace, known)
    stale |= due_canaries(workspace, stale)
    tried.look(stale, busy)
    if begins:
        tried.note([one for key, one in stale.items() if key in busy])  # the schedule has asked for it
    waits = backfills_under_way(instance, mount)
    asked = [] if waits else ready(workspace, stale, tried, busy)
    first = {one.key for one in asked if not tried.times(one)}
    tried.note(asked)
    apart = {name for name, judge in workspace.judges.items() if judge.engine.needs.model}
    launches = plan(requests(one.key for one in asked), instance, mount, apart)
    at_work = bool(asked or waits or busy or any(one.only_waits for one in stale.values()))
    if seen.at_work and not at_work:
        tell_unchanged(workspace, instance, stale)
    seen = replace(seen, tried=tried.asked, night=night, at_work=at_work)
    return [_request(launch, stale, first, mount, run_key) for launch in launches], seen


def _request(
    launch: Launch, stale: Mapping[Partition, Outdated], first: set[Partition], mount: Mount, run_key: str | None
) -> dg.RunRequest:
    """A run of Dagster: with the reason in its tags, and whether what fails in it is asked for once more."""
    keys = [(asset, partition) for asset in launch.assets for partition in launch.partitions]
    tags = {**launch.tags, **NO_RETRY, REASON: stale[keys[0]].why[:_LONGEST_TAG]}
    if first.issuperset(keys):
        tags[TRIED_AGAIN] = "true"
    if not launch.tags and launch.partitions[0] is not None:
        tags["dagster/partition"] = launch.partitions[0]  # a sensor cannot resolve a `partition_key` of dynamic ones
    key = run_key and f"{run_key} {launch.label} {launch.partitions[0] or ''}"
    return dg.RunRequest(key, asset_selection=[mount.key(asset) for asset in launch.assets], tags=tags)
