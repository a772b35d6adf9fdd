"""What no stage makes by itself: sources, judge specifications, settings, and the parts of each slice.

All but the last have content hashes for versions, reported by the sensor and by ``care run``. The parts
are written by `judge_inference`, which reports them slice by slice, so that only slices whose parts changed are loaded.

Belongs here: the external assets. Does not: hashing (``workspace``) or reporting (``orchestration``).
"""

import dagster as dg

from assets.partitions import JUDGES, SLICES, TESTSETS

source = dg.AssetSpec(
    "source",
    description="Where a test set's items come from. Version: hash of the specification and its files.",
    partitions_def=TESTSETS,
    group_name="inputs",
)
judge_spec = dg.AssetSpec(
    "judge_spec",
    description="What a judge is. Version: hash of its specification and of what it runs.",
    partitions_def=JUDGES,
    group_name="inputs",
)
fit_settings = dg.AssetSpec(
    "fit_settings",
    description="Aggregators, penalties, scale and anchors of a test set. Version: their hash.",
    partitions_def=TESTSETS,
    group_name="inputs",
)

panel_settings = dg.AssetSpec(
    "panel_settings",
    description="Roster of judges and admission rule of a test set. Version: their hash.",
    partitions_def=TESTSETS,
    group_name="inputs",
)
review_settings = dg.AssetSpec(
    "review_settings",
    description="When a fit of a test set is held back from publication. Version: hash of the limits.",
    partitions_def=TESTSETS,
    group_name="inputs",
)
score_parts = dg.AssetSpec(
    "score_parts",
    deps=[dg.AssetDep("judge_inference", partition_mapping=dg.MultiToSingleDimensionPartitionMapping("judge"))],
    description="The Parquet parts of one judge on one test set. Version: the judge's key and the items' keys.",
    partitions_def=SLICES,
    group_name="judging",
    kinds={"parquet"},
)

EXTERNAL = (source, judge_spec, panel_settings, fit_settings, review_settings, score_parts)
