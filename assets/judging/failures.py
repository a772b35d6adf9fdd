"""Detection of judges with missing or failed scores on a test set, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assets.judge_keys import judge_key
from assets.judging.batches import open_batches
from care_ops.errors import CareError
from judges.items import MAY_PASS, Status

if TYPE_CHECKING:
    import duckdb

    from assets.workspace import Workspace


@dataclass(frozen=True)
class IncompleteScores:
    """Counts of a judge's missing and failed scores on a test set.

    Attributes
    ----------
    items : int
        Items of the test set.
    loaded : bool
        Whether the scores in the warehouse belong to the current items and the judge's current specification.
    unscored : int
        Items that have no stored row under the judge's current specification.
    to_ask : int
        Items whose last request failed temporarily; the next run retries the request.
    given_up : int
        Items that CARE no longer retries, because the judge's ``attempts`` are used up.
    why : str
        Reason why the judge cannot be used at all; empty if there is none.
    in_batch : int
        Items in an open batch at an endpoint.
    """

    judge: str
    items: int
    loaded: bool
    unscored: int
    to_ask: int = 0
    given_up: int = 0
    why: str = ""
    in_batch: int = 0

    @property
    def only_waits(self) -> bool:
        """Whether all items without a score are in an open batch at the endpoint."""
        return not self.why and self.in_batch > 0 and self.unscored + self.to_ask <= self.in_batch

    @property
    def incomplete(self) -> bool:
        """Whether the next run would add scores, by requests to the judge or by loading stored scores."""
        return not self.why and (not self.loaded or self.unscored > 0)


def why_no_score(
    workspace: Workspace, judge: str, testset: str, statuses: Mapping[str, int], which: str = "items"
) -> str:
    """Explain why a judge has no score at all; ``statuses`` counts the judge's items by status."""
    items = sum(statuses.values())
    if workspace.judge(judge).engine.needs.recordings and statuses.keys() <= {str(Status.REFUSED)}:
        return f"its score file has no score for any of the {items:,} items; use the items' ids in the score file"
    counts = ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items()))
    words = Counter(row["raw"] for row in answers(workspace, judge, testset, "raw") if row["raw"])
    message = f"its most frequent message: {words.most_common(1)[0][0]}" if words else "it gave no message"
    return f"none of its {items:,} {which} has a score ({counts}); {message}; test it with `care judges test {judge}`"


def why_nothing_came(workspace: Workspace, judge: str, testset: str) -> str | None:
    """Explain why requests under a judge's current key gave no score; return None if there is no such failure."""
    given = answers(workspace, judge, testset, "item_key", "status")
    statuses = Counter({row["item_key"]: row["status"] for row in given}.values())  # the newest row of an item wins
    if not statuses or Status.OK in statuses or has_abstained(workspace, judge, statuses):
        return None
    return why_no_score(workspace, judge, testset, statuses, "items tried so far")


def slice_name(judge: str, testset: str) -> str:
    """Return Dagster's partition key of a judge's scores on a test set."""
    return f"{judge}|{testset}"


def has_abstained(workspace: Workspace, judge: str, statuses: Collection[str]) -> bool:
    """Return whether a judge is a program that abstained on every item; this is not a failure."""
    needs = workspace.judge(judge).engine.needs
    return not (needs.template or needs.recordings) and {*statuses} <= {Status.REFUSED}


def answers(workspace: Workspace, judge: str, testset: str, *columns: str) -> list[dict[str, Any]]:
    """Read the answers stored under a judge's current key, oldest first."""
    wanted, key = (*columns, "created_at"), judge_key(workspace, judge, testset)
    return workspace.parts.read_scores(judge, testset, wanted, key=key, aside=False).sort_by("created_at").to_pylist()


def incomplete_scores(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str
) -> list[IncompleteScores]:
    """Return a test set's judges whose scores are missing, failed or not loaded, sorted by name."""
    from warehouse.parts import Attempts

    known = connection.execute(
        "SELECT items_hash, (SELECT count(*) FROM items WHERE testset = $1) FROM testsets WHERE testset = $1", [testset]
    ).fetchone()
    if known is None:
        return []
    items_hash, items = known
    sql = "SELECT judge, judge_key, items_hash, n_scored FROM slices WHERE testset = ?"
    slices = {judge: of for judge, *of in connection.execute(sql, [testset]).fetchall()}
    prompted = [judge for judge in workspace.judges_of(testset) if workspace.judge(judge).engine.needs.template]
    failures = connection.execute(
        "SELECT judge, list(item_key) FROM scores JOIN items USING (item_ix) JOIN judges USING (judge_ix) "
        "WHERE testset = ? AND list_contains(?, judge) AND list_contains(?, status) GROUP BY judge",
        [testset, prompted, list(map(str, MAY_PASS))],
    )
    failed = {judge: set(keys) for judge, keys in failures.fetchall()} if prompted else {}
    incomplete: list[IncompleteScores] = []
    for judge in workspace.judges_of(testset):
        spec = workspace.judge(judge)
        try:
            key = judge_key(workspace, judge, testset)
            if spec.engine.needs.endpoint:
                workspace.parts.must_not_pay_twice(judge, testset)
        except CareError as error:
            incomplete.append(IncompleteScores(judge, items, False, items, why=str(error)))
            continue
        *inputs, scored = slices.get(judge, (None, None, 0))
        in_batch = sum(one.items for one in open_batches(workspace, judge, testset) if one.judge_key == key)
        if inputs != [key, items_hash]:
            given = len(workspace.parts.done(judge, testset, key)) if in_batch else 0
            incomplete.append(IncompleteScores(judge, items, False, max(0, items - given), in_batch=in_batch))
            continue
        failed_items = failed.get(judge, set[str]()) if spec.engine.needs.template else set[str]()
        if failed_items or scored < items or in_batch:
            attempts = Attempts(workspace.parts.scores_folder(judge, testset), key)
            given_up = failed_items & attempts.spent(spec.attempts)
            left = len(failed_items - given_up)
            incomplete.append(
                IncompleteScores(judge, items, True, items - scored, left, len(given_up), in_batch=in_batch)
            )
    return incomplete
