"""Run launcher of a deployment, which ``deploy/dagster.yaml`` names.

Dagster's own launcher starts a run as a process of the code server and never checks it again. If the code server
is killed, with all of its processes, the run counts as started for ever. This launcher lets Dagster's run monitoring
ask the code server whether it still works on a run. A run that it does not know is marked as failed, and Dagster's run
retries start it again; ``max_runtime_seconds`` ends the runs of a code server that never answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from orchestration.dagster_internals import run_health

if TYPE_CHECKING:
    from orchestration.dagster_internals import RunHealth


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, which also checks whether the code server still works on a run."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True, which lets Dagster's run monitoring call ``check_run_worker_health``."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> RunHealth:
        """Return the health of a run, as its code server reports it."""
        return run_health(run)
