"""``score_parts``: the Parquet parts of each slice, written by ``judge_inference``, which reports them slice by slice.

So only slices whose parts changed are loaded: the asset that loads a model is partitioned by judge only.
"""

import dagster as dg

from assets.partitions import SLICES

NOT_SCORED = "not scored by this judge"
"""Version of a slice that the judge's specification leaves out."""

score_parts = dg.AssetSpec(
    "score_parts",
    deps=[dg.AssetDep("judge_inference", partition_mapping=dg.MultiToSingleDimensionPartitionMapping("judge"))],
    description="The Parquet parts of one judge on one test set. Version: the judge's key and the items' keys.",
    partitions_def=SLICES,
    group_name="judging",
    kinds={"parquet"},
)
