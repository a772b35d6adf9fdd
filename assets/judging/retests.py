"""Retests of judges: later scores of the same items, to detect changed judges.

A judge's retest file contains item keys but no texts or ids, so ``care admin forget`` need not change the file. When
a judge's key changes, everything is scored again, and earlier retests no longer count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import quote

from assets.judge_keys import effective_spec, judge_key
from assets.workspace import Workspace
from care_ops.errors import CareError
from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.records import ChangePoint
from care_ops.results.attribution import FALSE_ALARMS, Difference, change
from warehouse.documents import read_record, write_record
from warehouse.storage import file_state, find_sound


@dataclass(frozen=True)
class Retest:
    """Stored and new score of an item that a judge scored again, as shares of the scale.

    ``run_date`` is the day of the retest (``date.toordinal``).
    """

    run_date: int
    testset: str
    key: str
    kept: float
    today: float

    @property
    def moved(self) -> float:
        """New score minus the stored score, as a share of the scale."""
        return self.today - self.kept


@dataclass(frozen=True)
class Retests:
    """Retests of a judge with its current keys, oldest first, and the detected change point.

    ``asked`` is the day of the last retest, with or without answers; 0 if there was no retest.
    """

    judge_keys: dict[str, str] = field(default_factory=dict[str, str])
    rows: tuple[Retest, ...] = ()
    changed: ChangePoint | None = None
    asked: int = 0

    def differences(self) -> list[Difference]:
        """Return, for each retest, the change in score and the number of retests of the item so far."""
        times = Counter[tuple[str, str]]()
        found: list[Difference] = []
        for row in self.rows:
            times[row.testset, row.key] += 1
            found.append(Difference(row.run_date, row.moved, times[row.testset, row.key]))
        return found


def retests(workspace: Workspace, judge: str) -> Retests:
    """Read the retests stored under a judge's current keys."""
    path = _file(workspace, judge)
    kept = _read(path, tuple(file_state(path) or ())) or Retests()
    there = {*workspace.testsets_of(judge)} if kept.rows else ()
    current = {t: key for t, key in kept.judge_keys.items() if t in there and _key(workspace, judge, t) == key}
    rows = tuple(row for row in kept.rows if row.testset in current)
    asked = kept.asked or max((row.run_date for row in rows), default=0)
    return Retests(current, rows, kept.changed if rows else None, asked)


def changed_judges(workspace: Workspace, testset: str) -> dict[str, ChangePoint]:
    """Return the detected change of each judge of a test set; a new ``revision`` of the judge clears the change."""
    asked = (name for name in workspace.judges_of(testset) if not workspace.judge(name).engine.needs.recordings)
    changed = {judge: retests(workspace, judge).changed for judge in asked}
    return {judge: one for judge, one in changed.items() if one is not None}


def record_retest(workspace: Workspace, judge: str, watched: int, rows: Sequence[Retest], day: int) -> Retests:
    """Store a judge's retests, and detect a change; the false alarm rate is split among all ``watched`` judges."""
    before = retests(workspace, judge)
    keys = {testset: judge_key(workspace, judge, testset) for testset in {row.testset for row in rows}}
    now = Retests(before.judge_keys | keys, (*before.rows, *rows), before.changed, day)
    if now.changed is None:
        now = replace(now, changed=change(now.differences(), FALSE_ALARMS / max(watched, 1)))
    write_record(_file(workspace, judge), now)
    return now


def is_as_before(changed: ChangePoint, again: Sequence[Retest]) -> bool:
    """Return whether a changed judge's new retests are nearer to the scores before the change than to later scores."""
    shift = sum(row.moved for row in again) / max(len(again), 1)
    return len(again) >= MIN_ITEMS and abs(shift) < abs(changed.shift) / 2


def forget_change(workspace: Workspace, judge: str, again: Sequence[Retest]) -> None:
    """Clear a judge's detected change; replace all retests since the change with the retests ``again``."""
    kept = retests(workspace, judge)
    if kept.changed is not None:
        rows = tuple(row for row in kept.rows if row.run_date < kept.changed.run_date)
        write_record(_file(workspace, judge), replace(kept, rows=(*rows, *again), changed=None))


def span_of(workspace: Workspace, judge: str, testset: str, scores: Collection[float]) -> float:
    """Return the width of a judge's declared scale; if there is none, return the range of ``scores``."""
    scale = effective_spec(workspace, judge, testset).scale
    return (scale[1] - scale[0] if scale else max(scores, default=0.0) - min(scores, default=0.0)) or 1.0


def _key(workspace: Workspace, judge: str, testset: str) -> str | None:
    try:
        return judge_key(workspace, judge, testset)
    except CareError:
        return None


def _file(workspace: Workspace, judge: str) -> Path:
    return workspace.data / "parts" / "retests" / f"{quote(judge, safe='')}.json"


@lru_cache(maxsize=256)
def _read(path: Path, state: tuple[int, ...]) -> Retests | None:
    return find_sound(path, partial(read_record, kind=Retests)) if state else None
