"""Judges that have not said all that was asked of them, as the warehouse knows it.

Belongs here: which slices are not complete, which failures may still pass. Does not: asking again
(``judge_inference``), what a person is told of it (``assets.report.states``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from care_ops.errors import CareError
from judges.items import MAY_PASS

if TYPE_CHECKING:
    import duckdb

    from assets.workspace import Workspace


@dataclass(frozen=True)
class Unheard:
    """What a judge owes on a test set.

    Attributes
    ----------
    judge : str
    items : int
        Of the test set.
    unscored : int
        Items without any row under the judge's current specification.
    to_ask : int
        Items whose last answer was a failure that may pass, and that will be asked again.
    given_up : int
        Items that failed so as often as the judge's ``attempts`` allow.
    why : str
        Why the judge cannot be asked at all; empty where it can.
    """

    judge: str
    items: int
    unscored: int
    to_ask: int
    given_up: int
    why: str = ""


def unheard(workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str) -> list[Unheard]:
    """The judges of a test set that owe something, sorted."""
    known = connection.execute("SELECT items_hash FROM testsets WHERE testset = ?", [testset]).fetchone()
    rows = connection.execute("SELECT count(*) FROM items WHERE testset = ?", [testset]).fetchone()
    if known is None or rows is None:
        return []
    slices = {
        judge: (key, items, scored)
        for judge, key, items, scored in connection.execute(
            "SELECT judge, judge_key, items_hash, n_scored FROM slices WHERE testset = ?", [testset]
        ).fetchall()
    }
    failed: dict[str, set[str]] = {}
    for judge, item_key in connection.execute(
        "SELECT judge, item_key FROM scores JOIN items USING (item_ix) JOIN judges USING (judge_ix) "
        f"WHERE testset = ? AND status IN ({', '.join('?' * len(MAY_PASS))})",
        [testset, *map(str, MAY_PASS)],
    ).fetchall():
        failed.setdefault(judge, set()).add(item_key)
    found: list[Unheard] = []
    for judge in workspace.judges_of(testset):
        spec = workspace.judge(judge)
        try:
            key = workspace.judge_key(judge, testset)
        except CareError as error:
            found.append(Unheard(judge, rows[0], rows[0], 0, 0, str(error)))
            continue
        of = slices.get(judge)
        if of is None or of[:2] != (key, known[0]):
            found.append(Unheard(judge, rows[0], rows[0], 0, 0))
            continue
        lost = failed.get(judge, set()) if spec.engine.needs.template else set[str]()
        spent = workspace.attempts(judge, testset, key).spent(spec.attempts) & lost if lost else set[str]()
        if lost or of[2] < rows[0]:
            found.append(Unheard(judge, rows[0], rows[0] - of[2], len(lost - spent), len(spent)))
    return found
