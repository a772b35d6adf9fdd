"""Which items of a test set a judge is not to be asked about: those that it has scored under its present key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assets.judge_keys import effective_spec, judge_key
from assets.judging.criteria import answered
from assets.workspace import Workspace
from judges.items import MAY_PASS
from judges.spec import JudgeSpec

if TYPE_CHECKING:
    from warehouse.attempts import Attempts
    from warehouse.parts import PartStore


@dataclass(frozen=True)
class Pending:
    """A judge as it is to be asked about one test set.

    Attributes
    ----------
    spec : JudgeSpec
        With the scale and prompt of the test set.
    settled : set of str
        Keys of the items that it is not to be asked about; all others are pending.
    again : collection of str
        Statuses of failures that may pass; items that have them are asked again.
    attempts : Attempts
        How often each item has been asked about in vain.
    answered : dict of str to dict
        By the keys of some that are settled, the rows that the answers for other criteria give, which are to be stored.
    """

    spec: JudgeSpec
    key: str
    settled: set[str]
    again: Collection[str]
    attempts: Attempts
    answered: dict[str, dict[str, Any]]


def pending(workspace: Workspace, parts: PartStore, judge: str, testset: str) -> Pending:
    """Who is to be asked about which items: those without a score in the parts under the judge's key.

    Items whose failure may pass count among them, until they have been asked about as often as the judge's file allows.
    """
    from warehouse.attempts import Attempts

    spec = effective_spec(workspace, judge, testset)
    key = judge_key(workspace, judge, testset)
    again = MAY_PASS if spec.engine.needs.template else ()
    done = parts.done(judge, testset, key, again)
    attempts = Attempts(parts.scores_folder(judge, testset), key)
    if again and (spent := attempts.spent(spec.attempts)):
        done |= spent & parts.done(judge, testset, key)
    rows = {key: row for key, row in answered(workspace, parts, judge, testset).items() if key not in done}
    return Pending(spec, key, done | rows.keys(), again, attempts, rows)
