"""Dagster run requests for stale partitions whose inputs are ready, as the daemon's sensor sends them."""

from __future__ import annotations

import time
from dataclasses import replace

import dagster as dg

from assets.report.staleness import states
from assets.workspace import Workspace
from orchestration.alert_causes import forget_resolved_failures
from orchestration.instance import (
    delete_old_runs,
    follow_partitions,
    last_nightly_run,
    partitions_under_way,
    report_unchanged,
)
from orchestration.plan import Cursor, find_stale, plan

_IS_NEW_S = 3600.0
"""Age in seconds above which the first tick of a sensor ignores a nightly run."""


def request_stale(
    workspace: Workspace, instance: dg.DagsterInstance, seen: Cursor, *, only_nightly: bool = False
) -> tuple[list[dg.RunRequest], Cursor]:
    """Return run requests for stale partitions, and the next cursor.

    A failed partition is requested once more. After that, it waits until its inputs change or the next nightly run
    begins.

    Parameters
    ----------
    only_nightly : bool
        Whether to request partitions only during a nightly run, which begins with the asset `night`. The run ends when
        no partition has to be requested, is in progress, or waits for an endpoint's Batch API.
    """
    follow_partitions(workspace, instance)  # only a partition that Dagster knows can be requested
    mount, began = workspace.mount, last_nightly_run(instance, workspace.mount)
    begins = began != seen.run_began
    if only_nightly and not seen.at_work:
        since = time.time() - _IS_NEW_S if seen.run_began is None else seen.run_began
        if began is None or began <= since:
            return [], replace(seen, run_began=began)
    if begins:
        delete_old_runs(workspace, instance)
    cursor = replace(seen, tried={} if begins else dict(seen.tried), run_began=began)
    known, busy = states(workspace), partitions_under_way(instance, mount)
    forget_resolved_failures(workspace, known)
    stale = find_stale(workspace, known, canaries=True)
    asked = cursor.request(workspace, stale, busy)
    cursor.at_work = bool(asked or busy or any(one.only_waits for one in stale.values()))
    if seen.at_work and not cursor.at_work:
        report_unchanged(workspace, instance, stale)
    first = {one.key for one in asked if cursor.times(one) == 1}
    gpu_judges = {name for name, judge in workspace.judges.items() if judge.engine.needs.model}
    return plan(asked, instance, mount, gpu_judges, first), cursor
