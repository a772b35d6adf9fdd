"""Attribution of changed scores to systems or to judges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from assets.judge_keys import judge_key, keys_of_judges
from assets.judging.retests import JUDGE_FALSE_ALARMS, retests, span_of
from assets.results.documents import SystemsDocument
from assets.workspace import Workspace
from care_ops.records import ChangePoint
from care_ops.results.attribution import Answer, References, change, of_system
from judges.items import Status
from warehouse.compute import pc

_COMPARED = 12
"""Maximum number of new answers of a system that are compared in a run."""

Place = tuple[str, str]
"""Id and key of an item; the key changes if the answer changes."""


def changed_systems(workspace: Workspace, testset: str) -> dict[str, ChangePoint]:
    """Find the systems that changed, by the scores of those judges on the panel that can score new answers.

    Answers after the reference day are compared with earlier ones. The reference day is the day on which the last of
    these judges got its reference scores, or the day on which a person published a fit, if later. Pairs have two
    systems each and are not compared.
    """
    if len(workspace.testset(testset).systems) != 1:
        return {}
    admitted = workspace.fit_folder(testset).panel_summary().present
    judges = [judge for judge in keys_of_judges(workspace, testset) if judge in admitted]
    scored = {judge: _scored(workspace, judge, testset) for judge in judges}
    days = [
        (pc.min(rows["created_at"]).as_py(), pc.max(rows["created_at"]).as_py()) for rows in scored.values() if rows
    ]
    reference_day = max([_published_by_hand(workspace, testset), *(first.toordinal() for first, _ in days)])
    if all(last.toordinal() <= reference_day for _, last in days):
        return {}
    before, new = _answers(workspace, testset, scored, reference_day)
    moving = [judge for judge in judges if workspace.judge(judge).engine.needs.endpoint]
    references = _references(workspace, testset, moving)
    others = sum(bool(spec.systems) for spec in workspace.testsets.values())
    share = JUDGE_FALSE_ALARMS / others / max(len({*before, *new}), 1)
    found = {s: change(of_system(before.get(s, ()), new[s], references, moving, _COMPARED), share) for s in sorted(new)}
    return {system: changed for system, changed in found.items() if changed is not None}


def _published_by_hand(workspace: Workspace, testset: str) -> int:
    """Return the last day on which a person published a fit; 0 if there is no such fit."""
    by_hand = [each for each in workspace.fits.publications(testset) if each.published_by != "review"]
    return max((datetime.fromisoformat(each.published_at).toordinal() for each in by_hand), default=0)


def _scored(workspace: Workspace, judge: str, testset: str) -> pa.Table:
    """Read a judge's scores under its current key, including scores of earlier answers."""
    columns, key = ("item_id", "item_key", "score", "status", "created_at"), judge_key(workspace, judge, testset)
    rows = workspace.parts.read_scores(judge, testset, columns, key=key)
    return rows.filter(pc.equal(rows["status"], str(Status.OK)))


def _answers(
    workspace: Workspace, testset: str, scored: Mapping[str, pa.Table], reference_day: int
) -> tuple[dict[str, list[Answer]], dict[str, list[Answer]]]:
    """Return the answers of each system: the latest answers up to the reference day, and all later answers."""
    items = workspace.parts.read_gold(testset)
    named = workspace.parts.read_systems(testset, workspace.systems_of(testset))
    systems = {item: names[0] for item, names in zip(items.item_ids, named, strict=True) if names is not None}
    prompts = dict(zip(items.item_ids, items.units(), strict=True))
    scores, days = defaultdict[Place, dict[str, float]](dict), defaultdict[Place, int](int)
    for judge, rows in scored.items():
        span = span_of(workspace, judge, testset, rows["score"].to_pylist())
        for row in rows.to_pylist():
            place = row["item_id"], row["item_key"]
            scores[place][judge] = row["score"] / span
            days[place] = max(days[place], row["created_at"].toordinal())
    latest, new = dict[str, Answer](), defaultdict[str, list[Answer]](list)
    for (item, key), day in sorted(days.items(), key=lambda each: each[1]):
        if item in systems:
            answer = Answer(prompts[item], key, day, scores[item, key])
            if day > reference_day:
                new[systems[item]].append(answer)
            else:
                latest[item] = answer
    before = defaultdict[str, list[Answer]](list)
    for item, answer in latest.items():
        before[systems[item]].append(answer)
    return before, new


def _references(workspace: Workspace, testset: str, moving: Sequence[str]) -> References:
    """Group retested items by day, sorted by the number of judges; items of this test set come first among equals."""
    moved = defaultdict[int, dict[tuple[bool, str], dict[str, float]]](lambda: defaultdict(dict))
    for judge in moving:
        for row in retests(workspace, judge).rows:
            moved[row.run_date][row.testset != testset, row.key][judge] = row.moved
    ranked = {day: sorted(of.items(), key=lambda each: (-len(each[1]), each[0])) for day, of in moved.items()}
    return {day: [(key, by_judge) for (_, key), by_judge in of] for day, of in ranked.items()}


def changes(workspace: Workspace, testset: str) -> tuple[dict[str, ChangePoint], dict[str, ChangePoint]]:
    """Return the judges and systems of a test set that changed.

    New reference scores remove a judge from the result; a fit that a person published later removes a system.
    """
    asked = [name for name in workspace.judges_of(testset) if not workspace.judge(name).engine.needs.recordings]
    judges = {judge: retests(workspace, judge).changed for judge in asked}
    found = workspace.fit_folder(testset).find(SystemsDocument)
    changed = {} if found is None else found.changed
    systems = {name: one for name, one in changed.items() if one.detected > _published_by_hand(workspace, testset)}
    return {judge: one for judge, one in judges.items() if one is not None}, systems
