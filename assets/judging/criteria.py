"""Answers about several criteria: each test set of the same items takes its own, and an item is asked about once."""

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
"""What is taken over of an answer; its tokens and its time are told where it was asked for."""


def question_of(workspace: Workspace, judge: str, testset: str) -> tuple[str, str]:
    """Key of what a judge is asked, for all criteria at once, and the test set's own; both empty where it is broken."""
    try:
        spec = effective_spec(workspace, judge, testset)
        template = engine_context(workspace).template(spec) if spec.engine.needs.template else None
        if template is not None and template.criteria:
            return spec.key(template.question), template.criterion
        return judge_key(workspace, judge, testset), ""
    except CareError:  # it is told where that test set is judged
        return "", ""


def asked_alike(workspace: Workspace, judge: str, testset: str) -> Iterator[str]:
    """The other test sets for which a judge is asked the same about an item; each takes its own criterion."""
    question, criterion = question_of(workspace, judge, testset)
    for other in workspace.testsets_of(judge) if criterion else []:
        if other != testset and question_of(workspace, judge, other)[0] == question:
            yield other


def answered(workspace: Workspace, parts: PartStore, judge: str, testset: str) -> dict[str, dict[str, Any]]:
    """By item key, a row of this test set's criterion by each answer to its question that another test set has."""
    _, criterion = question_of(workspace, judge, testset)
    rows: dict[str, dict[str, Any]] = {}
    for other in asked_alike(workspace, judge, testset):
        for row in parts.read_scores(judge, other, _TAKEN, key=judge_key(workspace, judge, other)).to_pylist():
            if row["status"] not in MAY_PASS:
                rows[row["item_key"]] = _of_criterion(row, criterion)
    return rows


def _of_criterion(row: dict[str, Any], criterion: str) -> dict[str, Any]:
    """The row of another criterion; where none has a score, each has the status that the question has."""
    score = mean_of(json.loads(row["p_json"] or "{}").get(criterion, ()))
    failed = Status.PARSE_ERROR if row["status"] == Status.OK else row["status"]
    return row | {"score": score, "status": str(failed if score is None else Status.OK)}
