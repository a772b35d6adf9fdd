"""Which items a judge has not scored yet, under its present key.

Belongs here: what is pending, for whoever asks a judge and whoever says beforehand what asking will take. Belongs
elsewhere: asking (``judge_inference``), the cost (``forecast``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assets.judge_keys import effective_spec, judge_key
from assets.workspace import Workspace
from judges.items import MAY_PASS, Item
from judges.spec import JudgeSpec

if TYPE_CHECKING:
    from warehouse.attempts import Attempts
    from warehouse.parts import PartStore


@dataclass(frozen=True)
class Pending:
    """A judge and the items of one test set that it is to be asked about.

    Attributes
    ----------
    spec : JudgeSpec
        With the scale and prompt of the test set.
    key : str
    items : list of Item
    again : collection of str
        Statuses of failures that may pass; items that have them are asked again.
    attempts : Attempts
        How often each item has been asked about in vain.
    """

    spec: JudgeSpec
    key: str
    items: Sequence[Item]
    again: Sequence[str]
    attempts: Attempts


def pending(workspace: Workspace, parts: PartStore, judge: str, testset: str, items: Sequence[Item]) -> Pending:
    """Those of a test set's items that have no score in the parts under the judge's key, or a failure that may pass."""
    from warehouse.attempts import Attempts

    spec = effective_spec(workspace, judge, testset)
    key = judge_key(workspace, judge, testset)
    again = MAY_PASS if spec.engine.needs.template else ()
    done = parts.done(judge, testset, key, again)
    attempts = Attempts(parts.scores_folder(judge, testset), key)
    if again and (spent := attempts.spent(spec.attempts)):
        done |= spent & parts.done(judge, testset, key)
    return Pending(spec, key, [item for item in items if item.key not in done], again, attempts)
