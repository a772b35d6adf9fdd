"""What judges said when they were asked again: a document a judge, from which it follows whether the judge has changed.

It holds keys of items and no texts or ids, so that there is nothing in it to forget. A judge is anchored anew where its
key becomes another one, since everything is then scored anew: what was asked under the key before counts no more.
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
from care_ops.least import LEAST_ITEMS
from care_ops.records import ChangePoint
from care_ops.results.attribution import FALSE_ALARMS, Difference, change
from warehouse.documents import document_of, read_record
from warehouse.storage import file_state, find_sound, write_document

LEAST_TOLD = FALSE_ALARMS / 2
"""What the judges of a workspace have of the false alarms, together; the other half is the systems'."""


@dataclass(frozen=True)
class AskedAgain:
    """An item of a test set, by its key, asked about again on a day, as ``date.toordinal`` counts.

    Scores, the one that is kept and the one of that day, are in shares of the scale.
    """

    night: int
    testset: str
    key: str
    kept: float
    today: float

    @property
    def moved(self) -> float:
        """By how much the score is higher, in shares of the scale."""
        return self.today - self.kept


@dataclass(frozen=True)
class Retests:
    """What a judge was asked again under its keys of now, by test set, oldest first, and the change that it shows.

    ``asked`` is the last day on which it was asked, also if it answered nothing; 0 if it never was.
    """

    judge_keys: dict[str, str] = field(default_factory=dict[str, str])
    rows: tuple[AskedAgain, ...] = ()
    changed: ChangePoint | None = None
    asked: int = 0

    def anchored(self, testset: str) -> int | None:
        """The first day on which it was asked again about a test set."""
        return min((row.night for row in self.rows if row.testset == testset), default=None)

    def differences(self) -> list[Difference]:
        """Each item's first time in round 1, its second in round 2, and so on."""
        times = Counter[tuple[str, str]]()
        found: list[Difference] = []
        for row in self.rows:
            times[row.testset, row.key] += 1
            found.append(Difference(row.night, row.moved, times[row.testset, row.key]))
        return found


def retests(workspace: Workspace, judge: str) -> Retests:
    """What a judge was asked again, under the keys that it has now."""
    path = _file(workspace, judge)
    kept = _read(path, tuple(file_state(path) or ())) or Retests()
    there = {*workspace.testsets_of(judge)} if kept.rows else ()
    current = {t: key for t, key in kept.judge_keys.items() if t in there and _key(workspace, judge, t) == key}
    rows = tuple(row for row in kept.rows if row.testset in current)
    return Retests(current, rows, kept.changed if rows else None, kept.asked or max((r.night for r in rows), default=0))


def note(workspace: Workspace, judge: str, watched: int, rows: Sequence[AskedAgain], day: int) -> Retests:
    """Keep what a judge, one of so many that are watched, was asked again; a change that was told stays told."""
    before = retests(workspace, judge)
    keys = {testset: judge_key(workspace, judge, testset) for testset in {row.testset for row in rows}}
    now = Retests(before.judge_keys | keys, (*before.rows, *rows), before.changed, day)
    if now.changed is None:
        now = replace(now, changed=change(now.differences(), LEAST_TOLD / max(watched, 1)))
    write_document(_file(workspace, judge), document_of(now))
    return now


def is_as_before(changed: ChangePoint, again: Sequence[AskedAgain]) -> bool:
    """Whether a judge that had changed, asked again about these items, is nearer to its old scores than to its new."""
    shift = sum(row.moved for row in again) / max(len(again), 1)
    return len(again) >= LEAST_ITEMS and abs(shift) < abs(changed.shift) / 2


def forget_change(workspace: Workspace, judge: str, again: Sequence[AskedAgain]) -> None:
    """Forget what a judge said from its change on, except the last time: its model of before answers again."""
    kept = retests(workspace, judge)
    if kept.changed is not None:
        rows = tuple(row for row in kept.rows if row.night < kept.changed.night)
        write_document(_file(workspace, judge), document_of(replace(kept, rows=(*rows, *again), changed=None)))


def span_of(workspace: Workspace, judge: str, testset: str, scores: Collection[float]) -> float:
    """The length of a judge's scale; where none is declared, that of the range of all these scores."""
    scale = effective_spec(workspace, judge, testset).scale
    return (scale[1] - scale[0] if scale else max(scores, default=0.0) - min(scores, default=0.0)) or 1.0


def _key(workspace: Workspace, judge: str, testset: str) -> str | None:
    """The key of now; None of a judge whose file is broken, which is told elsewhere."""
    try:
        return judge_key(workspace, judge, testset)
    except CareError:
        return None


def _file(workspace: Workspace, judge: str) -> Path:
    return workspace.data / "parts" / "retests" / f"{quote(judge, safe='')}.json"


@lru_cache(maxsize=256)
def _read(path: Path, state: tuple[int, ...]) -> Retests | None:
    """The document in the ``state`` in which the file is; a verdict asks for it at every look."""
    return find_sound(path, partial(read_record, kind=Retests)) if state else None
