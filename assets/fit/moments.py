"""Dagster asset ``moments``: means, covariances and third moments of a panel's scores."""

from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.fit.stages import fit_code
from assets.workspace import Workspace
from care_ops.errors import WarehouseError

ROWS_A_SHARD = 262_144
"""Number of items in a shard (range of rows); with a hundred judges, a shard needs about 200 MB of memory."""

if TYPE_CHECKING:
    from care_ops.moments.sharded import Shard
    from care_ops.moments.state import Moments
    from warehouse.artifacts import FitFolder


@asset_of_testsets(deps=["panel"], description="Moments of the panel's scores, up to order three.")
def moments(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Compute the moments of the panel's scores, shard by shard, and store them."""
    import numpy as np

    from assets.fit.kept import write_moments
    from care_ops.moments.sharded import shards_of
    from care_ops.moments.state import of_panel
    from care_ops.sparsity import is_crowd

    folder = workspace.fit_folder(context.partition_key)
    summary = folder.panel_summary()
    shards, judges = shards_of(folder.panel_file, ROWS_A_SHARD), tuple(sorted(summary.present))
    where = "this process"
    if is_crowd(np.array(list(summary.present.values())), summary.items):
        # The aggregators of such a panel use only means and variances.
        state = of_panel(folder.read_panel().canonical().values)
    else:
        state, where = _accumulate(folder, shards, judges, workspace), workspace.workers.place
    write_moments(folder, state)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{summary.fingerprint[:24]}-{fit_code()}"),
        metadata={
            "items": state.n,
            "judges": state.p,
            "shards": len(shards),
            "ran_on": where,
            "missing_scores": float(1 - state.count1.sum() / (state.n * state.p)),
        },
    )


def _accumulate(folder: "FitFolder", shards: "list[Shard]", judges: tuple[str, ...], workspace: Workspace) -> "Moments":
    from care_ops.moments.sharded import UnreadableError, moments_of_shards

    try:
        return moments_of_shards(shards, judges, workspace.workers.map)
    except UnreadableError as error:
        folder.read_panel()  # quarantines a damaged file
        raise WarehouseError(
            f"{error}, but the file is intact on this machine; mount its folder at the same path on all workers"
        ) from None
