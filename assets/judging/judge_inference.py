"""Dagster asset ``judge_inference``: scores of all pending items, with each judge's model loaded once.

An item without a score row under the judge's current key is pending. Each finished batch is stored as a file, so
the next run continues after the last stored batch of a killed run.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import dagster as dg

from assets.hashing import content_hash
from assets.judge_keys import engine_context, judge_key
from assets.judging.batches import batch_store, open_batches
from assets.judging.bill import Account, bills, in_words, purses
from assets.judging.forecast import available_texts, check_template, expected, rates, sample_of
from assets.judging.journal import recover
from assets.judging.pending import pending
from assets.metadata import failure, made_from, table
from assets.partitions import JUDGES
from assets.workspace import Workspace
from care_ops.errors import CareError
from judges.items import Score
from judges.pool import DownError, Pool, Progress, Session
from judges.spec import OpenAIEngine

if TYPE_CHECKING:
    from judges.batch import Batch
    from judges.bill import Bill
    from judges.questions import ItemSource

_TESTSETS_IN_MEMORY = 8
_REPORT_EVERY_S = 10.0


@dataclass(frozen=True)
class TestsetCount:
    """Number of a test set's items, and number of the items that a judge has scored in this run."""

    __test__ = False

    testset: str
    judge_key: str
    items: int
    scored: int


Counts = tuple[list[TestsetCount], dict[str, str], float]
"""Result of scoring with one judge: counts by test set, failures by test set, and duration in seconds."""


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "judge_inference",
            deps=[dg.AssetDep("items", partition_mapping=dg.AllPartitionMapping())],
            description="Scores of one judge for all pending items of all test sets; the judge's model is loaded once.",
            kinds={"parquet"},
            group_name="judging",
            skippable=True,
        )
    ],
    partitions_def=JUDGES,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def judge_inference(
    context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]
) -> Iterator[dg.MaterializeResult]:
    """Score the pending items of each judge, and log one materialisation for each judge."""
    from assets.judging.stored_items import StoredItems

    failures: dict[str, str] = {}
    tags = made_from(context.instance, [workspace.mount.key("items")])

    @lru_cache(maxsize=_TESTSETS_IN_MEMORY)  # the judges of the run share a test set's items and their hashed keys
    def items_of(testset: str) -> "ItemSource":
        return StoredItems(workspace.parts, testset)

    recover(workspace)
    shared, known = purses(workspace), rates(workspace)
    accounts = {judge: Account(workspace, judge, shared, known.get(judge)) for judge in context.partition_keys}
    finished = {judge: Future[Counts]() for judge in context.partition_keys}

    def run_judges(judges: Sequence[str]) -> None:
        with pool.session(workspace.judge(judges[0]).engine.gpus) as session:
            for judge in judges:
                started = time.perf_counter()
                try:
                    counts = score_pending(workspace, judge, items_of, session, accounts[judge], context.log.info)
                    finished[judge].set_result((*counts, time.perf_counter() - started))
                except BaseException as error:  # noqa: BLE001  (the main thread raises it)
                    finished[judge].set_exception(error)

    by_model: dict[tuple[object, ...], list[str]] = {}
    for judge in sorted(finished):
        by_model.setdefault(workspace.judge(judge).engine.loaded or (judge,), []).append(judge)
    groups = sorted(by_model.values())
    with (
        Pool(workspace.pool, workspace.ray) as pool,
        _threads(len(groups), pool, accounts) as threads,
    ):
        for group in groups:
            threads.submit(run_judges, group)
        names = {future: judge for judge, future in finished.items()}
        for future in as_completed(names):
            judge = names[future]
            accounts[judge].close()
            del accounts[judge]  # after `close`: `_threads` closes accounts whose `close` was interrupted
            try:
                counts, failed, seconds = future.result()
            except CareError as error:
                failures[judge] = str(error)
                continue
            if failed:
                failures[judge] = _reasons(failed)
                continue
            context.log_event(_materialisation(workspace, judge, counts, seconds, tags))
    if failures:
        raise failure(failures)
    yield from ()


@contextmanager
def _threads(count: int, pool: Pool, accounts: Mapping[str, Account]) -> Generator[ThreadPoolExecutor]:
    """Start the judges' threads; on exit, finalise all open cost records, even after an error or a signal."""
    try:
        with ThreadPoolExecutor(max(1, count)) as threads:
            try:
                yield threads
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                pool.stop.request()
                raise
    finally:
        with ExitStack() as each:  # closes all accounts, even if a signal interrupts the query of one
            for account in accounts.values():
                each.callback(account.close)


def score_pending(
    workspace: Workspace,
    judge: str,
    items_of: Callable[[str], "ItemSource"],
    session: Session,
    account: Account,
    say: Callable[[str], object] = lambda _: None,
) -> tuple[list[TestsetCount], dict[str, str]]:
    """Let one judge score its pending items; return counts by test set, and the reason for each failed test set.

    Parameters
    ----------
    items_of : callable
        Function that returns the items of a test set by name.
    account : Account
        Cost record of the judge.
    say : callable
        Function that is called with the judge's progress every few seconds.

    Raises
    ------
    JudgeError
        The judge cannot be built or does not answer; the remaining test sets are skipped.
    """
    workspace.parts.sweep(judge)
    counts: list[TestsetCount] = []
    failed: dict[str, str] = {}
    from assets.judging.recorded import store_recorded

    recorded = workspace.judge(judge).engine.needs.recordings
    for testset in workspace.testsets_of(judge):
        if not workspace.parts.items_file(testset).exists():
            continue
        items = items_of(testset)
        try:  # an error in one test set does not affect the others
            key = judge_key(workspace, judge, testset)
            check_template(workspace, judge, testset, available_texts(sample_of(items)))
            scored = store_recorded(workspace, judge, testset, items) if recorded else 0
        except CareError as error:
            failed[testset] = str(error)
            continue
        if not recorded:
            scored = _score_items(workspace, judge, testset, items, session, account, say)
        counts.append(TestsetCount(testset, key, len(items.keys), scored))
    return counts, failed


def _reasons(failed: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for testset, why in failed.items():
        by_reason.setdefault(why, []).append(testset)
    return "; ".join(f"{', '.join(testsets)}: {why}" for why, testsets in by_reason.items())


def _score_items(
    workspace: Workspace,
    judge: str,
    testset: str,
    items: "ItemSource",
    session: Session,
    account: Account,
    say: Callable[[str], object],
) -> int:
    from judges.questions import Questions

    parts = workspace.parts
    wanted = pending(workspace, parts, judge, testset, items)
    if shared := [wanted.answered[key] for key in items.keys if key in wanted.answered]:
        parts.write_scores(judge, testset, wanted.key, "", shared)
    questions = Questions(items, wanted.spec, wanted.settled)
    engine = wanted.spec.engine
    context = replace(engine_context(workspace, account), answered=partial(account.answered, wanted.key))
    waiting = open_batches(workspace, judge, testset)
    if not len(questions) and not waiting:
        return len(shared)
    sample = [] if account.rate else sample_of(items)
    forecast = partial(expected, workspace, wanted.spec, account.rate, sample=sample)
    if isinstance(engine, OpenAIEngine) and (engine.batch or waiting):

        def enter(batch: "Batch", bill: "Bill") -> None:
            account.enter(batch, bill, testset, "items", forecast(batch.questions))

        context = replace(context, batches=batch_store(parts.scores_folder(judge, testset), wanted.key, enter))
    account.begin(testset, "items", forecast(1 if context.batches else len(questions)))
    if engine.needs.endpoint:
        parts.must_not_pay_twice(judge, testset)
    last_report = time.perf_counter()
    failed, answered = set[str](), set[str]()

    def sink(scores: Sequence[Score], version: str) -> None:
        rows = [score.as_row() for score in scores]
        account.record(len(scores), going_on=True)
        parts.write_scores(judge, testset, wanted.key, version, rows)
        account.stored([score.item_key for score in scores])
        for score in scores:
            (failed if score.status in wanted.again else answered).add(score.item_key)

    def progress(now: Progress) -> None:
        nonlocal last_report
        if time.perf_counter() - last_report > _REPORT_EVERY_S or now.done == now.total:
            last_report = time.perf_counter()
            say(f"{judge} on {testset}: {now}")

    try:
        return len(shared) + session.run(wanted.spec, questions, sink, context, progress)
    except DownError:  # an outage is no failed attempt of items that had not failed before
        failed &= wanted.attempts.spent(1)
        raise
    finally:
        account.record()
        wanted.attempts.record(failed, answered)


def _materialisation(
    workspace: Workspace, judge: str, counts: list[TestsetCount], seconds: float, tags: Mapping[str, str]
) -> dg.AssetMaterialization:
    # Items are not included: `scores` depends on the items of its own test set.
    version = content_hash([(c.testset, c.judge_key) for c in counts])
    scored = sum(c.scored for c in counts)
    bill = bills(workspace, judge=judge) if scored else []
    return dg.AssetMaterialization(
        workspace.mount.key("judge_inference"),
        partition=judge,
        tags={**tags, "dagster/data_version": version},
        metadata={
            "scored_now": scored,
            "items": sum(c.items for c in counts),
            "dagster/row_count": sum(c.items for c in counts),
            "items_per_second": round(scored / seconds, 1) if scored else 0.0,
            "by_testset": table([{"testset": c.testset, "items": c.items, "scored_now": c.scored} for c in counts]),
            "dollars": float(sum(row["dollars"] or 0.0 for row in bill)),
            **({"bill": in_words(bill)} if bill else {}),
        },
    )
