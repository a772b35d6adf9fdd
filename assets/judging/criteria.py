"""Answers about several criteria: each test set of the same items takes its own, and an item is asked about once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from assets.judge_keys import effective_spec, engine_context, judge_key
from assets.judging.pending import Pending
from assets.workspace import Workspace
from care_ops.errors import CareError
from judges.engines.prompted import mean_of
from judges.items import MAY_PASS, Status
from judges.prompts import Template

if TYPE_CHECKING:
    from judges.questions import ItemSource
    from warehouse.parts import PartStore

_KEPT = ("item_id", "item_key", "judge_key", "status", "p_json", "order", "raw", "engine")


def template_of(workspace: Workspace, judge: str, testset: str) -> Template | None:
    """The prompt of a judge on a test set, where it asks for several criteria; None for all other judges."""
    spec = effective_spec(workspace, judge, testset)
    template = engine_context(workspace).template(spec) if spec.engine.needs.template else None
    return template if template is not None and template.criteria else None


def question_of(workspace: Workspace, judge: str, testset: str) -> str | None:
    """Key of what a judge is asked about a test set for all criteria at once; None where it is asked for no others."""
    template = template_of(workspace, judge, testset)
    return None if template is None else effective_spec(workspace, judge, testset).key(template.question)


def answered(workspace: Workspace, parts: PartStore, judge: str, testset: str) -> dict[str, dict[str, Any]]:
    """By item key, what the judge has said on other test sets in answer to the very question of this one."""
    question = question_of(workspace, judge, testset)
    rows: dict[str, dict[str, Any]] = {}
    for other in [] if question is None else workspace.testsets_of(judge):
        try:
            if other == testset or question_of(workspace, judge, other) != question:
                continue
            key = judge_key(workspace, judge, other)
        except CareError:  # it is told where that test set is judged
            continue
        said = parts.read_scores(judge, other, _KEPT).to_pylist()
        rows |= {row["item_key"]: row for row in said if row["judge_key"] == key and row["status"] not in MAY_PASS}
    return rows


def store_answered(
    workspace: Workspace, parts: PartStore, judge: str, testset: str, items: ItemSource, wanted: Pending
) -> set[str]:
    """Store this criterion's scores of the pending items that are answered; returns the keys of these items.

    Tokens and time are those of the asking, which are told where it was asked.
    """
    template = template_of(workspace, judge, testset)
    if template is None:
        return set()
    found = answered(workspace, parts, judge, testset)
    rows = [found[key] for key in items.keys if key in found and key not in wanted.settled]
    for engine in sorted({row["engine"] for row in rows}):
        own = [_of_criterion(row, template.criterion) for row in rows if row["engine"] == engine]
        parts.write_scores(judge, testset, wanted.key, engine, own)
    return {row["item_key"] for row in rows}


def _of_criterion(row: dict[str, Any], criterion: str) -> dict[str, Any]:
    """The row of another criterion; where the whole question failed, so did each of them."""
    kept = {name: row[name] for name in ("item_id", "item_key", "status", "p_json", "order", "raw")}
    if row["p_json"] is None:
        return kept | {"score": None}
    score = mean_of(json.loads(row["p_json"])[criterion])
    return kept | {"score": score, "status": str(Status.PARSE_ERROR if score is None else Status.OK)}
