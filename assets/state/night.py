"""Dagster asset ``night``: count of stale partitions, and verification of some stored files, in a nightly run."""

import dagster as dg

from assets.metadata import table
from assets.workspace import Workspace


@dg.multi_asset(
    name="what_is_missing",  # a job has the name `night`
    specs=[
        dg.AssetSpec(
            "night",
            group_name="state",
            kinds={"duckdb"},
            description="Number of stale partitions when a nightly run begins.",
            code_version="1",
        )
    ],
)
def night(workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Verify some stored files, count stale partitions, and list the test sets whose latest fit is blocked."""
    from assets.publication.fit_versions import blocked_fit
    from assets.report.staleness import stale_partitions, states
    from assets.state.repair import verify_some

    verify_some(workspace)
    found = stale_partitions(workspace, states(workspace)).values()
    rows = [{"asset": one.asset, "partition": one.partition or "", "why": one.why} for one in found]
    held = [t for t in sorted(workspace.testsets) if blocked_fit(workspace, t) is not None]
    return dg.MaterializeResult(
        metadata={
            "missing": len(rows),
            "missing_partitions": table(rows[:200]),
            "held_back": ", ".join(held) or "none",
        }
    )
