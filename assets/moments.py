"""``moments``: means, covariances and third moments of a panel, from row ranges of its matrix."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.common import bars, source_hash
from assets.external import fit_settings
from assets.panel import panel
from assets.partitions import TESTSETS
from assets.workspace import MomentsConfig, Workspace

if TYPE_CHECKING:
    from distributed import Client

    from care_ops.moments import Moments
    from warehouse.artifacts import FitFolder


@dg.asset(
    partitions_def=TESTSETS,
    deps=[panel, fit_settings],
    group_name="fit",
    kinds={"dask"},
    code_version=source_hash("care_ops", __file__),
    description="Mergeable moments up to order three of the panel's scores.",
)
def moments(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Shard the panel's matrix, accumulate, store the state."""
    import numpy as np

    from care_ops.sharded import em_of_shards, moments_of_shards, shards_of

    folder = workspace.fit_folder(context.partition_key)
    scores = folder.read_panel()
    shards, judges = shards_of(folder.panel_file, workspace.moments.rows_per_shard), tuple(sorted(scores.judges))
    missing, em = workspace.fit.missing, None
    with dask_client(workspace.moments, rows=scores.shape[0]) as client:
        counted = state = moments_of_shards(shards, judges, client)
        if missing == "em":
            state, em = em_of_shards(shards, judges, counted, client)
        where = "this process" if client is None else f"Dask ({workspace.moments.dask_address or 'local cluster'})"
    write_moments(folder, state)
    spread = np.sqrt(np.diag(state.covariance()))
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{scores.fingerprint()[:24]}-{missing}-{source_hash('care_ops')}"),
        metadata={
            "items": state.n,
            "judges": state.p,
            "shards": len(shards),
            "ran_on": where,
            "missing_scores": float(1 - counted.count1.sum() / (state.n * state.p)),
            **({} if em is None else {"em_iterations": em.iterations, "em_converged": em.converged}),
            "spread": bars("standard deviation by judge", dict(zip(judges, map(float, spread), strict=True))),
        },
    )


@contextmanager
def dask_client(config: MomentsConfig, rows: int) -> Generator["Client | None"]:
    """A client of the configured cluster, or None where the rows are too few to be worth one."""
    if rows < config.threshold_rows or (config.dask_address is None and config.dask_workers == 0):
        yield None
        return
    from distributed import Client, LocalCluster

    if config.dask_address is not None:
        with Client(config.dask_address) as client:
            yield client
        return
    cluster = LocalCluster(n_workers=config.dask_workers, threads_per_worker=1, dashboard_address=":0", processes=True)
    with cluster, Client(cluster) as client:
        yield client


def write_moments(folder: "FitFolder", state: "Moments") -> None:
    """Store a state."""
    import numpy as np

    arrays: dict[str, Any] = {f.name: np.asarray(getattr(state, f.name)) for f in fields(state)}
    folder.write_arrays("moments", arrays)


def read_moments(folder: "FitFolder") -> "Moments":
    """The stored state."""
    from care_ops.moments import Moments

    arrays = folder.read_arrays("moments")
    return Moments(**{**arrays, "n": int(arrays["n"])})  # type: ignore[arg-type]
