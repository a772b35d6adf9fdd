"""Importing the definitions over importing dagster alone: CPU seconds and calls, from kept bytecode."""

from __future__ import annotations

import statistics
import tempfile

from tests.support.imports import calls, seconds

_ROUNDS = 15


def run() -> list[dict[str, object]]:
    """One row: medians of fifteen imports each, taken in turn."""
    modules = ("orchestration.definitions", "dagster")
    with tempfile.TemporaryDirectory() as cache:
        counted = {module: calls(module, cache) for module in modules}
        taken: dict[str, list[float]] = {module: [] for module in modules}
        for _ in range(_ROUNDS):
            for module in modules:
                taken[module].append(seconds(module, cache))
    ours, theirs = (statistics.median(taken[module]) for module in modules)
    return [
        {
            "ours_s": ours,
            "dagster_s": theirs,
            "ratio": ours / theirs,
            "ratio_of_calls": counted[modules[0]] / counted[modules[1]],
        }
    ]
