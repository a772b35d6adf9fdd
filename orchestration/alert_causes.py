"""Causes of alerts: failed runs, fits that await review, changed judges and late nightly runs.

``care run`` reports all causes when it ends. Runs of Dagster's daemon end at different times, so sensors report failed
runs and the state of the workspace.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from orchestration.alerts import Alert, Notifier, failure_message, opened, without_counts
from orchestration.dagster_internals import materialisations
from orchestration.plan import ASSETS, ORDER, RANGE_START_TAG, split_partition
from orchestration.stores import store_lease
from orchestration.workspace import AlertSettings

if TYPE_CHECKING:
    from assets.mount import Mount
    from assets.report.staleness import Partition, State
    from care_ops.results.verdict import Verdict
    from orchestration.workspace import NightlySettings

_PATIENCE_S = 30.0
"""Seconds that a sensor waits while another machine writes to the store; the next tick tries again."""

_log = logging.getLogger(__name__)

_NOT_IN_VERDICT = ("scores", "judge_inference", "canary")
"""Assets whose failures do not appear in verdicts, because a fit can be computed without these assets."""

_CONDITIONS = ("held back", "model changed", "night late")
"""Kinds of alerts about the state of the workspace; alerts of the other kinds report failures."""

_KIND_OF = {
    **dict.fromkeys(("items", "gold"), "source failed"),
    "judge_inference": "judge failed",
    "scores": "scores failed",
    **dict.fromkeys((*STAGES, "review"), "fit failed"),
    **dict.fromkeys((*RESULTS, "report", "report_index"), "page failed"),
    "canary": "canary failed",
    **dict.fromkeys((*EXPERIMENTS, "experiments"), "experiment failed"),
}
"""Alert kind for a failure of each asset or Dagster step."""

_ASSETS_OF_STEP = {"experiments": EXPERIMENTS, "what_is_missing": ("night",)}
"""Assets of each Dagster step that is not named after an asset."""

_UNMADE = " could not be built: "
_LOST = "the run's process or machine ended unexpectedly; `care run` builds the asset again"


def partition_of(run: dg.DagsterRun) -> str:
    """Return a Dagster run's partition key, or the first key of its range; an empty string if it has no partition."""
    return run.tags.get("dagster/partition") or run.tags.get(RANGE_START_TAG) or ""


def testset_of_failure(asset: str, partition: str | None) -> str | None:
    """Return the test set whose verdict reports a failed partition of an asset; None if no verdict reports it."""
    if not partition or asset in _NOT_IN_VERDICT:
        return None
    return split_partition(asset, partition)[1]


def note_failures_of_run(workspace: Workspace, causes: Iterable[Alert]) -> None:
    """Store the failures of a Dagster run; the verdicts on the test sets then report these failures."""
    from assets.report.verdicts import note_failure

    for cause in causes:
        testset, why = testset_of_failure(str(cause.asset), cause.partition), cause.what.partition(_UNMADE)[2]
        if testset in workspace.testsets:
            with _store(workspace):
                note_failure(workspace, str(testset), str(cause.asset), why)


def forget_resolved_failures(workspace: Workspace, current: Mapping[str, State]) -> None:
    """Delete the stored failures of assets that are no longer stale."""
    from assets.report.verdicts import known_failures, note_failures

    for testset, state in current.items():
        failing = {one.asset for one in state.stale}
        failures = known_failures(workspace, testset)
        if failures.keys() - failing:
            with _store(workspace):
                note_failures(workspace, testset, {asset: failures[asset] for asset in failures if asset in failing})


def _store(workspace: Workspace) -> AbstractContextManager[None]:
    return store_lease(workspace, "a sensor of Dagster", _log.info, _PATIENCE_S)


def failure_cause(asset: str, partition: str | None, why: str, kind: str | None = None) -> Alert:
    """Build the alert for a failed partition of an asset."""
    judge, testset = (None, None) if partition is None else split_partition(asset, partition)
    what = f"{asset}{f' of {partition}' if partition else ''}{_UNMADE}{why}"
    return Alert(kind or _KIND_OF.get(asset, "run failed"), what, testset, judge, asset=asset, partition=partition)


def report_failures(notifier: Notifier, failures: Iterable[Alert]) -> None:
    """Record an alert for each failure, unless the failure is a consequence of another failure with an open alert.

    If a judge failed, the failure to load its scores gets no alert. If judges fail for the same reason, they share one
    alert.
    """
    causes = sorted(failures, key=lambda cause: ORDER.index(cause.asset) if cause.asset in ORDER else len(ORDER))
    for cause in _grouped_by_reason(causes):
        why, reported = cause.what.partition(_UNMADE)[2], notifier.open.values()
        alike = [a for a in reported if _unnamed(why.removeprefix(f"{a.testset}: ")) in _unnamed(a.what)]
        failed = {judge for a in reported if a.kind == "judge failed" for judge in (a.judge, *a.shared_by)}
        if cause.kind == "judge failed" and alike:
            judges = {str(cause.judge), *cause.shared_by, *alike[0].shared_by} - {alike[0].judge}
            if alike[0].kind == cause.kind:
                notifier.report(replace(alike[0], shared_by=tuple(sorted(judges))))
        elif cause.kind != "scores failed" or cause.judge not in failed:
            notifier.report(cause)


def _grouped_by_reason(causes: Iterable[Alert]) -> Iterator[Alert]:
    alike: dict[tuple[str, str], list[Alert]] = {}
    for cause in causes:
        reason = _unnamed(cause.what.partition(_UNMADE)[2]) if cause.kind == "judge failed" else cause.what
        alike.setdefault((cause.kind, reason), []).append(cause)
    for first, *others in alike.values():
        names = tuple(str(each.judge) for each in others)
        what = f"{first.asset} of {', '.join([str(first.judge), *names])}{_UNMADE}{first.what.partition(_UNMADE)[2]}"
        yield replace(first, what=what, shared_by=names) if others and first.kind == "judge failed" else first


def _unnamed(reason: str) -> str:
    """Remove numbers and quoted text, such as names of judges and models, from the reason for a failure."""
    return without_counts(re.sub(r"'[^']*'|\"[^\"]*\"", "''", reason))


def failures_of_run(
    workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent]
) -> list[Alert]:
    """Return an alert for each failed partition of a run, with the reason for the failure.

    If a failed run has no failed step, its process was killed; the only alert then names the first unfinished asset.
    """
    found: list[Alert] = []
    for event in failures:
        asset = workspace.mount.asset(str(event.step_key))
        if asset in _KIND_OF or asset in _ASSETS_OF_STEP:  # others may have steps in the same run
            reasons = reasons_of(event.step_failure_data) or {partition_of(run): failure_message(event)}
            for part, why in reasons.items():
                is_experiment = asset == "experiments" and part in EXPERIMENTS
                place = (part, None) if is_experiment else (asset, part or None)
                found.append(failure_cause(*place, why))
    if failures:
        return found
    made, planned = (
        {workspace.mount.asset(name) for name, _ in materialisations(instance, run.run_id, planned=planned)}
        for planned in (False, True)
    )
    lost = [asset for asset in ASSETS if asset in planned - made][:1]
    return [failure_cause(asset, partition_of(run) or None, _LOST, "run lost") for asset in lost]


def is_ours(workspace_mount: Mount, instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return whether a run materialises an asset of this workspace; other projects may share the Dagster instance."""
    keys = [key.to_user_string() for key in run.asset_selection or ()]
    names = keys or [name for name, _ in materialisations(instance, run.run_id, planned=True)]
    return any(workspace_mount.asset(name) in ASSETS for name in names)


def _blocked_fits(workspace: Workspace, current: Mapping[str, Verdict]) -> Iterator[Alert]:
    from assets.publication.fit_versions import blocked_fit
    from assets.report.documents import HeldDocument

    for testset, verdict in current.items():
        waiting, held = blocked_fit(workspace, testset), workspace.fit_folder(testset).find(HeldDocument)
        if waiting is not None and held is not None and held.facts.fit_version == waiting.fit_version:
            failed = verdict.state == "failed"
            reasons = " ".join(waiting.messages if failed else [verdict.headline, *verdict.first_reasons])
            step = verdict.next_steps[0] if verdict.next_steps and not failed else None
            advice = "" if step is None else " ".join(filter(None, [step.sentence, step.command]))
            yield Alert("held back", f"{testset}: {reasons}", testset, what_to_do=advice, asset=waiting.fit_version)


def _changed_judges(workspace: Workspace, instance: dg.DagsterInstance) -> Iterator[Alert]:
    for judge in watched(workspace):
        records = dg.AssetRecordsFilter(workspace.mount.key("canary"), asset_partitions=[judge])
        latest = instance.fetch_materializations(records, limit=1).records
        kept = latest[0].asset_materialization if latest else None
        if kept is not None and CHECK in kept.metadata and not kept.metadata[CHECK].value:
            message = kept.metadata.get("message") or kept.metadata["says"]  # the name in older records
            yield Alert("model changed", f"{judge}: {message.value}", judge=judge)


def _late_run(nightly: NightlySettings | None, last: float | None) -> Iterator[Alert]:
    if nightly is not None and last is not None and time.time() >= nightly.deadline_after(last):
        yield Alert("night late", f"A nightly run is late: the last one began {(time.time() - last) / 3600:.0f} h ago.")


def report_conditions(
    notifier: Notifier,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    current: Mapping[str, Verdict],
    nightly: NightlySettings | None,
) -> None:
    """Report late nightly runs, blocked fits and changed judges; resolve alerts whose cause no longer exists."""
    from orchestration.instance import last_nightly_run
    from orchestration.plan import find_stale

    late = _late_run(nightly, last_nightly_run(instance, workspace.mount))
    conditions = [*late, *_blocked_fits(workspace, current), *_changed_judges(workspace, instance)]
    keys = {opened(cause, workspace.root.name).key for cause in conditions}
    has_failures = any(alert.kind not in _CONDITIONS for alert in notifier.open.values())
    stale = find_stale(workspace) if has_failures else ()

    def is_over(alert: Alert) -> bool:
        if alert.kind in _CONDITIONS:
            return alert.key not in keys
        return _is_fixed(workspace, instance, alert, stale)

    notifier.resolve(is_over)
    for cause in conditions:
        notifier.report(cause)


def _is_fixed(workspace: Workspace, instance: dg.DagsterInstance, alert: Alert, stale: Collection[Partition]) -> bool:
    asset = str(alert.asset)
    if asset in ORDER and asset not in EXPERIMENTS:
        return not any((asset, partition) in stale for partition in (alert.partition, *alert.shared_by))
    since = datetime.fromisoformat(alert.since).timestamp()
    keys = [workspace.mount.key(each) for each in _ASSETS_OF_STEP.get(asset, (asset,))]
    partitions = None if alert.partition is None else [alert.partition]
    made = [dg.AssetRecordsFilter(key, asset_partitions=partitions, after_timestamp=since) for key in keys]
    return any(instance.fetch_materializations(each, limit=1).records for each in made)


def notifier_of(workspace: Workspace, settings: AlertSettings) -> Notifier:
    """Build a workspace's notifier, which holds the remote store's write lease while it changes the alert log."""
    return Notifier(settings, workspace.root, workspace.data, partial(_store, workspace))
