"""``moments``: means, covariances and third moments of a panel, from row ranges of its matrix."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.kept import read_moments, write_moments
from assets.fit.stages import stage_code
from assets.metadata import bars
from assets.partitions import TESTSETS
from assets.workspace import FROM_ENVIRONMENT, DaskConfig, MomentsConfig, Workspace
from care_ops.errors import InputError, WarehouseError

_CONNECT_TIMEOUT_S = 10

if TYPE_CHECKING:
    from distributed import Client

    from care_ops.moments.missing import GaussianFit
    from care_ops.moments.sharded import Shard
    from care_ops.moments.state import Array, Moments
    from warehouse.artifacts import FitFolder, PanelSummary


@dg.asset(
    partitions_def=TESTSETS,
    deps=["panel", "fit_settings"],
    group_name="fit",
    kinds={"dask"},
    code_version=stage_code("moments"),
    description="Mergeable moments up to order three of the panel's scores.",
)
def moments(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Bring yesterday's state up to date, or accumulate it over row ranges of the panel's file; store the state."""
    import numpy as np

    from care_ops.moments.sharded import shards_of

    folder = workspace.fit_folder(context.partition_key)
    summary = folder.panel_summary()
    shards, judges = shards_of(folder.panel_file, workspace.moments.rows_per_shard), tuple(sorted(summary.present))
    sums = summed(folder, summary, shards, judges, workspace)
    state, counted = sums.state, sums.counted
    write_moments(folder, state)
    keep_counted(folder, summary, counted, sums.updates)
    spread = np.sqrt(state.variance())
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{summary.fingerprint[:24]}-{sums.missing}-{stage_code('moments')}"),
        metadata={
            "items": state.n,
            "judges": state.p,
            "shards": len(shards),
            "ran_on": sums.where,
            "summed": "all items"
            if sums.updates == 0
            else f"what changed; {sums.updates} such night(s) since all items were",
            "missing_scores": float(1 - counted.count1.sum() / (state.n * state.p)),
            **({} if sums.em is None else {"em_iterations": sums.em.iterations, "em_converged": sums.em.converged}),
            "spread": bars("standard deviation by judge", dict(zip(judges, map(float, spread), strict=True))),
        },
    )


@dataclass(frozen=True)
class Sums:
    """The moments of a panel, and how they came about.

    Attributes
    ----------
    state : Moments
        With missing scores as the settings say.
    counted : Moments
        Of the scores that are there.
    missing : str
    em : GaussianFit, optional
    updates : int
        Nights since all items were summed.
    where : str
    """

    state: "Moments"
    counted: "Moments"
    missing: str
    em: "GaussianFit | None"
    updates: int
    where: str


def summed(
    folder: "FitFolder", summary: "PanelSummary", shards: "list[Shard]", judges: tuple[str, ...], workspace: Workspace
) -> Sums:
    """The moments of the panel's file. Where it cannot be read it is set aside, as any reader of it does."""
    from care_ops.moments.sharded import UnreadableError, em_of_shards, moments_of_shards, shift_of_shards
    from care_ops.moments.state import of_panel

    if is_sparse(summary):  # then its aggregators rest on no moments but means and variances
        state = of_panel(folder.read_panel().canonical().values)
        return Sums(state, state, "pairwise", None, 0, "this process")
    try:
        counted, updates = from_before(folder, summary, shift_of_shards(shards, judges))
        missing, em = workspace.fit.missing, None
        summing = counted is None or missing == "em"
        with dask_client(workspace.moments, summary.items, workspace.dask) if summing else nullcontext() as client:
            if counted is None:
                counted = moments_of_shards(shards, judges, client)
            state = counted
            if missing == "em":
                state, em = em_of_shards(shards, judges, counted, client)
            where = "this process" if client is None else f"Dask ({workspace.dask.scheduler() or 'local cluster'})"
    except UnreadableError as error:
        folder.read_panel()
        raise WarehouseError(f"{error}, though it is sound here") from None
    return Sums(state, counted, missing, em, updates, where)


def is_sparse(summary: "PanelSummary") -> bool:
    """Whether more than half of the panel's judges scored less than half of the items."""
    import numpy as np

    from care_ops.sparsity import is_sparse_count

    return is_sparse_count(np.array(list(summary.present.values())), summary.items)


def worth_keeping(summary: "PanelSummary") -> bool:
    """Whether the sums of a panel are worth keeping for the next night; a sparse panel has no third moments to keep."""
    from care_ops.moments.incremental import is_worth_updating

    return is_worth_updating(summary.items, len(summary.present)) and not is_sparse(summary)


def from_before(folder: "FitFolder", summary: "PanelSummary", shift: "Array") -> "tuple[Moments | None, int]":
    """The moments from those stored before, and how many such updates there are since a full pass.

    None where there are none of this code, the panel is small, or too much has changed.
    """
    from assets.fit.documents import CountedDocument
    from care_ops.moments.incremental import MOST_UPDATES, updated

    if not (folder.path / f"{CountedDocument.NAME}.json").exists() or not worth_keeping(summary):
        return None, 0
    counted = CountedDocument.read(folder)
    if counted.code != stage_code("moments") or counted.updates >= MOST_UPDATES:
        return None, 0
    before = folder.read_panel(CountedDocument.NAME)
    if before.fingerprint() != counted.panel:  # an item was forgotten since
        return None, 0
    state = updated(read_moments(folder, CountedDocument.NAME), before, folder.read_panel(), shift)
    return (None, 0) if state is None else (state, counted.updates + 1)


def keep_counted(folder: "FitFolder", summary: "PanelSummary", counted: "Moments", updates: int) -> None:
    """Keep the sums and the panel they were taken of, for the next night."""
    from assets.fit.documents import CountedDocument

    if not worth_keeping(summary):
        folder.discard(CountedDocument.NAME)
        return
    CountedDocument(code="", updates=0, panel="").write(folder)  # until all of it is there
    folder.copy_panel(CountedDocument.NAME)
    write_moments(folder, counted, CountedDocument.NAME)
    CountedDocument(stage_code("moments"), updates, summary.fingerprint).write(folder)


@contextmanager
def dask_client(config: MomentsConfig, rows: int, dask: DaskConfig = FROM_ENVIRONMENT) -> Generator["Client | None"]:
    """A client of the configured cluster, or None where the rows are too few to be worth one."""
    if rows < config.threshold_rows or (dask.scheduler() is None and config.dask_workers == 0):
        yield None
        return
    from dask.system import CPU_COUNT
    from distributed import Client, LocalCluster

    scheduler = dask.scheduler()
    if scheduler is not None:
        with _connected(scheduler, dask.source()) as client:
            yield client
        return
    workers = CPU_COUNT if config.dask_workers is None else config.dask_workers
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
