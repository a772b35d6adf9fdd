"""Whether vLLM's async engine earns anything over batch after batch, on a tiny model. ``make bench-continuous``.

Three test sets ask about the same answers by the same template, each in another aspect. Today a judge goes through one
test set after the other, in batches of its ``batch_size``, and vLLM has finished a batch before it gets the next. Other
ways: one batch a test set; all test sets as one batch, sorted by their texts; and the async engine, which is given
every question at once and asks each next token of it as soon as the one before is answered. Passes and tokens are
counted, seconds are those of a CPU. A number as argument limits vLLM's cache to so many tokens: what a long test set
does to the cache of a GPU.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges import scoring
from judges.engines.model import ModelJudgeEngine
from judges.items import Item
from judges.prompts import find
from judges.questions import in_order_of_texts
from judges.spec import JudgeSpec
from tests.support.reading_ways import Count, engine_of
from tests.support.tiny import build

ASPECTS = "meaning", "fluency", "simplicity"
ITEMS, BATCH, ROUNDS = 96, 32, 3
BLOCK = 32
"""Tokens of a block of vLLM's cache, of which a GPU has 16 and vLLM's CPU build 128 by default."""


def main() -> None:
    """Print a row for each way."""
    from judges.engines.vllm import VllmBackend

    print(
        "| way | passes an item | tokens an item | ms an item | largest difference |\n|---|---|---|---|---|", flush=True
    )
    with tempfile.TemporaryDirectory() as root:
        model = build(Path(root) / "model", seed=0)
        testsets = [[_item(k, aspect) for k in range(ITEMS)] for aspect in ASPECTS]
        merged = [item for items in testsets for item in items]
        merged = [merged[k] for k in in_order_of_texts(merged)]
        options = _cache(sys.argv[1:])
        settings = engine_of(model, "vllm", "expected").model_copy(update={"vllm": tuple(options.items())})
        engine = _engine(model, VllmBackend(settings))
        ways = {
            f"batches of {BATCH}, test set after test set": [
                items[k : k + BATCH] for items in testsets for k in range(0, ITEMS, BATCH)
            ],
            "one batch a test set": testsets,
            "all test sets as one batch": [merged],
        }
        first: dict[str, float] = {}
        for way, batches in ways.items():
            rounds = [_in_batches(engine, batches) for _ in range(ROUNDS)]
            first = first or rounds[0].scores
            _print(way, rounds, first)
        _print("async engine", asyncio.run(_continuous(model, engine, merged, options)), first)


@dataclass(frozen=True)
class Measured:
    """What one round over all items took, and each item's expected score."""

    passes: int
    tokens: int
    seconds: float
    scores: dict[str, float]


def _cache(arguments: Sequence[str]) -> dict[str, int]:
    """vLLM's settings of its cache; without an argument it holds everything."""
    limit = {"num_gpu_blocks_override": int(arguments[0]) // BLOCK} if arguments else {}
    return {"block_size": BLOCK, **limit}


def _item(k: int, aspect: str) -> Item:
    return Item(f"{aspect} {k}", f"What is the capital of land {k}?", f"It is town {k}. " * (k % 5 + 1), aspect=aspect)


def _engine(model: Path, backend: Any) -> ModelJudgeEngine:
    spec = JudgeSpec(name="tiny", scale=(0, 100), engine=engine_of(model, "vllm", "expected"))
    return ModelJudgeEngine(spec, spec.engine, find("asset"), backend)  # type: ignore[arg-type]


def _print(way: str, rounds: Sequence[Measured], first: dict[str, float]) -> None:
    """The fastest round, since whatever else the machine does only adds."""
    best = min(rounds, key=lambda one: one.seconds)
    items = len(best.scores)
    apart = max(abs(best.scores[name] - score) for name, score in first.items())
    cost = f"{best.passes / items:.1f} | {best.tokens / items:,.0f} | {1e3 * best.seconds / items:.1f}"
    print(f"| {way} | {cost} | {apart:.1e} |", flush=True)


def _in_batches(engine: ModelJudgeEngine, batches: Sequence[Sequence[Item]]) -> Measured:
    """Batch after batch, with an empty cache to begin with."""
    backend: Any = engine._backend
    engine.score([_item(-1, "warmth")])
    count = Count()
    restore = count.watch(backend)
    backend._model.reset_prefix_cache()
    started = time.perf_counter()
    scores = [score for batch in batches for score in engine.score(batch)]
    seconds = time.perf_counter() - started
    restore()
    return Measured(count.passes, count.tokens, seconds, {s.item_id: float(s.score or 0.0) for s in scores})


async def _continuous(
    model: Path, engine: ModelJudgeEngine, items: Sequence[Item], options: Mapping[str, int]
) -> list[Measured]:
    """The async engine over the same items; ``engine`` makes the prompts and knows the legal answers."""
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    settings = engine_of(model, "vllm", "expected")
    arguments = AsyncEngineArgs(
        model=str(model),
        dtype=settings.dtype,
        gpu_memory_utilization=settings.gpu_memory,
        enable_prefix_caching=True,
        **options,  # type: ignore[arg-type]
    )
    vllm = AsyncLLM.from_engine_args(arguments)
    count = Count()

    async def node(name: str, tokens: list[int], wanted: Sequence[int]) -> dict[int, float]:
        parameters = SamplingParams(max_tokens=1, temperature=0.0, logprob_token_ids=list(wanted), detokenize=False)
        async for output in vllm.generate({"prompt_token_ids": tokens}, parameters, name):
            last = output
        count.add(last)
        by_token = last.outputs[0].logprobs[0]
        return {token: float(by_token[token].logprob) for token in wanted}

    async def one(turn: int, item: Item) -> tuple[str, float]:
        prompt = engine._tokens(engine._template.render(item, engine._scale))
        reading = scoring.Unfolding(engine._ballot)
        while nodes := list(reading.next_nodes(engine._negligible)):
            answers = await asyncio.gather(
                *(node(f"{turn} {item.item_id} {at}", [*prompt, *at], engine._ballot.wanted[at]) for at in nodes)
            )
            for at, answered in zip(nodes, answers, strict=True):
                reading.add(at, answered)
        answer = engine.answer_from(reading.probabilities(), 0, 0)
        return item.item_id, float(answer.score or 0.0)

    rounds: list[Measured] = []
    try:
        await one(-1, _item(-1, "warmth"))
        for turn in range(ROUNDS):
            await vllm.reset_prefix_cache()
            count.passes = count.tokens = 0
            started = time.perf_counter()
            scores = dict(await asyncio.gather(*(one(turn, item) for item in items)))
            rounds.append(Measured(count.passes, count.tokens, time.perf_counter() - started, scores))
    finally:
        vllm.shutdown()
    return rounds


if __name__ == "__main__":
    main()
