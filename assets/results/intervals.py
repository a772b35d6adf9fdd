"""``intervals``: how far each judge's weight would move with other items."""

from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.code import code_version
from assets.metadata import table
from assets.partitions import TESTSETS
from assets.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def plain(values: "NDArray[np.float64] | None") -> Any:
    """An array as nested lists of numbers; None stays None."""
    return None if values is None else values.tolist()


@dg.asset(
    partitions_def=TESTSETS,
    deps=["aggregates", "gold"],
    group_name="results",
    kinds={"duckdb"},
    code_version=code_version(__name__, "care_ops"),
    description="Bootstrap intervals of weights and loadings, by split unit.",
)
def intervals(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Fit resampled split units, store the intervals beside the weights."""
    from assets.fit.kept import read_fitted, read_responses
    from care_ops.errors import InputError
    from care_ops.results.uncertainty import weight_intervals
    from warehouse.fit_rows import store_intervals
    from warehouse.fits import Intervals
    from warehouse.matrix import read_item_columns

    testset = context.partition_key
    config = workspace.fit_config(testset)
    if config.resamples == 0:
        return dg.MaterializeResult(metadata={"intervals": "none: fit.resamples is 0 in care.yaml"})
    scores, fit = read_fitted(workspace.fit_folder(testset))
    fit_ids = fit.by_aggregator
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, testset)
    units = dict(zip(columns.item_ids, columns.split_units, strict=True))
    try:
        intervals_by_name = weight_intervals(
            scores,
            config,
            workspace.anchors_of(testset),
            [units.get(item) for item in scores.item_ids],
            resamples=config.resamples,
            probes=read_responses(workspace.fit_folder(testset)),
        )
    except InputError as error:  # too few split units: weights stand without an interval
        return dg.MaterializeResult(metadata={"intervals": f"none: {error}"})
    with workspace.warehouse.writer() as connection:
        for name, interval in intervals_by_name.items():
            if name in fit_ids:
                bounds = (interval.lo, interval.hi, interval.loadings_lo, interval.loadings_hi)
                record = Intervals(scores.judges, *map(plain, bounds))
                workspace.fits.annotate(testset, fit_ids[name], record)
                store_intervals(connection, fit_ids[name], record)
    rows = [
        {"aggregator": name, "judge": judge, "lo": float(lo), "hi": float(hi)}
        for name, interval in intervals_by_name.items()
        for judge, lo, hi in zip(scores.judges, interval.lo, interval.hi, strict=True)
    ]
    return dg.MaterializeResult(
        metadata={
            "resamples": table([{"aggregator": n, "resamples": i.resamples} for n, i in intervals_by_name.items()]),
            "weights": table(rows[:200]),
        }
    )
