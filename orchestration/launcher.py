"""Run launcher of a deployment, configured in ``deploy/dagster.yaml``.

Dagster's own launcher starts a run as a process of the code server and never checks the run again. If the code server
is killed with all of its processes, the run keeps the status STARTED. This launcher lets Dagster's run monitoring
ask the code server whether a run is still in progress. If the server does not execute the run, Dagster marks the run
as failed and retries it. ``max_runtime_seconds`` ends the runs of a code server that never answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from orchestration.dagster_internals import run_health

if TYPE_CHECKING:
    from orchestration.dagster_internals import RunHealth


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, with a check that the code server still executes a run."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> RunHealth:
        return run_health(run)
