"""Answers about several criteria: each test set of the same items takes its own, and an item is asked about once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from assets.judge_keys import effective_spec, engine_context, judge_key
from care_ops.errors import CareError
from judges.items import MAY_PASS, Status, mean_of

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from warehouse.parts import PartStore

_TAKEN = ("item_id", "item_key", "status", "p_json", "order", "raw", "engine")
"""What is taken over of an answer; its tokens and its time are told where it was asked for."""


def question_of(workspace: Workspace, judge: str, testset: str) -> tuple[str, str]:
    """Key of what a judge is asked for all criteria at once, and the test set's own; both empty where it has none."""
    spec = effective_spec(workspace, judge, testset)
    template = engine_context(workspace).template(spec) if spec.engine.needs.template else None
    return (spec.key(template.question), template.criterion) if template and template.criteria else ("", "")


def answered(workspace: Workspace, parts: PartStore, judge: str, testset: str) -> dict[str, dict[str, Any]]:
    """By item key, a row of this test set's criterion by each answer to its question that another test set has."""
    question, criterion = question_of(workspace, judge, testset)
    rows: dict[str, dict[str, Any]] = {}
    for other in workspace.testsets_of(judge) if question else []:
        try:
            if other == testset or question_of(workspace, judge, other)[0] != question:
                continue
            key = judge_key(workspace, judge, other)
        except CareError:  # it is told where that test set is judged
            continue
        for row in parts.read_scores(judge, other, _TAKEN, key=key).to_pylist():
            if row["status"] not in MAY_PASS:
                rows[row["item_key"]] = _of_criterion(row, criterion)
    return rows


def _of_criterion(row: dict[str, Any], criterion: str) -> dict[str, Any]:
    """The row of another criterion; where none has a score, each has the status that the question has."""
    score = mean_of(json.loads(row["p_json"] or "{}").get(criterion, ()))
    failed = Status.PARSE_ERROR if row["status"] == Status.OK else row["status"]
    return row | {"score": score, "status": str(failed if score is None else Status.OK)}
