"""Probe items of a test set: written beside its items, asked by ``judge_inference``, read for the asset ``probes``.

They lie in a store of parts of their own (``Workspace.probe_parts``), so that no panel, page or count of items meets
them.

Belongs here: between the store and the rest. Does not: making versions (``warehouse.probes``), running a judge
(``judges.pool``), what responses say (``care_ops.models.probes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assets.judge_keys import judge_item
from judges.items import Status
from warehouse.probes import make

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from warehouse.items import ItemRecord

OF, KIND, EFFECT = "of", "kind", "effect"
"""Metadata of a probe item: the item that it was made from, how, and what that does to quality."""


def write_probe_items(workspace: Workspace, testset: str, records: Sequence[ItemRecord]) -> str:
    """Replace the probe items of a test set; returns their version, empty where the test set declares none.

    Raises
    ------
    InputError
        Nothing can be changed in the items in the ways that are declared.
    """
    declared = workspace.testset(testset).probes
    if declared is None:
        workspace.probe_parts.items_file(testset).unlink(missing_ok=True)
        return ""
    from dataclasses import replace

    plan = declared.plan
    made = [
        replace(probe.record, metadata={OF: probe.of, KIND: probe.kind, EFFECT: plan.kinds[probe.kind]})
        for probe in make(records, plan)
    ]
    return "".join(workspace.probe_parts.write_items(testset, made))


def probe_scores(workspace: Workspace, judge: str, testset: str, key: str) -> dict[str, float]:
    """A judge's scores of the current probe items under a key, by the content key of the item."""
    current = {judge_item(record).key for record in probe_items(workspace, testset)}
    if not current:
        return {}
    rows = workspace.probe_parts.read_scores(judge, testset, ("item_key", "judge_key", "score", "status")).to_pylist()
    return {
        row["item_key"]: row["score"]
        for row in rows
        if row["judge_key"] == key and row["status"] == Status.OK and row["item_key"] in current
    }


def probe_items(workspace: Workspace, testset: str) -> list[ItemRecord]:
    """The probe items of a test set; none where it declares none, or they have not been made yet."""
    if workspace.testset(testset).probes is None or not workspace.probe_parts.items_file(testset).exists():
        return []
    return workspace.probe_parts.read_items(testset)
