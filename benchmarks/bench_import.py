"""Importing the definitions over importing dagster alone: CPU seconds and calls, from kept bytecode."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_ROUNDS = 15
_ROOT = Path(__file__).parents[1]

# Without the garbage collector, whose rounds over dagster's objects fall to whoever comes last.
_SECONDS = """
import gc, time
gc.disable()
began = time.process_time()
import {}
print(time.process_time() - began)
"""

_CALLS = """
import sys
calls = 0
def count(_frame, event, _arg):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import {}
sys.setprofile(None)
print(calls)
"""


def _measured(code: str, module: str, cache: str) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code.format(module)],
        capture_output=True,
        text=True,
        check=True,
        cwd=_ROOT,
        env=environment | {"PYTHONPYCACHEPREFIX": cache},
    )
    return float(done.stdout.splitlines()[-1])


def calls(module: str, cache: str) -> int:
    """How many functions are called by an import in a fresh process: the same number every time.

    Parameters
    ----------
    module : str
    cache : str
        Folder of bytecode; what is not there is compiled and kept first.
    """
    _measured(_SECONDS, module, cache)
    return int(_measured(_CALLS, module, cache))


def run() -> list[dict[str, object]]:
    """One row: medians of fifteen imports each, taken in turn."""
    modules = ("orchestration.definitions", "dagster")
    with tempfile.TemporaryDirectory() as cache:
        counted = {module: calls(module, cache) for module in modules}
        seconds: dict[str, list[float]] = {module: [] for module in modules}
        for _ in range(_ROUNDS):
            for module in modules:
                seconds[module].append(_measured(_SECONDS, module, cache))
    ours, theirs = (statistics.median(seconds[module]) for module in modules)
    return [
        {
            "ours_s": ours,
            "dagster_s": theirs,
            "ratio": ours / theirs,
            "ratio_of_calls": counted[modules[0]] / counted[modules[1]],
        }
    ]
