"""Run one ``care fit`` and write CPU seconds and peak memory of each stage as JSON.

``python benchmarks/speed/fit_stages.py SCORES OUT RESULT [--whole] [--bare]``. It measures the checkout that is
first on Python's path, which may be an earlier one, by wrapping the function of each stage. With ``--whole``, the fit
uses all items instead of a sample; with ``--bare``, the pipeline's libraries count as not installed.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STAGES = {
    "read_table": ("orchestration.cli.tables", "reading"),
    "admit": ("assets.table.fitting", "admission"),
    "weight_intervals": ("assets.table.fitting", "intervals"),
    "describe": ("assets.table.fitting", "factors"),
    "completed": ("assets.table.fitting", "page data"),
    "fit_facts": ("assets.table.fitting", "verdict"),
    "items_to_label": ("assets.table.fitting", "items to label"),
    "write_table": ("assets.table.files", "tables"),
    "write_page": ("assets.table.files", "page"),
}
"""Module and stage of each function."""

_PIPELINE = ("cvxpy", "dagster", "dask", "distributed", "duckdb", "ray", "tensorly")
"""Libraries that ``pip install .`` does not install."""


class Stages:
    """Recorder of CPU seconds and peak memory of each stage; code outside of all stages counts as ``other``."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = defaultdict(float)
        self.peak: dict[str, float] = defaultdict(float)
        self._name, self._began = "other", 0.0

    def enter(self, name: str) -> str:
        """End the current stage, begin another, and return the name of the ended stage."""
        now, ended = time.process_time(), self._name
        self.cpu[ended] += now - self._began
        self.peak[ended] = max(self.peak[ended], _peak_mebibytes())
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # Linux then counts the peak from here on
        self._name, self._began = name, now
        return ended

    def wrap(self, module: str, function: str, stage: str) -> None:
        """Wrap a function, to record its time as a stage; do nothing if the checkout has no such function."""
        owner = importlib.import_module(module)
        original: Callable[..., Any] | None = getattr(owner, function, None)
        if original is None:
            return

        def counted(*args: Any, **kwargs: Any) -> Any:
            outer = self.enter(stage)
            try:
                return original(*args, **kwargs)
            finally:
                self.enter(outer)

        setattr(owner, function, counted)

    def follow(self, module: str, function: str) -> None:
        """Wrap a fit, to begin a stage at each of its progress messages."""
        owner = importlib.import_module(module)
        original: Callable[..., Any] = getattr(owner, function)

        def followed(*args: Any, **kwargs: Any) -> Any:
            outer = self.enter("moments and structure")
            try:
                return original(*args, **{**kwargs, "watch": lambda what, _done, _total: self.enter(what)})
            finally:
                self.enter(outer)

        setattr(owner, function, followed)


def _peak_mebibytes() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main(scores: str, out: str, result: str, *options: str) -> None:
    """Run ``care fit``, and write time and memory of each stage."""
    if "--bare" in options:
        sys.modules.update(dict.fromkeys(_PIPELINE))  # type: ignore[arg-type]  # None is what is not installed
    stages = Stages()
    from orchestration.cli.app import main as care

    for function, (module, stage) in _STAGES.items():
        stages.wrap(module, function, stage)
    stages.follow("assets.table.fitting", "fit_panel")
    if "--whole" in options:
        vars(importlib.import_module("care_ops.samples"))["MOST_ITEMS"] = sys.maxsize
    sys.argv = ["care", "fit", scores, "--out", out]
    try:
        care()
    except SystemExit as ended:
        if ended.code:
            raise
    stages.enter("end")
    measured = {name: [stages.cpu[name], stages.peak[name]] for name in stages.cpu}
    Path(result).write_text(json.dumps(measured), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
