"""Run one ``care fit`` and write CPU seconds and peak memory of each stage as JSON.

``python benchmarks/speed/fit_stages.py SCORES OUT RESULT [--whole] [--bare]``. It measures the checkout that is first
on the path, also an earlier one: what it wraps are the functions that stand between the stages. With ``--whole`` no
sample is drawn, with ``--bare`` there are none of the pipeline's libraries.
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
"""By function: the module where it is looked up, and the stage that it is."""

_PIPELINE = ("cvxpy", "dagster", "dask", "distributed", "duckdb", "ray", "tensorly")
"""Libraries that ``pip install .`` does not bring."""


class Stages:
    """CPU seconds and peak memory by stage; what is in none counts as ``other``."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = defaultdict(float)
        self.peak: dict[str, float] = defaultdict(float)
        self._name, self._began = "other", 0.0

    def enter(self, name: str) -> str:
        """End the current stage and begin another; returns the ended one."""
        now, ended = time.process_time(), self._name
        self.cpu[ended] += now - self._began
        self.peak[ended] = max(self.peak[ended], _peak_mebibytes())
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # Linux then counts the peak from here on
        self._name, self._began = name, now
        return ended

    def wrap(self, module: str, function: str, stage: str) -> None:
        """Count a function's time as a stage of its own; a checkout without that function has no such stage."""
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
        """Count the progress messages of a fit as stages."""
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
    """Fit, and write time and memory of each stage."""
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
