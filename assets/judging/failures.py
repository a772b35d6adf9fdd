"""Judges whose scores of a test set are incomplete, as the warehouse knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assets.judge_keys import judge_key
from care_ops.errors import CareError
from judges.items import MAY_PASS

if TYPE_CHECKING:
    import duckdb

    from assets.workspace import Workspace


@dataclass(frozen=True)
class Unheard:
    """A judge whose scores of a test set are incomplete or partly failed.

    Attributes
    ----------
    items : int
        Of the test set.
    loaded : bool
        Whether its slice in the warehouse is of the current items and of the judge as it is specified now.
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
    loaded: bool
    unscored: int
    to_ask: int = 0
    given_up: int = 0
    why: str = ""

    @property
    def incomplete(self) -> bool:
        """Whether asking the judge and loading its slice would bring what is lacking."""
        return not self.why and (not self.loaded or self.unscored > 0)


def unheard(workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str) -> list[Unheard]:
    """The judges of a test set whose scores are incomplete or partly failed, sorted."""
    known = connection.execute(
        "SELECT items_hash, (SELECT count(*) FROM items WHERE testset = $1) FROM testsets WHERE testset = $1", [testset]
    ).fetchone()
    if known is None:
        return []
    items_hash, items = known
    sql = "SELECT judge, judge_key, items_hash, n_scored FROM slices WHERE testset = ?"
    slices = {judge: of for judge, *of in connection.execute(sql, [testset]).fetchall()}
    failures = connection.execute(
        "SELECT judge, list(item_key) FROM scores JOIN items USING (item_ix) JOIN judges USING (judge_ix) "
        "WHERE testset = ? AND list_contains(?, status) GROUP BY judge",
        [testset, list(map(str, MAY_PASS))],
    ).fetchall()
    failed = {judge: set(keys) for judge, keys in failures if judge in workspace.judges}
    owing: list[Unheard] = []
    for judge in workspace.judges_of(testset):
        spec = workspace.judge(judge)
        try:
            key = judge_key(workspace, judge, testset)
        except CareError as error:
            owing.append(Unheard(judge, items, False, items, why=str(error)))
            continue
        *made_of, scored = slices.get(judge, (None, None, 0))
        if made_of != [key, items_hash]:
            owing.append(Unheard(judge, items, False, items))
            continue
        failed_items = failed.get(judge, set[str]()) if spec.engine.needs.template else set[str]()
        if failed_items or scored < items:
            given_up = failed_items & workspace.attempts(judge, testset, key).spent(spec.attempts)
            left = len(failed_items - given_up)
            owing.append(Unheard(judge, items, True, items - scored, left, len(given_up)))
    return owing
