"""Dagster asset ``scores``: a judge's scores of a test set, loaded from Parquet parts into the warehouse.

The data version is the content hash of the scores, so unchanged scores make no asset stale. This stage fails if
scores are incomplete or missing.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import dagster as dg

from assets.judge_keys import judge_key
from assets.judging.batches import open_batches
from assets.judging.failures import has_abstained, why_no_score
from assets.metadata import failure, made_from, never_stale, table
from assets.partitions import SLICES
from assets.workspace import Workspace
from care_ops.errors import CareError, JudgeError

if TYPE_CHECKING:
    import duckdb

    from warehouse.panel_rows import Slice


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "scores",
            deps=[
                dg.AssetDep("judge_inference", partition_mapping=dg.MultiToSingleDimensionPartitionMapping("judge")),
                dg.AssetDep("items", partition_mapping=dg.MultiToSingleDimensionPartitionMapping("testset")),
            ],
            description="The scores of one judge on one test set, in the warehouse.",
            kinds={"duckdb"},
            group_name="judging",
            skippable=True,
        )
    ],
    partitions_def=SLICES,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="warehouse_writer",
)
def scores(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> Iterator[dg.MaterializeResult]:
    """Load the scores of each partition into the warehouse, and log one materialisation per partition."""
    from warehouse.panel_rows import LongWrite

    failures: dict[str, str] = {}
    done: list[dg.AssetMaterialization] = []
    tags = made_from(context.instance, _inputs(workspace))
    with workspace.warehouse.writer() as connection:
        transactions = LongWrite(connection)
        for key in context.partition_keys:
            assert isinstance(key, dg.MultiPartitionKey)
            judge, testset = key.keys_by_dimension["judge"], key.keys_by_dimension["testset"]
            try:
                loaded = load_slice(workspace, connection, judge, testset)
                transactions.wrote(loaded)
                done.append(_materialisation(workspace, key, loaded, tags))
            except CareError as error:  # the other partitions are still loaded
                failures[str(key)] = str(error)
    for event in done:  # after the rows are committed
        context.log_event(event)
    if failures:
        raise failure(failures)
    yield from ()


def _inputs(workspace: Workspace) -> list[dg.AssetKey]:
    return [workspace.mount.key(asset) for asset in ("judge_inference", "items")]


def left_out(workspace: Workspace, key: str) -> dg.AssetMaterialization:
    """Build the Dagster event for a partition that stays empty: the judge does not score the test set."""
    return dg.AssetMaterialization(
        workspace.mount.key("scores"),
        partition=key,
        tags=never_stale(_inputs(workspace)),
        metadata={"scored": "the judge's specification leaves this test set out"},
    )


def load_slice(
    workspace: Workspace, connection: "duckdb.DuckDBPyConnection", judge: str, testset: str
) -> "Slice | None":
    """Load a judge's scores of a test set; return None if the judge does not score the test set."""
    from warehouse.panel_rows import drop_slice, replace_slice

    if testset not in workspace.testsets_of(judge):
        drop_slice(connection, judge, testset)
        return None
    spec = workspace.judge(judge)
    key = judge_key(workspace, judge, testset)
    parts = workspace.parts.read_scores(
        judge, testset, ("item_key", "judge_key", "score", "status", "text_mismatch", "created_at")
    )
    return replace_slice(connection, judge, testset, key, parts, family=spec.family, spec_json=spec.shown())


def _materialisation(
    workspace: Workspace, key: dg.MultiPartitionKey, loaded: "Slice | None", tags: Mapping[str, str]
) -> dg.AssetMaterialization:
    if loaded is None:
        return left_out(workspace, str(key))
    judge, testset = key.keys_by_dimension["judge"], key.keys_by_dimension["testset"]
    batches = open_batches(workspace, judge, testset)
    if loaded.n_missing > sum(batch.items for batch in batches):
        raise JudgeError(f"{loaded.n_missing} of {loaded.n_items} items have no score yet; `care run` scores them")
    is_silent = loaded.n_items and not loaded.n_ok
    if is_silent and not batches and not has_abstained(workspace, judge, loaded.statuses):
        raise JudgeError(why_no_score(workspace, judge, testset, loaded.statuses))
    return dg.AssetMaterialization(
        workspace.mount.key("scores"),
        partition=key,
        tags={**tags, "dagster/data_version": loaded.content_hash},
        metadata={
            "items": loaded.n_items,
            "dagster/row_count": loaded.n_items,
            "ok": loaded.n_ok,
            "by_status": table([{"status": s, "items": c} for s, c in sorted(loaded.statuses.items())]),
        },
    )
