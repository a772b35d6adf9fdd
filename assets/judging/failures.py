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
    asked_judges = [j for j in workspace.judges_of(testset) if workspace.judge(j).engine.needs.template]
    failed: dict[str, set[str]] = {judge: set() for judge in asked_judges}
    for judge, item_key in (
        connection.execute(
            "SELECT judge, item_key FROM scores JOIN items USING (item_ix) JOIN judges USING (judge_ix) "
            "WHERE testset = ? AND list_contains(?, judge) AND list_contains(?, status)",
            [testset, asked_judges, list(map(str, MAY_PASS))],
        ).fetchall()
        if asked_judges
        else ()
    ):
        failed[judge].add(item_key)
    owing: list[Unheard] = []
    for judge in workspace.judges_of(testset):
        try:
            key = judge_key(workspace, judge, testset)
        except CareError as error:
            owing.append(Unheard(judge, rows[0], False, rows[0], why=str(error)))
            continue
        slice_ = slices.get(judge)
        if slice_ is None or slice_[:2] != (key, known[0]):
            owing.append(Unheard(judge, rows[0], False, rows[0]))
            continue
        failed_items, unscored = failed.get(judge, set()), rows[0] - slice_[2]
        if not failed_items and not unscored:
            continue
        given_up = failed_items & workspace.attempts(judge, testset, key).spent(workspace.judge(judge).attempts)
        owing.append(Unheard(judge, rows[0], True, unscored, len(failed_items - given_up), len(given_up)))
    return owing
