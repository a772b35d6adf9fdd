"""Pages of the experiments, from what is kept of them.

Belongs here: laying out findings. Does not: experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.report.figures import COLOURS, figure
from assets.report.page import render

if TYPE_CHECKING:
    from assets.experiments.base import Experiment
    from assets.workspace import Workspace


def write_experiments(folder: Path, workspace: Workspace, experiments: Sequence[Experiment]) -> dict[str, Path]:
    """Write a page for each experiment that has been run, and their index; returns the pages by key."""
    pages: dict[str, Path] = {}
    rows: list[dict[str, Any]] = []
    for experiment in experiments:
        kept = experiment.kept(workspace)
        if kept is None:
            continue
        findings = kept["findings"]
        pages[experiment.key] = render(
            folder,
            f"experiment-{experiment.key}.html",
            "experiment.html",
            experiment=experiment,
            kept=kept,
            figures=[_chart(f"{experiment.key}-{k}", chart) for k, chart in enumerate(findings["charts"])],
        )
        rows.append({"experiment": experiment, "kept": kept, "page": pages[experiment.key].name})
    render(folder, "experiments.html", "experiments.html", rows=rows)
    return pages


def _chart(key: str, chart: dict[str, Any]) -> dict[str, str]:
    traces: list[dict[str, Any]] = []
    for curve in chart["curves"]:
        colour = COLOURS.get(curve["name"])
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": curve["name"],
            "x": curve["x"],
            "y": curve["y"],
            "line": {"color": colour},
        }
        if curve["low"]:
            pairs = list(zip(curve["y"], curve["low"], curve["high"], strict=True))
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": [high - y for y, _, high in pairs],
                "arrayminus": [y - low for y, low, _ in pairs],
                "thickness": 1,
            }
        traces.append(trace)
    scale = {"type": "log"} if chart["logarithmic"] else {}
    return figure(
        key,
        chart["title"],
        "",
        traces,
        xaxis={"title": {"text": chart["x"]}, **scale},
        yaxis={"title": {"text": chart["y"]}, **scale},
        height=420,
    )
