"""How test sets stand between nights: failures that are remembered, and verdicts that no page tells yet.

``care run`` tells everything at its end. Runs of Dagster's daemon end one by one, so a sensor looks at what they have
left behind, and asks for the index where a page says something else.

Belongs here: what a sensor notes and finds. Belongs elsewhere: the sensors (``sensors``), the verdict
(``assets.report.verdicts``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import dagster as dg

from assets.hashing import content_hash
from assets.partitions import TESTSETS
from orchestration.alerts import failure_message
from orchestration.dagster_internals import RANGE_START_TAG
from orchestration.launches import split_partition

if TYPE_CHECKING:
    from assets.workspace import Workspace

_TOLD_OTHERWISE = ("review", "scores", "judge_inference")
"""Assets whose failure a verdict tells in another way: a review holds back, and a judge that failed owes scores."""


def partition_of(run: dg.DagsterRun) -> str:
    """The partition of a run, or the first one of its range; empty where it has none."""
    return run.tags.get("dagster/partition") or run.tags.get(RANGE_START_TAG) or ""


def told_testset(asset: str, partition: str | None) -> str | None:
    """The test set whose verdict tells that this partition of an asset failed; None where none does."""
    if not partition or asset in _TOLD_OTHERWISE:
        return None
    return split_partition(asset, partition)[1]


def note_failed_run(workspace: Workspace, run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent]) -> None:
    """Remember what failed in a run of the daemon, for the verdict on its test set."""
    from assets.report.verdicts import note_failure

    for event in failures:
        asset = str(event.step_key)
        testset = told_testset(asset, partition_of(run))
        if testset in workspace.testsets:
            note_failure(workspace, str(testset), asset, failure_message(event))


def forget_mended_failures(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Forget the failures of assets whose last run was good, where no page has been drawn since."""
    from assets.report.verdicts import failed_assets, forget_mended
    from orchestration.instance import partition_statuses

    for testset in workspace.testsets:
        assets = failed_assets(workspace, testset)
        if assets:
            statuses = {asset: partition_statuses(instance, asset, TESTSETS).get(testset) for asset in assets}
            forget_mended(workspace, testset, [asset for asset, status in statuses.items() if status == "FAILED"])


def untold_verdicts(workspace: Workspace) -> str:
    """A hash of the verdicts that pages and index do not show yet; empty where they show all of them."""
    from assets.judging.failures import unheard
    from assets.report.verdicts import shown, untold

    if not workspace.warehouse.usable():
        return ""
    with workspace.warehouse.reader() as connection:
        owing = {testset: unheard(workspace, connection, testset) for testset in shown(workspace)}
    verdicts = untold(workspace, owing)
    return content_hash({name: asdict(verdict) for name, verdict in verdicts.items()}) if verdicts else ""
