"""``moments``: means, covariances and third moments of a panel, from row ranges of its matrix."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.kept import read_moments, write_moments
from assets.fit.stages import stage_code
from assets.metadata import bars
from assets.partitions import TESTSETS
from assets.workspace import FROM_ENVIRONMENT, DaskConfig, MomentsConfig, Workspace
from care_ops.errors import InputError

_CONNECT_TIMEOUT_S = 10

if TYPE_CHECKING:
    from distributed import Client

    from care_ops.moments.state import Array, Moments
    from care_ops.scores import ScoreMatrix
    from warehouse.artifacts import FitFolder


@dg.asset(
    partitions_def=TESTSETS,
    deps=["panel", "fit_settings"],
    group_name="fit",
    kinds={"dask"},
    code_version=stage_code("moments"),
    description="Mergeable moments up to order three of the panel's scores.",
)
def moments(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Bring yesterday's state up to date, or shard the panel's matrix and accumulate; store the state."""
    import numpy as np

    from care_ops.moments.sharded import em_of_shards, moments_of_shards, shards_of, shift_of_shards
    from care_ops.moments.state import of_panel
    from care_ops.sparsity import is_sparse

    folder = workspace.fit_folder(context.partition_key)
    scores = folder.read_panel()
    shards, judges = shards_of(folder.panel_file, workspace.moments.rows_per_shard), tuple(sorted(scores.judges))
    sparse = is_sparse(scores.values)  # then its aggregators rest on no moments but means and variances
    missing, em = "pairwise" if sparse else workspace.fit.missing, None
    if sparse:
        counted, updates = of_panel(scores.canonical().values), 0
    else:
        counted, updates = from_before(folder, scores, shift_of_shards(shards, judges))
    summing = counted is None or missing == "em"
    with dask_client(workspace.moments, scores.shape[0], workspace.dask) if summing else nullcontext() as client:
        if counted is None:
            counted = moments_of_shards(shards, judges, client)
        state = counted
        if missing == "em":
            state, em = em_of_shards(shards, judges, counted, client)
        where = "this process" if client is None else f"Dask ({workspace.dask.scheduler() or 'local cluster'})"
    write_moments(folder, state)
    keep_counted(folder, scores, counted, updates)
    spread = np.sqrt(state.variance())
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{scores.fingerprint()[:24]}-{missing}-{stage_code('moments')}"),
        metadata={
            "items": state.n,
            "judges": state.p,
            "shards": len(shards),
            "ran_on": where,
            "summed": "all items" if updates == 0 else f"what changed; {updates} such night(s) since all items were",
            "missing_scores": float(1 - counted.count1.sum() / (state.n * state.p)),
            **({} if em is None else {"em_iterations": em.iterations, "em_converged": em.converged}),
            "spread": bars("standard deviation by judge", dict(zip(judges, map(float, spread), strict=True))),
        },
    )


def from_before(folder: "FitFolder", scores: "ScoreMatrix", shift: "Array") -> "tuple[Moments | None, int]":
    """The moments from those stored before, and how many such updates there are since a full pass.

    None where there are none of this code, the panel is small, or too much has changed.
    """
    from assets.fit.documents import CountedDocument
    from care_ops.moments.incremental import MOST_UPDATES, updated, worth_keeping

    if not (folder.path / f"{CountedDocument.NAME}.json").exists() or not worth_keeping(scores):
        return None, 0
    counted = CountedDocument.read(folder)
    if counted.code != stage_code("moments") or counted.updates >= MOST_UPDATES:
        return None, 0
    before = folder.read_panel(CountedDocument.NAME)
    if before.fingerprint() != counted.panel:  # an item was forgotten since
        return None, 0
    state = updated(read_moments(folder, CountedDocument.NAME), before, scores, shift)
    return (None, 0) if state is None else (state, counted.updates + 1)


def keep_counted(folder: "FitFolder", scores: "ScoreMatrix", counted: "Moments", updates: int) -> None:
    """Keep the sums and the panel they were taken of, for the next night."""
    from assets.fit.documents import CountedDocument
    from care_ops.moments.incremental import worth_keeping

    if not worth_keeping(scores):
        return
    CountedDocument(code="", updates=0, panel="").write(folder)  # until all of it is there
    folder.copy_panel(CountedDocument.NAME)
    write_moments(folder, counted, CountedDocument.NAME)
    CountedDocument(stage_code("moments"), updates, scores.fingerprint()).write(folder)


@contextmanager
def dask_client(config: MomentsConfig, rows: int, dask: DaskConfig = FROM_ENVIRONMENT) -> Generator["Client | None"]:
    """A client of the configured cluster, or None where the rows are too few to be worth one."""
    if rows < config.threshold_rows or (dask.scheduler() is None and config.dask_workers == 0):
        yield None
        return
    from distributed import Client, LocalCluster

    scheduler = dask.scheduler()
    if scheduler is not None:
        with _connected(scheduler, dask.source()) as client:
            yield client
        return
    cluster = LocalCluster(n_workers=config.dask_workers, threads_per_worker=1, dashboard_address=":0", processes=True)
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
