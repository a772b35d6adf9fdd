"""How test sets stand between nights: failures that are remembered, and verdicts that no page tells yet.

``care run`` tells everything at its end. Runs of Dagster's daemon end one by one, so a sensor looks at what they have
left behind, and asks for the index where a page says something else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import dagster as dg

from assets.workspace import Workspace
from orchestration.alerts import failure_message, night_text, send
from orchestration.dagster_internals import (
    RANGE_START_TAG,
    materialisations,
    planned_materialisations,
)
from orchestration.launches import ORDER, split_partition
from orchestration.stores import store_held
from orchestration.workspace import AlertSettings

if TYPE_CHECKING:
    from assets.report.outdated import State
    from care_ops.results.verdict import Verdict

_PATIENCE_S = 30.0
"""Seconds for which a sensor waits for a store that another machine writes to; its next tick tries again."""

_log = logging.getLogger(__name__)

_TOLD_OTHERWISE = ("scores", "judge_inference", "canary")
"""Assets whose failure a verdict tells in another way, or not at all.

A judge that failed owes scores; a canary makes nothing that a fit needs.
"""

_LOST = "the process of its run was killed, or its machine was lost. It is still to be made: `care run` makes it."
_CANCELED = "its run was canceled. It is still to be made: `care run` makes it."


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

    Parameters
    ----------
    failures : sequence of DagsterEvent
        The steps that failed; none where the process of the run was lost.
    """
    if not failures:
        _note_unmade(workspace, instance, run, _LOST)
    for event in failures:
        _note(workspace, str(event.step_key), partition_of(run), failure_message(event))


def note_canceled_run(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Remember what a run was still to make when a person canceled it."""
    _note_unmade(workspace, instance, run, _CANCELED)


def _note_unmade(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun, why: str) -> None:
    """Remember the first stage that a run did not come to the end of; those after it wait for this one."""
    partition = partition_of(run)
    made = {asset for asset, _ in materialisations(instance, run.run_id)}
    planned = {asset for asset, _ in planned_materialisations(instance, run.run_id)}
    unmade = [asset for asset in ORDER if asset in planned - made and told_testset(asset, partition)]
    if unmade:
        _note(workspace, unmade[0], partition, why)


def _note(workspace: Workspace, asset: str, partition: str, why: str) -> None:
    from assets.report.verdicts import note_failure

    testset = told_testset(asset, partition)
    if testset in workspace.testsets:
        with _store(workspace):
            note_failure(workspace, str(testset), asset, why)


def forget_mended_failures(workspace: Workspace, known: Mapping[str, State]) -> None:
    """Forget the failures of assets that are no longer outdated, where no page has been drawn since.

    Parameters
    ----------
    known : dict test set -> State
        Of ``assets.report.outdated.states``.
    """
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


def waiting_unalerted(workspace: Workspace, current: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts on fits that are held back and of which no alert has told; each once its report has been made."""
    from assets.report.documents import AlertedDocument, HeldDocument

    found: dict[str, Verdict] = {}
    for testset, verdict in current.items():
        if verdict.state == "held back":
            folder = workspace.fit_folder(testset)
            held, alerted = HeldDocument.find(folder), AlertedDocument.find(folder)
            is_told = alerted is not None and alerted.edition == verdict.edition
            if held is not None and held.facts.edition == verdict.edition and not is_told:
                found[testset] = verdict
    return found


def note_alerted(workspace: Workspace, told: Mapping[str, Verdict]) -> None:
    """Remember that an alert has told of fits that are held back; the caller holds the workspace or its store."""
    from assets.report.documents import AlertedDocument

    for testset, verdict in told.items():
        AlertedDocument(str(verdict.edition)).write(workspace.fit_folder(testset))


def alert_waiting(workspace: Workspace, current: Mapping[str, Verdict], settings: AlertSettings) -> None:
    """Send an alert of fits that are held back, where none has been sent and care.yaml says where to."""
    waiting = waiting_unalerted(workspace, current)
    if waiting and send(settings, workspace.root, night_text(workspace.root.name, waiting, {})):
        with _store(workspace):
            note_alerted(workspace, waiting)
