"""Versions of what comes in: hashes of sources, judges and settings, by which a change is noticed."""

from __future__ import annotations

from dataclasses import asdict

from assets.code import code_version
from assets.hashing import content_hash
from assets.judge_keys import judge_key, scales_of_asked
from assets.workspace import Workspace
from care_ops.errors import CareError
from warehouse.testsets import VersionsSource, hash_of_file


def source_version(workspace: Workspace, testset: str) -> str:
    """Hash of what the items are made of; of the reason, where the source cannot be read."""
    try:
        return readable_source_version(workspace, testset)
    except CareError as error:  # one broken source must not hold up the others: `items` fails and says why
        return content_hash(str(error))


def readable_source_version(workspace: Workspace, testset: str) -> str:
    """Hash of what the items are made of; raises a ``CareError`` where the source cannot be read."""
    spec = workspace.testset(testset)
    hashes = workspace.file_hashes
    fingerprint = spec.fingerprint(workspace.root, lambda file: hashes.of(file, "bytes", lambda: hash_of_file(file)))
    if isinstance(spec.source, VersionsSource):
        fingerprint = content_hash([fingerprint, spec.scale, source_version(workspace, spec.source.of)])
    forgotten = workspace.forgotten_items()
    fingerprint = content_hash([fingerprint, sorted(forgotten)]) if forgotten else fingerprint
    return content_hash([fingerprint, "without flagged items"]) if workspace.pool.leave_out_flagged else fingerprint


def items_code() -> str:
    """Version of the code that reads a test set's source."""
    return code_version("assets.inputs.items", "warehouse")


def judge_version(workspace: Workspace, judge: str) -> str:
    """Hash of what the judge's scores are made of, over its test sets; of the reason, where it is broken."""
    try:
        return content_hash({testset: judge_key(workspace, judge, testset) for testset in workspace.testsets_of(judge)})
    except CareError as error:  # one broken judge must not hold up the others: `judge_inference` fails and says why
        return content_hash(str(error))


def panel_version(workspace: Workspace, testset: str) -> str:
    """Hash of everything but scores that a test set's panel depends on: roster with families, admission, features."""
    roster = [(judge, workspace.judge(judge).family) for judge in workspace.judges_of(testset)]
    made_of: dict[str, object] = {"roster": roster, "admission": asdict(workspace.admission)}
    if wrong := workspace.contradiction(testset):
        made_of["families"] = wrong
    brought = scales_of_asked(workspace, testset)
    if brought:
        made_of["scales"] = [asdict(one) for one in brought]
    if workspace.testset(testset).features or workspace.testset(testset).shuffled:
        made_of["features"] = readable_source_version(workspace, testset)
    return content_hash(made_of)


def settings_version(workspace: Workspace, testset: str) -> str:
    """Hash of everything but the panel that a test set's fit depends on: aggregators, penalties, anchors."""
    spec, anchors = workspace.testset(testset), workspace.anchors_of(testset)
    return content_hash(
        {
            "fit": workspace.fit_config(testset).fingerprint(),
            "scale": spec.scale,
            "description": spec.description,
            "anchors": anchors.content(),
        }
    )
