"""Rates of a chip that reads prompts: multiplications, one engine, the pool, and two judges together.

The measurements run on a GPU or, with a tiny model, on the CPU. ``tests.models.test_gpu`` has the required rates.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.engines.factory import build_engine
from judges.items import Item
from judges.pool import Pool, PoolConfig
from judges.spec import JudgeSpec, LocalModel
from tests.models.tiny import build
from tests.support.judging import run_judge

WORDS = "answer question rating quality whole number correct complete clear style length decoration citations".split()


@dataclass(frozen=True)
class Setup:
    """Model on some hardware, and the number and size of its questions.

    Attributes
    ----------
    folder : Path
        Folder of the model.
    parameters : int
        Number of its weights.
    gpus : float
        GPUs of each judge; 0 runs it on the CPU.
    dtype : str
        Number format of the weights.
    batches, batch_size, words : int
        Number of batches, of items in a batch, and of words in an item.
    """

    folder: Path
    parameters: int
    gpus: float = 1.0
    dtype: str = "bfloat16"
    batches: int = 10
    batch_size: int = 256
    words: int = 350

    @property
    def items(self) -> list[Item]:
        """Items with different texts of the same length."""
        draw = random.Random(0)
        texts = [" ".join(draw.choices(WORDS, k=self.words)) for _ in range(self.batches * self.batch_size)]
        return [Item(f"i{k}", f"question {k}", text) for k, text in enumerate(texts)]

    def judge(self, name: str = "judge", share: float = 1.0) -> JudgeSpec:
        """Return a judge of the model that uses this share of the GPUs."""
        engine: dict[str, Any] = {
            "kind": "vllm",
            "model": str(self.folder),
            "template": "quality",
            "dtype": self.dtype,
            "max_length": 2048,
            "min_valid_mass": 0.0,
            "num_gpus": self.gpus * share,
        }
        return JudgeSpec(name=name, engine=LocalModel(**engine), batch_size=self.batch_size)


def eight_billion(folder: Path) -> tuple[Path, int]:
    """Write a model with the shape of Qwen3-8B and random weights; return its folder and number of parameters."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    AutoTokenizer.from_pretrained(build(folder / "tokenizer", seed=0)).save_pretrained(folder)
    config = Qwen3Config(
        vocab_size=151_936,
        hidden_size=4096,
        intermediate_size=12_288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder, safe_serialization=True)
    parameters = sum(p.numel() for p in model.parameters())
    del model
    torch.cuda.empty_cache()
    return folder, parameters


def multiplication_rate(device: str, size: int = 8192, rounds: int = 20) -> float:
    """Measure the rate of a chip for bfloat16 matrices in FLOP/s: the best of several multiplications."""
    import torch

    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    best = float("inf")
    for _ in range(rounds):
        wait()
        started = time.perf_counter()
        a @ a
        wait()
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def scores(setup: Setup) -> list[float]:
    """Return the scores of the items from another process, on the GPU or, without GPUs in the setup, on the CPU."""
    import ray

    def scored() -> list[float]:
        values = [score.score for score in build_engine(setup.judge()).score(setup.items)]
        return [value for value in values if value is not None]

    remote: Any = ray.remote(num_gpus=setup.gpus, num_cpus=0, max_calls=1)(scored)
    found: list[float] = ray.get(remote.remote(), timeout=1800)
    if len(found) != len(setup.items):
        raise AssertionError(f"{len(setup.items) - len(found)} of {len(setup.items)} items have no score")
    return found


def engine_rate(setup: Setup) -> float:
    """Return prompt tokens per second of the engine in another process, whose end frees the memory."""
    import ray

    remote: Any = ray.remote(num_gpus=setup.gpus, num_cpus=0, max_calls=1)(_engine_rate)
    return float(ray.get(remote.remote(setup), timeout=1800))


def _engine_rate(setup: Setup) -> float:
    engine = build_engine(setup.judge())
    items, size = setup.items, setup.batch_size
    engine.score(items[:size])
    started = time.perf_counter()
    scores = [score for first in range(size, len(items), size) for score in engine.score(items[first : first + size])]
    return sum(score.tokens_in or 0 for score in scores) / (time.perf_counter() - started)


def pool_rate(setup: Setup, judges: Sequence[JudgeSpec]) -> float:
    """Return prompt tokens per second of judges that run together, each in a Ray actor.

    Each judge waits after its first batch until all models are loaded. Its second batch is computed during this time,
    so the measurement begins with the third.
    """
    batches: dict[str, list[tuple[float, int]]] = {judge.name: [] for judge in judges}
    all_have_loaded = threading.Barrier(len(judges))

    def one(judge: JudgeSpec) -> None:
        def sink(scores: Sequence[Any], _: str) -> None:
            if not batches[judge.name]:
                all_have_loaded.wait(1800)
            batches[judge.name].append((time.perf_counter(), sum(score.tokens_in or 0 for score in scores)))

        run_judge(pool, judge, setup.items, sink)

    config = PoolConfig(mode="ray", side_by_side=len(judges))
    with Pool(config) as pool, ThreadPoolExecutor(len(judges)) as threads:
        list(threads.map(one, judges))
    begun = max(done[1][0] for done in batches.values())
    ended = min(done[-1][0] for done in batches.values())
    return sum(tokens for done in batches.values() for at, tokens in done if begun < at <= ended) / (ended - begun)
