"""What the world looks like now: partitions and content versions of external assets.

Belongs here: comparing the workspace with what the instance knows. Does not: starting anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from assets.inputs.external import fit_settings, judge_spec, panel_settings, review_settings, source
from assets.partitions import JUDGES, TESTSETS
from assets.versions import judge_version, panel_version, review_version, settings_version, source_version
from assets.workspace import Workspace

_VERSION_TAG = "dagster/data_version"


@dataclass(frozen=True)
class Observation:
    """What has changed since the instance was last told.

    Attributes
    ----------
    events : list of AssetMaterialization
        A new version of a source, a judge specification or a test set's fit settings.
    requests : list
        Partitions to add or delete.
    """

    events: list[dg.AssetMaterialization]
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]


def observe(workspace: Workspace, instance: dg.DagsterInstance) -> Observation:
    """Compare content hashes with the latest reported ones; equal content is not reported again."""
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    for definition, wanted in ((TESTSETS, set(workspace.testsets)), (JUDGES, set(workspace.judges))):
        name = str(definition.name)
        known = set(instance.get_dynamic_partitions(name))
        if wanted - known:
            requests.append(definition.build_add_request(sorted(wanted - known)))
        if known - wanted:
            requests.append(definition.build_delete_request(sorted(known - wanted)))
    versions = {
        source.key: {t: source_version(workspace, t) for t in workspace.testsets},
        judge_spec.key: {j: judge_version(workspace, j) for j in workspace.judges},
        panel_settings.key: {t: panel_version(workspace, t) for t in workspace.testsets},
        fit_settings.key: {t: settings_version(workspace, t) for t in workspace.testsets},
        review_settings.key: {t: review_version(workspace, t) for t in workspace.testsets},
    }
    events: list[dg.AssetMaterialization] = []
    for key, by_partition in versions.items():
        for partition, version in by_partition.items():
            before = _reported(instance, key, partition)
            # A test set that never had a judge has no panel to miss: `panel` waits for its settings.
            unjudged = before is None and key == panel_settings.key and not workspace.judges_of(partition)
            if before != version and not unjudged:
                events.append(dg.AssetMaterialization(key, partition=partition, tags={_VERSION_TAG: version}))
    return Observation(events, requests)


def report(observation: Observation, instance: dg.DagsterInstance) -> None:
    """Tell the instance, as the sensor's result would."""
    for request in observation.requests:
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        else:
            for key in request.partition_keys:
                instance.delete_dynamic_partition(request.partitions_def_name, key)
    for event in observation.events:
        instance.report_runless_asset_event(event)


def _reported(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> str | None:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    if not records or records[0].asset_materialization is None:
        return None
    return (records[0].asset_materialization.tags or {}).get(_VERSION_TAG)
