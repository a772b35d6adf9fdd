"""What the world looks like now: partitions and content versions of external assets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from assets.inputs.external import fit_settings, judge_spec, panel_settings, review_settings, source
from assets.partitions import JUDGES, TESTSETS
from assets.versions import judge_version, panel_version, review_version, settings_version, source_version
from assets.workspace import Workspace
from orchestration.dagster_internals import latest_tags

_VERSION_TAG = "dagster/data_version"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observation:
    """What has changed since it was last reported to the instance.

    Attributes
    ----------
    events : list of AssetMaterialization
        A new version of a source, a judge specification or a test set's settings.
    requests : list
        Partitions to add or delete.
    """

    events: list[dg.AssetMaterialization]
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]

    def sentences(self) -> Iterator[str]:
        """What has changed, for a log."""
        for request in self.requests:
            come_or_gone = "come" if isinstance(request, dg.AddDynamicPartitionsRequest) else "gone"
            yield f"{request.partitions_def_name} that have {come_or_gone}: {', '.join(request.partition_keys)}"
        for event in self.events:
            yield f"{event.asset_key.to_user_string()} of {event.partition} has changed"


def observe(workspace: Workspace, instance: dg.DagsterInstance) -> Observation:
    """Compare content hashes with the ones reported last; equal content is not reported again."""
    observation = Observation(list(_new_versions(workspace, instance)), list(_partition_requests(workspace, instance)))
    workspace.file_hashes.save()
    return observation


def _partition_requests(
    workspace: Workspace, instance: dg.DagsterInstance
) -> Iterator[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    for definition, names in ((TESTSETS, set(workspace.testsets)), (JUDGES, set(workspace.judges))):
        known = set(instance.get_dynamic_partitions(str(definition.name)))
        if names - known:
            yield definition.build_add_request(sorted(names - known))
        if known - names:
            yield definition.build_delete_request(sorted(known - names))


def _new_versions(workspace: Workspace, instance: dg.DagsterInstance) -> Iterator[dg.AssetMaterialization]:
    versions = {
        source.key: {t: source_version(workspace, t) for t in workspace.testsets},
        judge_spec.key: {j: judge_version(workspace, j) for j in workspace.judges},
        panel_settings.key: {t: panel_version(workspace, t) for t in workspace.testsets},
        fit_settings.key: {t: settings_version(workspace, t) for t in workspace.testsets},
        review_settings.key: {t: review_version(workspace, t) for t in workspace.testsets},
    }
    for key, by_partition in versions.items():
        reported = latest_tags(instance, key, _VERSION_TAG)
        for partition, version in by_partition.items():
            if reported.get(partition) != version:
                yield dg.AssetMaterialization(key, partition=partition, tags={_VERSION_TAG: version})


def report(observation: Observation, instance: dg.DagsterInstance) -> None:
    """Report to the instance what has changed, as the result of the sensor does."""
    for sentence in observation.sentences():
        _logger.info(sentence)
    for request in observation.requests:
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        else:
            for key in request.partition_keys:
                instance.delete_dynamic_partition(request.partitions_def_name, key)
    for event in observation.events:
        instance.report_runless_asset_event(event)
