"""External assets, which no stage makes: sources, judges, and settings of panel, fit and review.

Their versions are content hashes, reported by the sensor and by ``care run``.
"""

import dagster as dg

from assets.partitions import JUDGES, TESTSETS


def _external(name: str, description: str, partitions: dg.PartitionsDefinition = TESTSETS) -> dg.AssetSpec:
    return dg.AssetSpec(name, description=description, partitions_def=partitions, group_name="inputs")


source = _external("source", "Where a test set's items come from. Version: hash of the specification and its files.")
judge_spec = _external("judge_spec", "What a judge is. Version: hash of its specification and of what it runs.", JUDGES)
fit_settings = _external(
    "fit_settings", "Aggregators, penalties, scale and anchors of a test set. Version: their hash."
)
panel_settings = _external("panel_settings", "Roster of judges and admission rule of a test set. Version: their hash.")
review_settings = _external(
    "review_settings", "When a fit of a test set is held back from publication. Version: hash of the limits."
)
EXTERNAL = (source, judge_spec, panel_settings, fit_settings, review_settings)
