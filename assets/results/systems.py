"""``systems``: which of two models or versions is better, where items belong to systems."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.code import code_version
from assets.metadata import bars, table
from assets.partitions import TESTSETS
from assets.results.gold import aligned
from assets.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

    Named = Sequence[tuple[str, ...] | None]


@dg.asset(
    partitions_def=TESTSETS,
    deps=["aggregates", "gold"],
    group_name="results",
    code_version=code_version(__name__, "care_ops"),
    description="Differences between systems with intervals; corrected by anchors where there are enough.",
)
def systems(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Compare the systems that the test set declares, by the recommended aggregate."""
    from care_ops.errors import FitError
    from care_ops.results.systems import anchors_as_labels
    from warehouse.matrix import read_fit, read_item_columns, read_metadata

    testset = context.partition_key
    folder, spec = workspace.fit_folder(testset), workspace.testset(testset)
    fit_ids: dict[str, str] = dict(folder.read_json("fit")["fit_ids"])
    if not spec.systems or not fit_ids:
        folder.write_json("systems", {})
        why = "no aggregate" if spec.systems else "the test set declares none"
        return dg.MaterializeResult(metadata={"systems": f"none: {why}"})
    name = "care" if "care" in fit_ids else next(iter(fit_ids))
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, testset)
        named = read_metadata(connection, testset, spec.systems)
        stored = read_fit(connection, fit_ids[name])
    estimate = aligned(columns.item_ids, stored.estimates)
    labels = anchors_as_labels(columns.item_ids, workspace.anchors_of(testset))
    units = [unit or item for unit, item in zip(columns.split_units, columns.item_ids, strict=True)]
    try:
        found = compare(estimate, named, units, labels, spec.scale)
    except FitError as error:
        folder.write_json("systems", {"failure": str(error)})
        return dg.MaterializeResult(metadata={"systems": f"none: {error}"})
    folder.write_json("systems", {"aggregator": name, **found})
    return dg.MaterializeResult(
        metadata={
            "aggregator": name,
            "labels": int((labels == labels).sum()),
            "differences": table(found["comparisons"][:200]),
            "systems": bars("system", {row["system"]: row["value"] for row in found["systems"]}),
        }
    )


def compare(
    estimate: "Array",
    named: "Named",
    units: Sequence[str],
    labels: "Array",
    scale: tuple[float, float] | None,
) -> dict[str, Any]:
    """Systems in order and every difference, as plain values.

    Parameters
    ----------
    estimate, labels : (n,) arrays
    named : sequence of n tuples of one name (the item's system) or two (left, right), or None
    units : sequence of n str
    scale : (low, high), optional
        Of the test set; pairwise estimates are placed in [0, 1] by it.

    Raises
    ------
    FitError
        There is nothing to compare.
    """
    import numpy as np

    from care_ops.results.systems import bradley_terry, mean_differences

    width = {len(names) for names in named if names is not None}
    if width == {2}:
        low, high = scale or (0.0, 1.0)
        share, won = np.clip((estimate - low) / (high - low), 0.0, 1.0), (labels - low) / (high - low)
        pairs = [None if names is None else (names[0], names[1]) for names in named]
        strengths, comparisons = bradley_terry(share, pairs, units, won)
        kind, values = "log odds of winning", strengths
        count = {s: sum(pair is not None and s in pair for pair in pairs) for s in strengths}
    else:
        of = [None if names is None else names[0] for names in named]
        comparisons = mean_differences(estimate, of, units, labels)
        members = {s: [i for i, name in enumerate(of) if name == s] for s in sorted({n for n in of if n})}
        values = {s: float(np.nanmean(estimate[rows])) for s, rows in members.items()}
        kind, count = "mean estimate", {s: len(rows) for s, rows in members.items()}
    ordered = sorted(values, key=lambda s: -values[s])
    return {
        "kind": kind,
        "systems": [{"system": s, "items": count[s], "value": values[s]} for s in ordered],
        "comparisons": [asdict(c) for c in comparisons],
    }
