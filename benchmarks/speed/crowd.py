"""Annotator models: Dawid-Skene on 200,000 x 24; GLAD and MACE on 5,000 x 24, beside crowd-kit in the same run.

crowd-kit needs an environment of its own: `make rivals` builds it, else its columns are empty.
``python -m benchmarks.speed.crowd ITEMS ...`` prints how the models' CPU seconds grow with the items, one run each.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.speed.timing import cpu_seconds
from care_ops.models import annotators as crowd
from care_ops.models.answers import Answers
from tests.support.planted import votes

RIVALS = Path("build/rivals/bin/python")

_THEIRS = """
import sys, time
sys.path.insert(0, "tests/oracles")
import numpy as np, pandas as pd
from crowdkit.aggregation import GLAD, MACE, DawidSkene
from planted import votes
truth, grades, _ = votes(5, {n}, 24, 2, 0.1)
task, worker = np.nonzero(grades >= 0)
frame = pd.DataFrame({{"task": task, "worker": worker, "label": grades[task, worker]}})
start = time.process_time()
label = {model}.fit_predict(frame)
print(time.process_time() - start, np.mean(label.reindex(range(len(truth))).to_numpy() == truth))
"""


Fit = Callable[[np.ndarray], crowd.Crowd]

MODELS: dict[str, Fit] = {
    "dawid_skene": lambda g: crowd.dawid_skene(Answers(g, [2] * 24), 2),
    "mace": lambda g: crowd.mace(Answers(g, [2] * 24), 2, np.random.default_rng(0)),
    "glad": lambda g: crowd.glad(g, 2),
    "label_model": lambda g: crowd.label_model(Answers(g, [2] * 24), 2),
}


def run() -> list[dict[str, object]]:
    """One row a model."""
    rows: list[dict[str, object]] = []
    models = [
        ("dawid_skene", 200_000, "DawidSkene(n_iter=100)"),
        ("mace", 5_000, "MACE()"),
        ("glad", 5_000, "GLAD()"),
        ("label_model", 200_000, ""),
    ]
    for name, n, theirs in models:
        fit = MODELS[name]
        truth, grades, _ = votes(5, n, 24, 2, 0.1)
        cpu = cpu_seconds(lambda fit=fit, grades=grades: fit(grades), 5)
        tracemalloc.start()
        fitted = fit(grades)
        memory = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        rival, accuracy = _rival(n, theirs) if theirs and RIVALS.exists() else (None, None)
        rows.append(
            {
                "model": name,
                "n": n,
                "cpu_s": cpu,
                "MiB": memory,
                "accuracy": float(np.mean(fitted.log_odds.argmax(axis=1) == truth)),
                "crowd-kit_cpu_s": rival,
                "ratio": None if rival is None else rival / cpu,
                "crowd-kit_accuracy": accuracy,
            }
        )
    return rows


def _rival(n: int, model: str) -> tuple[float, float]:
    done = subprocess.run(
        [str(RIVALS), "-c", _THEIRS.format(n=n, model=model)], capture_output=True, text=True, check=True
    )
    cpu, accuracy = done.stdout.split()
    return float(cpu), float(accuracy)


def growth(sizes: list[int]) -> None:
    """Print a row for each model: CPU seconds, and the share of right answers, by the number of items."""
    print("model | " + " | ".join(f"{n:,}" for n in sizes), flush=True)
    for name, fit in MODELS.items():
        cells: list[str] = []
        for n in sizes:
            truth, grades, _ = votes(5, n, 24, 2, 0.1)
            began = time.process_time()
            fitted = fit(grades)
            right = float(np.mean(fitted.log_odds.argmax(axis=1) == truth))
            cells.append(f"{time.process_time() - began:.1f}, {right:.3f}")
        print(f"{name} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    growth([int(items) for items in sys.argv[1:]])
