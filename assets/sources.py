"""Functions that read a test set's items (except items removed by ``care admin forget``) and recorded scores."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from assets.workspace import forgotten_key
from care_ops.injections import flag_injections
from care_ops.visible import has_invisible
from warehouse.items import ItemRecord, named_in, refuse_strangers
from warehouse.testsets import DemoSource, FilesSource, HuggingFaceSource, ImportSource, VersionsSource, resolve
from warehouse.versions import versions_of

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from judges.items import Item
    from warehouse.importers.collected import ImportedScores
    from warehouse.sources.files import RecordedTable
    from warehouse.sources.reading import Reading

_log = logging.getLogger(__name__)


def read_source(workspace: Workspace, testset: str) -> list[ItemRecord]:
    """Read the items of a test set from its source, except items removed by ``care admin forget``.

    With ``judging: {leave_out_flagged: true}`` in care.yaml, items with possible prompt injections are left out.
    """
    records = _read_unforgotten(workspace, testset)
    flags = flagged(records) if workspace.pool.leave_out_flagged else {}
    if flags:
        _log.warning(
            "Test set %s: left out %d of %d items (possible prompt injections).", testset, len(flags), len(records)
        )
    return [record for record in records if record.item_id not in flags]


def flagged(items: Iterable[ItemRecord | Item]) -> dict[str, tuple[str, ...]]:
    """Find items with possible prompt injections or invisible characters; return the matched rules by item id."""
    found: dict[str, tuple[str, ...]] = {}
    for item in items:
        responses = [item.response, item.response_2]
        rules = dict.fromkeys(rule for of in flag_injections(responses) for rule in of)
        if any(has_invisible(responses)):
            rules["invisible characters"] = None
        if rules:
            found[item.item_id] = tuple(rules)
    return found


def _read_unforgotten(workspace: Workspace, testset: str) -> list[ItemRecord]:
    forgotten = workspace.forgotten_items()
    records = _read_records(workspace, testset)
    declared_columns = workspace.testset(testset).further_columns
    named_in([record.metadata for record in records], declared_columns, f"test set {testset!r}")
    kept = [r for r in records if not forgotten or forgotten_key(testset, r.item_id) not in forgotten]
    _log.debug("test set %s: read %d items, left out %d (removed)", testset, len(records), len(records) - len(kept))
    return kept


def readings(workspace: Workspace, testset: str) -> Mapping[str, Reading]:
    """Return records of how this process has read a test set's files, by the keys ``items`` and ``scores``."""
    return workspace.memory.readings.get(testset, {})


def recorded_scores(workspace: Workspace, testset: str) -> RecordedTable | None:
    """Read a test set's recorded scores, rescale them to its scale, and cache them; return None if there are none.

    The scale of a judge's scores comes from their range, the judge's file, or the test set (``care_ops.scales``).
    """
    from care_ops.outliers import on_one_scale
    from warehouse.sources import files

    memory, spec = workspace.memory, workspace.testset(testset)
    if testset in memory.recorded_scores:
        return memory.recorded_scores[testset]
    source = spec.source
    read: list[Reading] = []
    if isinstance(source, ImportSource):
        table, declared = _imported(workspace, source).recorded(), source.scales
    elif isinstance(source, FilesSource) and source.scores is not None:
        path, declared = resolve(source.scores.path, workspace.root), source.scores.scales
        table = files.read_scores(path, source.scores.columns, source.scores.reading, read.append)
    else:
        return None
    scores, _, notes = on_one_scale(table.scores, spec.scale, declared | recorded_scales(workspace, testset))
    for reading in read:
        memory.readings.setdefault(testset, {})["scores"] = reading.noting(notes)
    memory.recorded_scores[testset] = replace(table, scores=scores)
    return memory.recorded_scores[testset]


def has_all_scored(workspace: Workspace, testset: str) -> bool:
    """Return True if each scored item is in the test set or was removed on request; otherwise raise ``InputError``."""
    table, source = recorded_scores(workspace, testset), workspace.testset(testset).source
    if table is not None and isinstance(source, FilesSource) and not source.where:
        records, forgotten = _read_unforgotten(workspace, testset), workspace.forgotten_items()
        there = {record.item_id for record in records}
        scored = [i for i in table.scores.item_ids if i in there or forgotten_key(testset, i) not in forgotten]
        refuse_strangers(scored, there, resolve(source.items, workspace.root))
    return True


def recorded_scales(workspace: Workspace, testset: str) -> dict[str, tuple[float, float]]:
    """Return recorded judges' scales that differ from the test set's scale, by the judge's name in the score file."""
    panel = workspace.testset(testset).scale
    return {
        spec.engine.recorded_as: spec.scale
        for spec in map(workspace.judge, workspace.judges_of(testset))
        if panel is not None and spec.engine.recorded_as is not None and spec.scale is not None and spec.scale != panel
    }


def _read_records(workspace: Workspace, testset: str) -> list[ItemRecord]:
    from warehouse.sources import demo, files

    source = workspace.testset(testset).source
    if isinstance(source, VersionsSource):
        records, scale = read_source(workspace, source.of), workspace.testset(testset).scale
        two_classes = {record.gold for record in records} <= {0.0, 1.0, None}
        return versions_of(records, source.changes, 0.0 if two_classes else scale[0] if scale else None)
    if isinstance(source, ImportSource):
        return list(_imported(workspace, source).items.values())
    if isinstance(source, DemoSource):
        return demo.generate(source.countries, source.seed, complete=source.complete)
    if isinstance(source, HuggingFaceSource):
        from warehouse.sources import huggingface

        return huggingface.read_items(source, workspace.root, workspace.testset(testset).further_columns)
    testset_readings = workspace.memory.readings.setdefault(testset, {})
    return files.read_items(
        resolve(source.items, workspace.root),
        source.columns,
        source.where,
        source.drop,
        source.reading,
        report=lambda reading: testset_readings.update(items=reading),
    )


def _imported(workspace: Workspace, source: ImportSource) -> ImportedScores:
    from warehouse.importers.registry import read_unchanged

    imported = read_unchanged(source.tool, resolve(source.path, workspace.root))
    for sentence in imported.sentences():
        _log.debug("%s", sentence)
    return imported
