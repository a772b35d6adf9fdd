"""Answers about several criteria: an item is asked about once, and each test set takes its own criterion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assets.judge_keys import effective_spec, engine_context, judge_key
from care_ops.errors import CareError
from judges.items import MAY_PASS, Status, mean_of

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from warehouse.parts import PartStore

_TAKEN = ("item_id", "item_key", "status", "p_json", "order", "raw", "engine")
"""Columns of an answer that are copied; its tokens and time stay with the test set that asked."""


def question_of(workspace: Workspace, judge: str, testset: str) -> tuple[str, str]:
    """Return the key of a judge's question, for all criteria at once, and the test set's criterion; empty if broken."""
    try:
        spec = effective_spec(workspace, judge, testset)
        template = engine_context(workspace).template(spec) if spec.engine.needs.template else None
        if template is not None and template.criteria:
            return spec.key(template.question), template.criterion
        return judge_key(workspace, judge, testset), ""
    except CareError:  # reported when that test set is judged
        return "", ""


def asked_alike(workspace: Workspace, judge: str, testset: str) -> Iterator[str]:
    """Yield the other test sets that ask a judge the same question about an item."""
    question, criterion = question_of(workspace, judge, testset)
    for other in workspace.testsets_of(judge) if criterion else []:
        if other != testset and question_of(workspace, judge, other)[0] == question:
            yield other


def answered(workspace: Workspace, parts: PartStore, judge: str, testset: str) -> dict[str, dict[str, Any]]:
    """Return, by item key, rows of this test set's criterion from the answers that other test sets have."""
    _, criterion = question_of(workspace, judge, testset)
    rows: dict[str, dict[str, Any]] = {}
    for other in asked_alike(workspace, judge, testset):
        for row in parts.read_scores(judge, other, _TAKEN, key=judge_key(workspace, judge, other)).to_pylist():
            if row["status"] not in MAY_PASS:
                rows[row["item_key"]] = _of_criterion(row, criterion)
    return rows


def _of_criterion(row: dict[str, Any], criterion: str) -> dict[str, Any]:
    """Return the row of another criterion; without a score it has the status of the question."""
    score = mean_of(json.loads(row["p_json"] or "{}").get(criterion, ()))
    failed = Status.PARSE_ERROR if row["status"] == Status.OK else row["status"]
    return row | {"score": score, "status": str(failed if score is None else Status.OK)}
