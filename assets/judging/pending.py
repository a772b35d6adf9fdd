"""Pending items: items of a test set that a judge has not scored under its current key."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from assets.judge_keys import effective_spec, engine_context, judge_key
from assets.workspace import Workspace
from judges.items import MAY_PASS, Item
from judges.spec import JudgeSpec

if TYPE_CHECKING:
    from judges.questions import ItemSource
    from warehouse.parts import Attempts, PartStore

_TAKEN = ("item_id", "item_key", "score", "status", "p_json", "valid_mass", "order", "raw", "engine")


@dataclass(frozen=True)
class Pending:
    """Pending items of a judge on one test set.

    Attributes
    ----------
    spec : JudgeSpec
        Specification with the scale and prompt of the test set.
    settled : set of str
        Keys of the items that the judge will not score again; all other items are pending.
    again : collection of str
        Statuses of temporary failures; items with such a status are requested again.
    given_up : set of str
        Keys of items that CARE no longer retries, because the judge's ``attempts`` are used up.
    attempts : Attempts
        Number of failed attempts for each item.
    answered : dict of str to dict
        Earlier score rows, by new item key, of items whose added texts the prompt does not use.
    """

    spec: JudgeSpec
    key: str
    settled: set[str]
    given_up: set[str]
    again: Collection[str]
    attempts: Attempts
    answered: dict[str, dict[str, Any]]


def pending(
    workspace: Workspace, parts: PartStore, judge: str, testset: str, items: ItemSource | None = None
) -> Pending:
    """Find the items of a test set that a judge has not scored under its current key.

    An item with a temporary failure is pending until ``attempts`` are used up. ``items`` contains the current texts;
    if it is given, an item with a changed text is pending only if the judge's template shows this text.
    """
    from warehouse.parts import Attempts

    spec = effective_spec(workspace, judge, testset)
    key = judge_key(workspace, judge, testset)
    again = MAY_PASS if spec.engine.needs.template else ()
    done = parts.done(judge, testset, key, again)
    attempts = Attempts(parts.scores_folder(judge, testset), key)
    given_up = set[str]()
    if again and (spent := attempts.spent(spec.attempts) - done):
        given_up = spent & parts.done(judge, testset, key)
        done |= given_up
    rows = dict[str, dict[str, Any]]()
    if items is not None and spec.engine.needs.template:
        unread = engine_context(workspace).template(spec).unread
        rows = _before_texts(parts, judge, testset, key, items, unread, done)
    return Pending(spec, key, done | rows.keys(), given_up, again, attempts, rows)


def _before_texts(
    parts: PartStore,
    judge: str,
    testset: str,
    key: str,
    items: ItemSource,
    unread: Collection[str],
    settled: Collection[str],
) -> dict[str, dict[str, Any]]:
    """Map new item keys to earlier score rows, for items that gained texts which the prompt does not use."""
    from judges.questions import in_chunks

    to_ask = [position for position, one in enumerate(items.keys) if one not in settled] if unread else []
    if not to_ask:
        return {}
    rows = parts.read_scores(judge, testset, _TAKEN, key=key).to_pylist()
    given = {row["item_key"]: row for row in rows if row["status"] not in MAY_PASS}
    for one in items.keys:
        given.pop(one, None)
    found: dict[str, dict[str, Any]] = {}
    for chunk in in_chunks(to_ask if given else [], lambda position: items.lengths[position]):
        for item in items.read(chunk):
            before = next((one for one in _keys_before(item, unread) if one in given), None)
            if before is not None:
                found[item.key] = given[before] | {"item_key": item.key}
    return found


def _keys_before(item: Item, unread: Collection[str]) -> Iterator[str]:
    """Yield the keys that an item would have without one or more of the ``unread`` texts."""
    present = [name for name in unread if getattr(item, name) is not None]
    for count in range(1, len(present) + 1):
        for names in combinations(present, count):
            yield replace(item, **dict.fromkeys(names)).key
