"""Judging: programs a second, what the pool costs over calling an engine, and how many questions are different ones."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.speed.timing import cpu_seconds
from judges import programs
from judges.engines.factory import build_engine
from judges.items import Item, Score
from judges.pool import Pool, PoolConfig
from judges.spec import JudgeSpec, ProgramEngine

ROUNDS = 5


def items(n: int = 2_000) -> list[Item]:
    """Answers of some hundred words, all different."""
    answer = "The capital lies on a river, because trade came by water. However, it was moved twice since 1850. "
    return [Item(f"i{k}", f"What is the capital of land {k}?", f"{k}. " + answer * (k % 9 + 1)) for k in range(n)]


def run() -> list[dict[str, object]]:
    """A row a program, then all of them, then ASSET's questions where its scores are."""
    judged_items = items()
    rows: list[dict[str, object]] = []
    direct_all = pooled_all = 0.0
    for name in programs.names():
        spec = JudgeSpec(name=name, engine=ProgramEngine(program=name))
        engine = build_engine(spec)

        def direct(engine=engine) -> list[Score]:
            return engine.score([Item(i.item_id, i.prompt, i.response) for i in judged_items])

        def pooled(spec=spec) -> None:
            kept: list[Score] = []
            fresh = [Item(i.item_id, i.prompt, i.response) for i in judged_items]
            with Pool(PoolConfig(mode="inline")) as pool:
                pool.run(spec, fresh, lambda batch, _: kept.extend(batch))

        a, b = cpu_seconds(direct, ROUNDS), cpu_seconds(pooled, ROUNDS)
        direct_all, pooled_all = direct_all + a, pooled_all + b
        rows.append({"what": name, "items/s": len(judged_items) / a, "pool over engine": b / a})
    count = len(judged_items) * len(rows)
    rows.append({"what": "all programs", "items/s": count / direct_all, "pool over engine": pooled_all / direct_all})
    return rows + questions()


def questions() -> list[dict[str, object]]:
    """Different questions among ASSET's ratings: each rater's row is an item, its texts and aspect are the question."""
    folder = os.environ.get("CARE_DATA_DIR")
    if not folder:
        return [{"what": "ASSET's questions: set CARE_DATA_DIR", "items/s": None, "pool over engine": None}]
    from assets.judge_keys import judge_item
    from assets.sources import read_source
    from orchestration.workspace import load_workspace

    workspace = load_workspace(Path(__file__).parents[2] / "examples" / "paper")
    records = [judge_item(record) for record in read_source(workspace, "care_asset")]
    ratio = len(records) / len({item.text_key for item in records})
    return [{"what": f"ASSET: {len(records)} items a question", "items/s": None, "pool over engine": ratio}]
