"""Dagster asset ``canary``: daily retests of a few scored items, to detect a changed model.

A model behind an API can change without notice, and the judge's key does not show the change. The new answers are
stored as ``retests``; no stored score changes.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import dagster as dg

from assets.code import code_version
from assets.judge_keys import effective_spec, engine_context, judge_key
from assets.judging.bill import Account, purses
from assets.judging.forecast import expected, rates
from assets.metadata import checked, table
from assets.partitions import JUDGES
from assets.workspace import Workspace
from care_ops.errors import JudgeError, counted
from judges.engines.base import StoppedError
from judges.items import FROM_A_FILE, Score, Status
from judges.pool import Pool

if TYPE_CHECKING:
    from assets.judging.retests import Retests
    from assets.judging.stored_items import StoredItems

CHECK = "same_model"


@dataclass(frozen=True)
class Answer:
    """Stored score and retest score of an item, each with the engine version that gave the score.

    ``span`` is the width of the declared scale; if no scale is declared, it is the range of the stored scores.
    """

    testset: str
    item_id: str
    item_key: str
    text_key: str
    kept: float
    kept_by: str
    day: int
    today: float | None = None
    today_by: str | None = None
    span: float = 1.0


@dg.asset(
    partitions_def=JUDGES,
    deps=["judge_inference"],
    group_name="judging",
    code_version=code_version("assets/judging", "judges"),
    check_specs=[
        dg.AssetCheckSpec(
            CHECK,
            asset="canary",
            description="The judge gives the same scores in a retest.",
            partitions_def=JUDGES,
        )
    ],
    description="Daily retests: judges behind an API score a few items again, to detect a changed model.",
)
def canary(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Retest a judge: score some of its items again, and compare the new scores with the stored scores."""
    from assets.judging.retests import Retest, forget_change, is_as_before, record_retest
    from care_ops.results.attribution import of_judges

    judge = context.partition_key
    answers = ask_again(workspace, judge)
    day = today().toordinal()
    again = [
        Retest(day, a.testset, a.item_key, a.kept / a.span, a.today / a.span) for a in answers if a.today is not None
    ]
    moved = sum(abs(row.moved) for row in again) / len(again) if again else None
    kept = record_retest(workspace, judge, len({judge, *watched(workspace)}), again, day)
    changed = kept.changed
    before, now = _names(a.kept_by for a in answers), _names(a.today_by for a in answers if a.today is not None)
    others = workspace.judge(judge).engine.needs.endpoint and not now <= before
    passed = changed is None and not others
    if not answers:
        message = "the judge has not scored any item yet, so no retest was possible; run `care run` first"
    elif moved is None:
        message = f"the retest gave no score for {counted(len(answers), 'item')}; see `by_status` of the asset `scores`"
    else:
        message = f"{counted(len(answers), 'item')} moved by {moved:.1%} of the scale on average"
    if others:
        message += f"; the model {', '.join(sorted(now - before))} answered, before: {', '.join(sorted(before))}"
    message += "; no evidence of a change" if changed is None else f". {of_judges({judge: changed})[0].rstrip('.')}"
    if changed is not None and not others and is_as_before(changed, again):
        affected = _scored_since(workspace, judge, changed.run_date)
        since = date.fromordinal(changed.run_date).isoformat()
        message += f". Today the judge answers as it did before {since}"
        passed = affected == 0
        if passed:
            forget_change(workspace, judge, again)
            message += ", and no item was scored since: its scores remain valid"
        else:
            message += f"; the change affects only the {counted(affected, 'item')} scored since then"
    if not passed:
        message += (
            ". Change `revision` in the judge's file to score everything again; until then, you can pin the published "
            "fit (`care fits promote`)"
        )
    return dg.MaterializeResult(
        metadata={
            "asked": len(answers),
            CHECK: passed,
            "message": message,
            **({} if moved is None else {"moved": moved}),
            **({"answered_by": ", ".join(sorted(now))} if now else {}),
            "answers": table([vars(answer) for answer in answers]),
        },
        check_results=[checked(CHECK, message, passed=passed)],
    )


def _names(versions: Iterable[str | None]) -> set[str]:
    return {name for version in versions if version for name in version.removeprefix("openai ").split(", ")}


def watched(workspace: Workspace) -> list[str]:
    """Return the judges that are retested daily: judges behind an endpoint."""
    if workspace.canary.items == 0:
        return []
    return sorted(j for j, spec in workspace.judges.items() if spec.engine.needs.endpoint)


def due(workspace: Workspace) -> list[str]:
    """Return the judges that were not retested today (UTC) and have scores from an earlier day."""
    from assets.judging.retests import retests

    day = today()
    asked = {judge: retests(workspace, judge).asked for judge in watched(workspace)}
    return [judge for judge, last in asked.items() if last < day.toordinal() and _scored_before(workspace, judge, day)]


def today() -> date:
    """Return today's date in UTC."""
    return datetime.now(UTC).date()


def _scored_since(workspace: Workspace, judge: str, day: int) -> int:
    count = 0
    for testset in workspace.testsets_of(judge):
        rows = workspace.parts.read_scores(judge, testset, ("created_at",), key=judge_key(workspace, judge, testset))
        count += sum(moment.toordinal() >= day for moment in rows["created_at"].to_pylist())
    return count


def _scored_before(workspace: Workspace, judge: str, day: date) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for testset in workspace.testsets_of(judge):
        for path in workspace.parts.scores_folder(judge, testset).glob("*.parquet"):
            with suppress(pa.ArrowException, OSError):  # a damaged part is reported when its scores are read
                head = pq.read_metadata(path)
                column = head.schema.to_arrow_schema().get_field_index("created_at")
                first = head.row_group(0).column(column).statistics if head.num_rows else None
                if first is not None and first.min.date() < day:
                    return True
    return False


def ask_again(workspace: Workspace, judge: str) -> list[Answer]:
    """Have a judge score a few of its items again, starting with items that have the fewest retests.

    Raises ``JudgeError`` if the judge cannot be used, or its spend limit is too low.
    """
    from assets.judging.retests import retests, span_of
    from assets.judging.stored_items import StoredItems

    if workspace.judge(judge).engine.needs.recordings:
        raise JudgeError(f"judge {judge!r}: {FROM_A_FILE}")
    sources = {
        testset: StoredItems(workspace.parts, testset)
        for testset in workspace.testsets_of(judge)
        if workspace.parts.items_file(testset).exists()
    }
    kept = {testset: _stored_scores(workspace, judge, testset, source) for testset, source in sources.items()}
    every = [answer for answers in kept.values() for answer in answers]
    chosen = _least_asked(retests(workspace, judge), every)[: workspace.canary.items]
    given: dict[tuple[str, str], tuple[float | None, str]] = {}
    account = Account(workspace, judge, purses(workspace), rates(workspace).get(judge))
    gpus = workspace.judge(judge).engine.gpus
    with closing(account), Pool(workspace.pool, workspace.ray) as pool, pool.session(gpus) as session:
        for testset in sorted({answer.testset for answer in chosen}):

            def sink(scores: list[Score], version: str, testset: str = testset) -> None:
                account.record(len(scores))
                given.update({(testset, score.item_id): (score.score, version) for score in scores})

            position = {item_id: k for k, item_id in enumerate(sources[testset].ids)}
            items_asked = sources[testset].read([position[a.item_id] for a in chosen if a.testset == testset])
            context = engine_context(workspace, account)
            spec = effective_spec(workspace, judge, testset)
            account.begin(testset, "canary", expected(workspace, spec, account.rate, len(items_asked), items_asked))
            try:
                session.run(spec, items_asked, sink, context)  # type: ignore[arg-type]
            except StoppedError as error:
                raise JudgeError(
                    f"the retest of judge {judge!r} stopped: {error}; to turn daily retests off, set "
                    "`canary: {items: 0}` in care.yaml"
                ) from None
            finally:
                account.record()
    spans = {
        testset: span_of(workspace, judge, testset, [answer.kept for answer in answers])
        for testset, answers in kept.items()
    }
    found: list[Answer] = []
    for answer in chosen:
        score, version = given.get((answer.testset, answer.item_id), (None, None))
        found.append(replace(answer, today=score, today_by=version, span=spans[answer.testset]))
    return found


def _stored_scores(workspace: Workspace, judge: str, testset: str, source: "StoredItems") -> list[Answer]:
    columns = ("item_id", "item_key", "score", "status", "engine", "created_at")
    texts, key = dict(zip(source.keys, source.text_keys, strict=True)), judge_key(workspace, judge, testset)
    by_item = {
        row["item_id"]: Answer(
            testset, row["item_id"], of, texts[of], row["score"], row["engine"], row["created_at"].toordinal()
        )
        for row in workspace.parts.read_scores(judge, testset, columns, key=key).to_pylist()
        if (of := row["item_key"]) in texts and row["status"] == Status.OK
    }
    return [*by_item.values()]


def _least_asked(asked: "Retests", kept: Iterable[Answer]) -> list[Answer]:
    """Sort the scored items for a retest by number of retests, lowest first, then by a hash.

    Items scored after the first retest are last, because the model may have changed by then. Items with equal texts
    share one score, so only one of them is retested.
    """
    times = Counter((row.testset, row.key) for row in asked.rows)
    first_day = {row.testset: row.run_date for row in reversed(asked.rows)}

    def drawn(answer: Answer) -> bytes:
        return hashlib.sha256(repr((answer.testset, answer.item_id)).encode()).digest()

    def order(answer: Answer) -> tuple[bool, int, bytes]:
        is_late = answer.day > first_day.get(answer.testset, answer.day)
        return is_late, times[answer.testset, answer.item_key], drawn(answer)

    by_text = {a.text_key: a for a in sorted(kept, key=lambda a: (a.day, drawn(a)), reverse=True)}
    return sorted(by_text.values(), key=order)
