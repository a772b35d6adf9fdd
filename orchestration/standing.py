"""How test sets stand between nights: failures that are remembered, and verdicts that no page tells yet.

``care run`` tells everything at its end. Runs of Dagster's daemon end one by one, so a sensor looks at what they have
left behind, and asks for the index where a page says something else.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.fit.made import RESULTS
from assets.fit.stages import STAGES
from assets.judging.canary import CHECK, watched
from assets.metadata import reasons_of
from assets.workspace import Workspace
from orchestration.alerts import Alert, Desk, failure_message, opened, without_counts
from orchestration.dagster_internals import materialisations
from orchestration.launches import ORDER, RANGE_START_TAG, split_partition
from orchestration.stores import store_held
from orchestration.workspace import AlertSettings

if TYPE_CHECKING:
    from assets.mount import Mount
    from assets.report.outdated import Partition, State
    from care_ops.results.verdict import Verdict
    from orchestration.workspace import NightlySettings

_PATIENCE_S = 30.0
"""Seconds for which a sensor waits for a store that another machine writes to; its next tick tries again."""

_log = logging.getLogger(__name__)

_TOLD_OTHERWISE = ("scores", "judge_inference", "canary")
"""Assets whose failure a verdict tells in another way, or not at all.

A judge that failed owes scores; a canary makes nothing that a fit needs.
"""

_STANDING = ("held back", "model changed", "system changed", "night late")
"""Kinds of causes that are read from how things stand; others are told when they happen."""

_KIND_OF = {
    **dict.fromkeys(("items", "gold"), "source failed"),
    "judge_inference": "judge failed",
    "scores": "scores failed",
    **dict.fromkeys((*STAGES, "review"), "fit failed"),
    **dict.fromkeys((*RESULTS, "report", "report_index"), "page failed"),
    "canary": "canary failed",
    **dict.fromkeys((*EXPERIMENTS, "experiments"), "experiment failed"),
}
"""Kind of the cause where an asset, or its step, could not be made."""

_MADE_BY = {"experiments": EXPERIMENTS, "what_is_missing": ("night",)}
"""Assets of the steps that have other names than theirs."""

_OURS = (*ORDER, "night")
"""The assets of a workspace, in the order of the stages."""

_UNMADE = " could not be made: "
_LOST = "the process of its run was killed, or its machine was lost. It is still to be made: `care run` makes it."
CANCELED = "its run was canceled. It is still to be made: `care run` makes it."


def partition_of(run: dg.DagsterRun) -> str:
    """The partition of a run, or the first one of its range; empty where it has none."""
    return run.tags.get("dagster/partition") or run.tags.get(RANGE_START_TAG) or ""


def told_testset(asset: str, partition: str | None) -> str | None:
    """The test set whose verdict tells that this partition of an asset failed; None where none does."""
    if not partition or asset in _TOLD_OTHERWISE:
        return None
    return split_partition(asset, partition)[1]


def note_failed_run(
    workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent]
) -> None:
    """Remember what failed in a run of the daemon, for the verdict on its test set.

    Where no step is among the ``failures``, the process of the run was lost.
    """
    if not failures:
        note_unmade(workspace, instance, run, _LOST)
    for event in failures:
        _note(workspace, workspace.mount.asset(str(event.step_key)) or "", partition_of(run), failure_message(event))


def note_unmade(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun, why: str) -> None:
    """Remember the first stage that a run did not come to the end of; those after it wait for this one."""
    partition = partition_of(run)
    unmade = [asset for asset in _unmade(workspace, instance, run) if told_testset(asset, partition)]
    if unmade:
        _note(workspace, unmade[0], partition, why)


def _unmade(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """The assets that a run was still to make, in the order of the stages."""
    made, planned = (
        {workspace.mount.asset(name) for name, _ in materialisations(instance, run.run_id, planned=planned)}
        for planned in (False, True)
    )
    return [asset for asset in _OURS if asset in planned - made]


def _note(workspace: Workspace, asset: str, partition: str, why: str) -> None:
    from assets.report.verdicts import note_failure

    testset = told_testset(asset, partition)
    if testset in workspace.testsets:
        with _store(workspace):
            note_failure(workspace, str(testset), asset, why)


def forget_mended_failures(workspace: Workspace, known: Mapping[str, State]) -> None:
    """Forget the failures of assets that are no longer outdated, where no page has been drawn since."""
    from assets.report.verdicts import known_failures, note_failures

    for testset, state in known.items():
        failing = {one.asset for one in state.outdated}
        failures = known_failures(workspace, testset)
        if failures.keys() - failing:
            with _store(workspace):
                note_failures(workspace, testset, {asset: failures[asset] for asset in failures if asset in failing})


def _store(workspace: Workspace) -> AbstractContextManager[None]:
    """Hold the lease of the workspace's store, if it has one, for the moment of one note; a sensor holds no lock."""
    return store_held(workspace, "a sensor of Dagster", _log.info, _PATIENCE_S, alone=False)


def failure_cause(asset: str, partition: str | None, why: str, kind: str | None = None) -> Alert:
    """Why a person is told that a partition of an asset could not be made."""
    judge, testset = (None, None) if partition is None else split_partition(asset, partition)
    what = f"{asset}{f' of {partition}' if partition else ''}{_UNMADE}{why}"
    return Alert(kind or _KIND_OF.get(asset, "run failed"), what, testset, judge, asset=asset, partition=partition)


def tell_failures(desk: Desk, failures: Iterable[Alert]) -> None:
    """Tell of what failed; scores that lack a judge that has failed, or a judge failing by the same, are no others."""
    causes = sorted(failures, key=lambda cause: ORDER.index(cause.asset) if cause.asset in ORDER else len(ORDER))
    for cause in _of_judges_together(causes):
        why, told = cause.what.partition(_UNMADE)[2], desk.open.values()
        silent = {
            "scores failed": any(alert.kind == "judge failed" and alert.judge == cause.judge for alert in told),
            "judge failed": any(_unnamed(why.removeprefix(f"{a.testset}: ")) in _unnamed(a.what) for a in told),
        }
        if not silent.get(cause.kind):
            desk.tell(cause)


def _of_judges_together(causes: Iterable[Alert]) -> Iterator[Alert]:
    """The causes, those of judges that failed for one reason as one, which names them all."""
    alike: dict[tuple[str, str], list[Alert]] = {}
    for cause in causes:
        reason = _unnamed(cause.what.partition(_UNMADE)[2]) if cause.kind == "judge failed" else cause.what
        alike.setdefault((cause.kind, reason), []).append(cause)
    for first, *others in alike.values():
        names = ", ".join(str(each.judge) for each in (first, *others))
        what = f"{first.asset} of {names}{_UNMADE}{first.what.partition(_UNMADE)[2]}"
        yield replace(first, what=what) if others and first.kind == "judge failed" else first


def _unnamed(reason: str) -> str:
    """A reason without its counts, and without what stands in quotes: names of judges and of their models."""
    return without_counts(re.sub(r"'[^']*'|\"[^\"]*\"", "''", reason))


def failures_of_run(workspace: Workspace, run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent]) -> list[Alert]:
    """What failed in a run, each with its own reason; of a range only what failed of it."""
    found: list[Alert] = []
    for event in failures:
        asset = workspace.mount.asset(str(event.step_key))
        if asset in _KIND_OF or asset in _MADE_BY:  # a step of somebody else in the same run is theirs to tell
            reasons = reasons_of(event.step_failure_data) or {partition_of(run): failure_message(event)}
            for part, why in reasons.items():
                one, partition = (
                    (part, None) if asset == "experiments" and part in EXPERIMENTS else (asset, part or None)
                )
                found.append(failure_cause(one, partition, why))
    return found


def lost_run(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[Alert]:
    """What a run whose process is gone was still to make, first of all."""
    unmade = _unmade(workspace, instance, run)
    partition = partition_of(run) or None
    return [failure_cause(asset, partition, _LOST, "run lost") for asset in unmade[:1]]


def is_ours(workspace_mount: Mount, instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether a run makes anything of this workspace, and not only what others have in the same Dagster."""
    keys = [key.to_user_string() for key in run.asset_selection or ()]
    names = keys or [name for name, _ in materialisations(instance, run.run_id, planned=True)]
    return any(workspace_mount.asset(name) in _OURS for name in names)


def held_back_causes(workspace: Workspace, current: Mapping[str, Verdict]) -> Iterator[Alert]:
    """The fits that are held back, whatever else fails; each once its report has been made."""
    from assets.publication.editions import held_back
    from assets.report.documents import HeldDocument

    for testset, verdict in current.items():
        waiting, held = held_back(workspace, testset), workspace.fit_folder(testset).find(HeldDocument)
        if waiting is not None and held is not None and held.facts.edition == waiting.edition:
            failed = verdict.state == "failed"
            said = " ".join(waiting.says if failed else [verdict.headline, *verdict.first_reasons])
            step = verdict.next_steps[0] if verdict.next_steps and not failed else None
            advice = "" if step is None else " ".join(filter(None, [step.sentence, step.command]))
            yield Alert("held back", f"{testset}: {said}", testset, what_to_do=advice, asset=waiting.edition)


def changed_judges(workspace: Workspace, instance: dg.DagsterInstance) -> Iterator[Alert]:
    """The judges whose canary says that the model behind them has changed."""
    for judge in watched(workspace):
        records = dg.AssetRecordsFilter(workspace.mount.key("canary"), asset_partitions=[judge])
        latest = instance.fetch_materializations(records, limit=1).records
        kept = latest[0].asset_materialization if latest else None
        if kept is not None and CHECK in kept.metadata and not kept.metadata[CHECK].value:
            yield Alert("model changed", f"{judge}: {kept.metadata['says'].value}", judge=judge)


def changed_systems(current: Mapping[str, Verdict]) -> Iterator[Alert]:
    """The test sets of which a system answers in another way than before."""
    for testset, verdict in current.items():
        said = [reason.sentence for reason in verdict.reasons if reason.topic == "system changed"]
        if said:
            yield Alert("system changed", f"{testset}: {' '.join(said)}", testset)


def late_night(nightly: NightlySettings | None, last: float | None) -> Iterator[Alert]:
    """That no night has come to an end by its deadline; nothing where there is none, or there has been none yet.

    The ``last`` one came at this time, in seconds since 1970.
    """
    if nightly is not None and last is not None and time.time() >= nightly.deadline_after(last):
        yield Alert("night late", f"The last night ended {(time.time() - last) / 3600:.0f} hours ago.")


def tell_standing(
    desk: Desk,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    current: Mapping[str, Verdict],
    nightly: NightlySettings | None,
    stale: Callable[[Workspace], Collection[Partition]],
) -> None:
    """Tell of what stands now (a late night, fits that are held back, judges that changed), and of all that is over.

    What is ``stale`` is asked only where an alert of a failure is open.
    """
    from orchestration.instance import last_night

    late = late_night(nightly, last_night(instance, workspace.mount))
    changed = [*changed_judges(workspace, instance), *changed_systems(current)]
    standing = [*late, *held_back_causes(workspace, current), *changed]
    now = {opened(cause, workspace.root.name).key for cause in standing}
    failed = any(alert.kind not in _STANDING for alert in desk.open.values())
    outdated = stale(workspace) if failed else ()

    def is_over(alert: Alert) -> bool:
        if alert.kind in _STANDING:
            return alert.key not in now
        return _is_mended(workspace, instance, alert, outdated)

    desk.resolve(is_over)
    for cause in standing:
        desk.tell(cause)


def _is_mended(
    workspace: Workspace, instance: dg.DagsterInstance, alert: Alert, outdated: Collection[Partition]
) -> bool:
    """Whether what failed has been made since, or is no longer to be made."""
    asset = str(alert.asset)
    if asset in ORDER and asset not in EXPERIMENTS:
        return (asset, alert.partition) not in outdated
    since = datetime.fromisoformat(alert.since).timestamp()
    keys = [workspace.mount.key(each) for each in _MADE_BY.get(asset, (asset,))]
    partitions = None if alert.partition is None else [alert.partition]
    made = [dg.AssetRecordsFilter(key, asset_partitions=partitions, after_timestamp=since) for key in keys]
    return any(instance.fetch_materializations(each, limit=1).records for each in made)


def desk_of(workspace: Workspace, settings: AlertSettings) -> Desk:
    """Where a workspace's alerts are told; the lease of its store is held for the moment of each note."""
    return Desk(settings, workspace.root, workspace.data, partial(_store, workspace))
