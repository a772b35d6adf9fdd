"""Dagster assets ``items`` and ``gold``: a test set's items, stored in a Parquet file and in the database."""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.judge_keys import judge_item
from assets.partitions import TESTSETS
from assets.sources import read_source
from assets.versions import items_code, readable_source_version
from assets.workspace import Workspace
from warehouse.items import ItemRecord


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "items",
            description="The items of a test set as judges see them: texts, in the order of the source.",
            kinds={"parquet", "duckdb"},
            code_version=items_code(),
            group_name="inputs",
            skippable=True,
        ),
        dg.AssetSpec(
            "gold",
            description="Gold, split units and other fields of the source, for evaluation only.",
            kinds={"duckdb"},
            code_version=items_code(),
            group_name="inputs",
            skippable=True,
        ),
    ],
    partitions_def=TESTSETS,
    can_subset=True,
    pool="warehouse_writer",
)
def items(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> Iterator[dg.MaterializeResult]:
    """Read a test set's source, and replace the test set's stored items and rows in the database."""
    testset = context.partition_key
    version = readable_source_version(workspace, testset)  # hashed first: a change while reading makes `items` stale
    records = read_source(workspace, testset)
    texts, labels = workspace.parts.write_items(testset, records, version, items_code())
    load_items(workspace, testset, records, version)
    known = [r.gold for r in records if r.gold is not None]
    yield dg.MaterializeResult(
        asset_key="items",
        data_version=dg.DataVersion(texts),
        metadata={"items": len(records)},
    )
    yield dg.MaterializeResult(
        asset_key="gold",
        data_version=dg.DataVersion(labels),
        metadata={
            "with_gold": len(known),
            "mean": sum(known) / len(known) if known else "no gold",
            "split_units": len({r.split_unit for r in records if r.split_unit is not None}),
        },
    )


def load_items(workspace: Workspace, testset: str, records: Sequence[ItemRecord], source_version: str | None) -> None:
    """Replace a test set's items and source version in the warehouse."""
    from warehouse.panel_rows import replace_testset

    spec = workspace.testset(testset)
    with workspace.warehouse.writer() as connection:
        replace_testset(
            connection,
            testset,
            records,
            [judge_item(record).key for record in records],
            description=spec.description,
            scale=spec.scale,
            cut=spec.cut,
            source_version=source_version,
        )
