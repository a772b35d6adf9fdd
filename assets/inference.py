"""``judge_inference``: each judge scores every pending item of every test set, loaded once.

Pending are the items without a row under the judge's current key. Finished batches are parts at once, so
a run that is killed goes on where it stopped.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import dagster as dg

from assets.common import bars, source_hash, table
from assets.external import judge_spec
from assets.partitions import JUDGES
from assets.workspace import Workspace, judge_item
from care_ops.errors import CareError
from judges.engines.base import build_engine
from judges.items import Item, Score
from judges.pool import Pool

_TESTSETS_IN_MEMORY = 8


@dataclass(frozen=True)
class TestsetCount:
    """What a judge did on one test set: items there are, items scored now."""

    __test__ = False

    testset: str
    judge_key: str
    items: int
    scored: int
    item_keys: str


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "judge_inference",
            deps=[
                judge_spec,
                dg.AssetDep("items", partition_mapping=dg.AllPartitionMapping()),
            ],
            description="One judge over every pending item of every test set; its model is loaded once.",
            kinds={"ray", "parquet"},
            code_version=source_hash("judges", __file__),
            group_name="judging",
            skippable=True,
        )
    ],
    partitions_def=JUDGES,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="gpu",
)
def judge_inference(
    context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]
) -> Iterator[dg.MaterializeResult]:
    """Score what is pending; one materialisation a judge, with its own version."""
    failures: dict[str, str] = {}

    @lru_cache(maxsize=_TESTSETS_IN_MEMORY)  # read once for all judges of the run, and their keys hashed once
    def items_of(testset: str) -> list[Item]:
        return [judge_item(record) for record in workspace.parts.read_items(testset)]

    with Pool(workspace.pool) as pool:
        for judge in context.partition_keys:
            started = time.perf_counter()
            try:
                counts = score_pending(workspace, judge, items_of, pool)
            except CareError as error:
                failures[judge] = str(error)
                continue
            context.log_event(_materialisation(judge, counts, time.perf_counter() - started))
    if failures:
        raise dg.Failure(
            "; ".join(f"{judge}: {message}" for judge, message in failures.items()),
            metadata={"failed_judges": table([{"judge": j, "why": w} for j, w in failures.items()])},
        )
    yield from ()


def score_pending(
    workspace: Workspace, judge: str, items_of: Callable[[str], list[Item]], pool: Pool
) -> list[TestsetCount]:
    """Run one judge over every test set; returns a count for each.

    Parameters
    ----------
    items_of : callable
        A test set's items by its name.

    Raises
    ------
    JudgeError
        The judge cannot be built or does not answer.
    """
    workspace.parts.sweep(judge)
    return [
        _score_testset(workspace, judge, testset, items_of(testset), pool)
        for testset in workspace.testsets_of(judge)
        if workspace.parts.items_file(testset).exists()
    ]


def _score_testset(workspace: Workspace, judge: str, testset: str, todo: list[Item], pool: Pool) -> TestsetCount:
    spec = workspace.effective_spec(judge, testset)
    recordings = workspace.recordings(judge, testset)
    engine = build_engine(spec, recordings)
    key = spec.key(engine.revision)
    done = workspace.parts.done(judge, testset, key)
    pending = [item for item in todo if item.key not in done]

    def sink(scores: Sequence[Score]) -> None:
        rows = [score.as_row() for score in scores]
        workspace.parts.write_scores(judge, testset, key, engine.version, rows)

    scored = pool.run(spec, pending, sink, recordings)
    digest = hashlib.sha256("".join(sorted(item.key for item in todo)).encode()).hexdigest()
    return TestsetCount(testset, key, len(todo), scored, digest)


def _materialisation(judge: str, counts: list[TestsetCount], seconds: float) -> dg.AssetMaterialization:
    version = hashlib.sha256(repr([(c.testset, c.judge_key, c.item_keys) for c in counts]).encode()).hexdigest()[:32]
    scored = sum(c.scored for c in counts)
    return dg.AssetMaterialization(
        "judge_inference",
        partition=judge,
        tags={"dagster/data_version": version},
        metadata={
            "scored_now": scored,
            "items": sum(c.items for c in counts),
            "items_per_second": round(scored / seconds, 1) if scored else 0.0,
            "items_by_testset": bars("items", {c.testset: float(c.items) for c in counts}),
            "by_testset": table([{"testset": c.testset, "items": c.items, "scored_now": c.scored} for c in counts]),
        },
    )
