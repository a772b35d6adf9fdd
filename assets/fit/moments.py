"""``moments``: means, covariances and third moments of a panel, from row ranges of its matrix."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.fit.stages import stage_code
from assets.metadata import bars
from assets.workspace import FROM_ENVIRONMENT, DaskConfig, Workspace
from care_ops.errors import InputError, WarehouseError

_CONNECT_TIMEOUT_S = 10

MIN_ROWS = 30_000_000
"""Where nobody asks for Dask, test sets with fewer items stay here: a cluster costs more than it saves (bench.md)."""

ROWS_A_SHARD = 524_288
"""Items that are read at once: 400 MB of a panel of a hundred judges."""

if TYPE_CHECKING:
    from distributed import Client

    from care_ops.moments.sharded import Shard
    from care_ops.moments.state import Moments
    from warehouse.artifacts import FitFolder


@asset_of_testsets(deps=["panel"], description="Mergeable moments up to order three of the panel's scores.")
def moments(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Accumulate the state over row ranges of the panel's file and store it."""
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
        # then its aggregators rest on no moments but means and variances
        state = of_panel(folder.read_panel().canonical().values)
    else:
        state, where = _summed(folder, summary.items, shards, judges, workspace)
    write_moments(folder, state)
    spread = np.sqrt(state.variance())
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{summary.fingerprint[:24]}-{stage_code('moments')}"),
        metadata={
            "items": state.n,
            "judges": state.p,
            "shards": len(shards),
            "ran_on": where,
            "missing_scores": float(1 - state.count1.sum() / (state.n * state.p)),
            "spread": bars("standard deviation by judge", dict(zip(judges, map(float, spread), strict=True))),
        },
    )


def _summed(
    folder: "FitFolder", items: int, shards: "list[Shard]", judges: tuple[str, ...], workspace: Workspace
) -> "tuple[Moments, str]":
    """The moments of the panel's file, and where they were computed.

    A file that cannot be read is set aside, as any reader of it does.
    """
    from care_ops.moments.sharded import UnreadableError, moments_of_shards

    try:
        with dask_client(items, workspace.dask) as client:
            state = moments_of_shards(shards, judges, client)
            where = "this process" if client is None else f"Dask ({workspace.dask.scheduler() or 'local cluster'})"
    except UnreadableError as error:
        folder.read_panel()
        raise WarehouseError(f"{error}, though it is sound here") from None
    return state, where


@contextmanager
def dask_client(rows: int, dask: DaskConfig = FROM_ENVIRONMENT) -> Generator["Client | None"]:
    """A client of the cluster that is named; without one, None where nobody asks for workers and the rows are few."""
    scheduler = dask.scheduler()
    if scheduler is None and (dask.workers == 0 or (dask.workers is None and rows < MIN_ROWS)):
        yield None
        return
    from dask.system import CPU_COUNT
    from distributed import Client, LocalCluster

    if scheduler is not None:
        with _connected(scheduler, dask.source()) as client:
            yield client
        return
    workers = CPU_COUNT if dask.workers is None else dask.workers
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", processes=True)
    with cluster, Client(cluster) as client:
        yield client


def _connected(address: str, source: str) -> "Client":
    """A client of the scheduler at an address."""
    from distributed import Client

    try:
        return Client(address, timeout=_CONNECT_TIMEOUT_S)
    except (OSError, ValueError) as error:  # a ValueError where the scheme is unknown
        raise InputError(
            f"{source} is {address}: no Dask scheduler answers there ({error}); start it with "
            f"`dask scheduler` and give the address that it prints, or unset {source}"
        ) from error
