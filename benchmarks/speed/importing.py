"""Importing the definitions against importing dagster alone: CPU seconds and calls, from kept bytecode."""

from __future__ import annotations

import statistics
import tempfile

from tests.support.imports import calls, seconds

_ROUNDS = 15


def main() -> None:
    """Print the medians of fifteen imports of each, taken in turn."""
    modules = ("orchestration.definitions", "dagster")
    with tempfile.TemporaryDirectory() as cache:
        counted = {module: calls(module, cache) for module in modules}
        taken: dict[str, list[float]] = {module: [] for module in modules}
        for _ in range(_ROUNDS):
            for module in modules:
                taken[module].append(seconds(module, cache))
    ours, theirs = (statistics.median(taken[module]) for module in modules)
    print("| ours, CPU s | dagster, CPU s | ratio | ratio of calls |\n|---|---|---|---|")
    print(f"| {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} | {counted[modules[0]] / counted[modules[1]]:.2f} |")


if __name__ == "__main__":
    main()
