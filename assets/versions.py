"""Versions of the inputs of assets: hashes of sources, judges and settings."""

from __future__ import annotations

from dataclasses import asdict

from assets.code import code_version
from assets.hashing import content_hash
from assets.judge_keys import judge_key, scales_of_asked
from assets.workspace import Workspace
from care_ops.errors import CareError
from warehouse.testsets import VersionsSource


def source_version(workspace: Workspace, testset: str) -> str:
    """Hash a test set's source, or the error message of an unreadable source."""
    try:
        return readable_source_version(workspace, testset)
    except CareError as error:  # the asset `items` fails with this message; other test sets continue
        return content_hash(str(error))


def readable_source_version(workspace: Workspace, testset: str) -> str:
    """Hash a test set's source; raise a ``CareError`` if the source cannot be read."""
    spec = workspace.testset(testset)
    fingerprint = spec.fingerprint(workspace.root, workspace.file_hashes.of_bytes)
    if isinstance(spec.source, VersionsSource):
        fingerprint = content_hash([fingerprint, spec.scale, source_version(workspace, spec.source.of)])
    forgotten = workspace.forgotten_items()
    fingerprint = content_hash([fingerprint, sorted(forgotten)]) if forgotten else fingerprint
    return content_hash([fingerprint, "without flagged items"]) if workspace.pool.leave_out_flagged else fingerprint


def items_code() -> str:
    """Return the version of the code that reads a test set's source."""
    return code_version("assets/inputs", "warehouse")


def judge_version(workspace: Workspace, judge: str) -> str:
    """Hash the keys of a judge on all test sets, or the error message of a broken judge."""
    try:
        return content_hash({testset: judge_key(workspace, judge, testset) for testset in workspace.testsets_of(judge)})
    except CareError as error:  # the asset `judge_inference` fails with this message; other judges continue
        return content_hash(str(error))


def panel_version(workspace: Workspace, testset: str) -> str:
    """Hash the inputs of a test set's panel except scores: judges, families, admission rule, features."""
    judges = [(judge, workspace.judge(judge).family) for judge in workspace.judges_of(testset)]
    made_of: dict[str, object] = {"roster": judges, "admission": asdict(workspace.admission)}
    if wrong := workspace.contradiction(testset):
        made_of["families"] = wrong
    if rescaled := scales_of_asked(workspace, testset):
        made_of["scales"] = [asdict(one) for one in rescaled]
    if workspace.testset(testset).features or workspace.testset(testset).shuffled:
        made_of["features"] = readable_source_version(workspace, testset)
    return content_hash(made_of)


def settings_version(workspace: Workspace, testset: str) -> str:
    """Hash the inputs of a test set's fit except the panel: aggregators, penalties, labels."""
    spec, labels = workspace.testset(testset), workspace.labels_of(testset)
    return content_hash(
        {
            "fit": workspace.fit_config(testset).fingerprint(),
            "scale": spec.scale,
            "description": spec.description,
            "labels": labels.content(),
        }
    )
