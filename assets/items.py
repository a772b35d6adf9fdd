"""``items``: a test set's source to a Parquet part and the warehouse."""

from typing import TYPE_CHECKING

import dagster as dg

from assets.common import source_hash, table
from assets.external import source
from assets.partitions import TESTSETS
from assets.workspace import Workspace, judge_item

if TYPE_CHECKING:
    pass


@dg.asset(
    partitions_def=TESTSETS,
    deps=[source],
    group_name="inputs",
    kinds={"parquet", "duckdb"},
    pool="warehouse_writer",
    code_version=source_hash("warehouse", __file__),
    description="The items of a test set: texts, gold, split units.",
)
def items(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Read the source, replace the part, replace the rows in the warehouse."""
    from warehouse.database import replace_testset

    testset = context.partition_key
    spec, records = workspace.testset(testset), workspace.read_source(testset)
    version = workspace.parts.write_items(testset, records)
    keys = [judge_item(record).key for record in records]
    with workspace.warehouse.writer() as connection:
        replace_testset(
            connection,
            testset,
            records,
            keys,
            description=spec.description,
            scale=spec.scale,
            cut=spec.cut,
        )
    preview = [{"item_id": r.item_id, "response": (r.response or "")[:80], "gold": r.gold} for r in records[:5]]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(version),
        metadata={
            "items": len(records),
            "with_gold": sum(r.gold is not None for r in records),
            "split_units": len({r.split_unit for r in records if r.split_unit is not None}),
            "first_items": table(preview),
        },
    )
