"""What the world looks like now: partitions and content versions of external assets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from assets.inputs.external import fit_settings, judge_spec, panel_settings, review_settings, source
from assets.partitions import JUDGES, TESTSETS, slice_key
from assets.versions import judge_version, panel_version, review_version, settings_version, source_version
from assets.workspace import Workspace
from orchestration.dagster_internals import latest_tags

_VERSION_TAG = "dagster/data_version"

_GONE = "gone"
"""Version of a judge that has left the workspace, and of its slices: when it comes back, that is a change."""

_SLICED = tuple(map(dg.AssetKey, ("score_parts", "scores")))
"""Assets with a partition for each judge and test set."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observation:
    """What has changed since it was last reported to the instance.

    Attributes
    ----------
    events : list of AssetMaterialization
        A new version of a source, a judge specification or a test set's settings; or that a judge has left.
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
    events = [*_departures(workspace, instance), *_new_versions(workspace, instance)]
    observation = Observation(events, list(_partition_requests(workspace, instance)))
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


def _departures(workspace: Workspace, instance: dg.DagsterInstance) -> Iterator[dg.AssetMaterialization]:
    """Judges that have left, and their slices, whose scores the next panel takes out of the database.

    A judge that comes back as it was has the keys and the scores that it had, and Dagster compares with what was
    reported last: without this, nothing would load its scores, and no panel would see them. The judge itself comes
    last, so that a process that is killed before reports all of it again.
    """
    reported = latest_tags(instance, judge_spec.key, _VERSION_TAG)
    left = {judge for judge, version in reported.items() if judge not in workspace.judges and version != _GONE}
    for key in _SLICED if left else ():
        for partition, version in latest_tags(instance, key, _VERSION_TAG).items():
            if partition.partition("|")[0] in left and version != _GONE:
                where = slice_key(*partition.split("|"))
                yield dg.AssetMaterialization(key, partition=where, tags={_VERSION_TAG: _GONE})
    for judge in sorted(left):
        yield dg.AssetMaterialization(judge_spec.key, partition=judge, tags={_VERSION_TAG: _GONE})


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
            before = reported.get(partition)
            # A test set that never had a judge has no panel to miss: `panel` waits for its settings.
            unjudged = before is None and key == panel_settings.key and not workspace.judges_of(partition)
            if before != version and not unjudged:
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
