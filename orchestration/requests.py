"""Run requests of the daemon's sensor for stale partitions whose inputs are ready."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

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
from orchestration.plan import Tried, find_stale, plan

_ATTEMPTS = 2
"""Largest number of requests for the same version of a partition."""

_IS_NEW_S = 3600.0
"""Age in seconds above which the first tick of a sensor ignores a nightly run."""


@dataclass(frozen=True)
class Cursor:
    """Cursor of the sensor that requests stale partitions.

    Attributes
    ----------
    tried : dict name -> (version, times)
        Value of ``Tried.asked`` after the last tick.
    run_began : float or None
        Start of the last nightly run; partitions that failed before this time may be requested once more.
    at_work : bool
        Whether partitions of that nightly run were still to be requested or in progress.
    """

    tried: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    run_began: float | None = None
    at_work: bool = False


def request_stale(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    seen: Cursor,
    *,
    only_nightly: bool = False,
) -> tuple[list[dg.RunRequest], Cursor]:
    """Return run requests for stale partitions, and the next cursor.

    A failed partition is requested once more. After that, it waits until its inputs change or the next nightly run
    begins.

    Parameters
    ----------
    only_nightly : bool
        Whether to request partitions only during a nightly run, which begins with the asset `night`. The run ends when
        no partition is left to be requested, in progress or in a batch of an endpoint.
    """
    follow_partitions(workspace, instance)  # only a partition that Dagster knows can be requested
    mount, began = workspace.mount, last_nightly_run(instance, workspace.mount)
    begins = began != seen.run_began
    if only_nightly and not seen.at_work:
        since = time.time() - _IS_NEW_S if seen.run_began is None else seen.run_began
        if began is None or began <= since:
            return [], replace(seen, run_began=began)
    tried = Tried(_ATTEMPTS, {} if begins else dict(seen.tried))
    known, busy = states(workspace), partitions_under_way(instance, mount)
    forget_resolved_failures(workspace, known)
    stale = find_stale(workspace, known, canaries=True)
    if begins:
        delete_old_runs(workspace, instance)
    asked = tried.request(workspace, stale, busy)
    first = {one.key for one in asked if tried.times(one) == 1}
    gpu_judges = {name for name, judge in workspace.judges.items() if judge.engine.needs.model}
    requests = plan(asked, instance, mount, gpu_judges, first)
    at_work = bool(asked or busy or any(one.only_waits for one in stale.values()))
    if seen.at_work and not at_work:
        report_unchanged(workspace, instance, stale)
    return requests, replace(seen, tried=tried.asked, run_began=began, at_work=at_work)
