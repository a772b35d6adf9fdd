"""The sensor that watches test sets, judges and settings, and the one that asks for what is stale.

Belongs here: sensors. Does not: what they compare (``observe``) or when an asset is stale
(``conditions``).
"""

from collections.abc import Callable

import dagster as dg

from assets.workspace import Workspace
from orchestration.observe import observe


def build_sensors(load: Callable[[], Workspace]) -> list[dg.SensorDefinition]:
    """Sensors over the workspace that ``load`` reads."""

    @dg.sensor(
        name="workspace_sensor",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports new content of test sets, judges and settings; adds and deletes partitions.",
    )
    def workspace_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        found = observe(load(), context.instance)
        if not found.events and not found.requests:
            return dg.SkipReason("nothing has changed")
        return dg.SensorResult(asset_events=found.events, dynamic_partitions_requests=found.requests)

    automation = dg.AutomationConditionSensorDefinition(
        "stale_assets_sensor",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for what is stale.",
    )
    return [workspace_sensor, automation]
