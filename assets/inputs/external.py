"""External assets, which no stage makes: sources, judges, and settings of panel, fit and review.

Their versions are content hashes, reported by the sensor and by ``care run``.
"""

import dagster as dg

from assets.partitions import JUDGES, TESTSETS

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
EXTERNAL = (source, judge_spec, panel_settings, fit_settings, review_settings)
