"""Placement of models on declared GPUs, each arrangement's wall time beside the best that is possible.

Ray is told of GPUs that are not there, and vLLM is replaced by a stand-in that sleeps (``tests.support.stub_vllm``), so
that this runs anywhere: what is measured is Ray, the actors and the pool, and not a model. It sleeps once for each
round of requests, of which a batch takes several, since an answer may begin with a space and have two digits. The best
possible time counts loading and scoring alone. Run it on a quiet machine: starting an actor takes two to three seconds
of CPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judges.engines.model import ModelJudgeEngine
from judges.pool import PoolConfig
from judges.prompts import find
from judges.spec import JudgeSpec
from tests.support.placement import BATCH, ITEMS, Placed, declared_gpus, judge, place

LOAD_S, ROUND_S = 10.0, 1.0
BATCHES = len(ITEMS) // BATCH


def main() -> None:
    """Print a row for each arrangement."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        score_s = ROUND_S * rounds_of_a_batch(judge("counted", folder))
        alone = LOAD_S + BATCHES * score_s
        small = [[judge(f"small{k}", folder)] for k in range(11)]
        wide = [judge("wide", folder, tensor_parallel=4)]
        halves = [[judge(f"half{k}", folder, num_gpus=0.5)] for k in range(2)]
        many = [judge("many", folder)]
        twelve = [judge("twelve", folder, scale=(1, 3 + k)) for k in range(12)]
        print("| arrangement | GPUs | models loaded | s | best possible |\n|---|---|---|---|---|")
        row("(a) eight small judges side by side", 8, small[:8], PoolConfig(side_by_side=8), alone)
        row("(b) one over four, four beside it", 8, [wide, *small[:4]], PoolConfig(side_by_side=5), alone)
        row("(c) eleven in sequence", 1, small, PoolConfig(), 11 * alone)
        row("(d) two at half a GPU each", 1, halves, PoolConfig(side_by_side=2), alone)
        row("(e) one judge, four actors", 4, [many], PoolConfig(actors=4), LOAD_S + score_s)
        row("(f) three actors asked for, one GPU", 1, [many], PoolConfig(actors=3), alone)
        row("one judge, twelve test sets", 1, [twelve], PoolConfig(), LOAD_S + 12 * BATCHES * score_s)


def rounds_of_a_batch(spec: JudgeSpec) -> int:
    """How often an engine asks its model, and the stand-in therefore sleeps, to score a batch."""

    class Counted:
        """As vLLM's backend over the stand-in, in this process."""

        version, max_length, rounds = "counted", 100_000, 0

        def encode(self, text: str, *, special: bool) -> list[int]:
            return [ord(character) for character in text]

        def chat(self, text: str) -> None:
            return None

        def trie_logprobs(self, prompts: object, wanted: object) -> None:
            return None

        def next_logprobs(self, requests: Sequence[tuple[list[int], tuple[int, ...]]]) -> list[dict[int, float]]:
            self.rounds += 1
            return [dict.fromkeys(wanted, -2.5) for _, wanted in requests]

    backend: Any = Counted()
    ModelJudgeEngine(spec, spec.engine, find("quality"), backend).score(ITEMS[:BATCH])  # type: ignore[arg-type]
    return backend.rounds


def row(name: str, gpus: int, judges: Sequence[Sequence[JudgeSpec]], config: PoolConfig, best: float) -> None:
    """Run one arrangement and print its figures."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "loads"
        with declared_gpus(gpus, log, load_s=LOAD_S, score_s=ROUND_S):
            placed: Placed = place(judges, config, log)
    items = sum(len({score.item_id for score in scores}) for scores in placed.scores.values())
    assert items == len(judges) * len(ITEMS), "an item is lost"
    print(f"| {name} | {gpus} | {len(placed.loads)} | {placed.seconds:.1f} | {best:.1f} |", flush=True)


if __name__ == "__main__":
    main()
