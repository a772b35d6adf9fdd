"""What the pool costs over calling a model's engine, per item. ``make bench-models``.

A tiny model in transformers, as cheap as an engine can be; inline and in one Ray actor, loading left
out, beside the engine called directly with the same questions.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from judges.engines.base import build_engine
from judges.items import Item, Score
from judges.pool import Pool, PoolConfig, Progress
from judges.spec import JudgeSpec, LocalModel
from tests.models.tiny import build

ITEMS = 2_000
ROUNDS = 3


def main() -> None:
    """Print seconds an item and ratios, medians of three."""
    with tempfile.TemporaryDirectory() as root:
        model = build(Path(root) / "model", seed=0)
        engine = LocalModel(
            kind="transformers", model=str(model), template="quality", num_gpus=0, dtype="float32", min_valid_mass=0
        )
        spec = JudgeSpec(name="tiny", engine=engine, batch_size=64)
        items = [Item(f"i{k}", f"Question {k % 100}?", f"Answer {k} " + "and so on " * (k % 7)) for k in range(ITEMS)]
        ordered = sorted(items, key=lambda item: (item.prompt or "", item.response or ""))
        loaded = build_engine(spec)
        loaded.score(ordered[:64])
        times: dict[str, list[float]] = {"engine": [], "pool, inline": [], "pool, one Ray actor": []}
        for _ in range(ROUNDS):
            started = time.perf_counter()
            for first in range(0, ITEMS, 64):
                loaded.score(ordered[first : first + 64])
            times["engine"].append(time.perf_counter() - started)
            for name, mode in (("pool, inline", "inline"), ("pool, one Ray actor", "ray")):
                kept: list[Score] = []
                seen: list[Progress] = []
                with Pool(PoolConfig(mode=mode)) as pool:
                    pool.run(spec, items, lambda batch, _, kept=kept: kept.extend(batch), progress=seen.append)
                    # From the first batch to the last: before it the model is loaded.
                    first, last = seen[0], seen[-1]
                times[name].append((last.seconds - first.seconds) / (last.done - first.done) * ITEMS)
                assert len(kept) == ITEMS
        base = statistics.median(times["engine"])
        for name, seconds in times.items():
            middle = statistics.median(seconds)
            print(f"{name}: {1e3 * middle / ITEMS:.3f} ms an item, {middle / base:.3f} of the engine")


if __name__ == "__main__":
    main()
