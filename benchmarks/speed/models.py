"""What the pool costs over calling a model's engine, per item. ``make bench-models``.

A tiny model in transformers, as cheap as an engine can be; inline and in one Ray actor, loading left
out, beside the engine called directly with the same questions. One thread each: Ray gives an actor of one
CPU one thread, and a second thread would be counted as the pool's cost. The least of seven rounds is taken
batch by batch, since whatever else the machine does only adds.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from pathlib import Path

from judges.engines.factory import build_engine
from judges.items import Item
from judges.pool import Pool, PoolConfig, Progress
from judges.spec import JudgeSpec, LocalModel
from tests.support.tiny import build

ITEMS = 4_000
ROUNDS = 7


def main() -> None:
    """Print milliseconds an item, and their ratio to the engine's."""
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded
    with tempfile.TemporaryDirectory() as root:
        model = build(Path(root) / "model", seed=0)
        engine = LocalModel(
            kind="transformers", model=str(model), template="quality", num_gpus=0, dtype="float32", min_valid_mass=0
        )
        spec = JudgeSpec(name="tiny", engine=engine)
        items = [Item(f"i{k}", f"Question {k % 100}?", f"Answer {k} " + "and so on " * (k % 7)) for k in range(ITEMS)]
        ordered = sorted(items, key=lambda item: (item.prompt or "", item.response or ""))
        loaded = build_engine(spec)
        times: dict[str, list[list[float]]] = {"engine": [], "pool, inline": [], "pool, one Ray actor": []}
        for _ in range(ROUNDS):
            stamps = [time.perf_counter()]
            for first in range(0, ITEMS, spec.batch_size):
                loaded.score(ordered[first : first + spec.batch_size])
                stamps.append(time.perf_counter())
            times["engine"].append(_between(stamps[1:]))
            for name, mode in (("pool, inline", "inline"), ("pool, one Ray actor", "ray")):
                seen: list[Progress] = []
                with Pool(PoolConfig(mode=mode)) as pool:
                    assert pool.run(spec, items, lambda batch, _: None, progress=seen.append) == ITEMS
                times[name].append(_between([told.seconds for told in seen]))
        base = _least(times["engine"])
        for name, rounds in times.items():
            print(f"{name}: {1e3 * _least(rounds) / (ITEMS - spec.batch_size):.3f} ms an item, ", end="")
            print(f"{_least(rounds) / base:.3f} of the engine")


def _between(stamps: list[float]) -> list[float]:
    """Seconds of each batch but the first, before which a model is loaded."""
    return [b - a for a, b in itertools.pairwise(stamps)]


def _least(rounds: list[list[float]]) -> float:
    return sum(map(min, zip(*rounds, strict=True)))


if __name__ == "__main__":
    main()
