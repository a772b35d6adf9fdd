"""Pages of the experiments, from what is kept of them.

Belongs here: laying out findings. Does not: experiments.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.experiments.base import Bars, Chart, Heatmap, said
from assets.report.figures import COLOURS, DIVERGING, figure
from assets.report.page import render

if TYPE_CHECKING:
    from assets.experiments.base import Experiment
    from assets.workspace import Workspace


def write_experiments(
    folder: Path, workspace: Workspace, experiments: Sequence[Experiment], outdated: Collection[str] = ()
) -> dict[str, Path]:
    """Write a page for each experiment that has been run, and their index; returns the pages by key.

    Those named as outdated say so, on their page and in the index.
    """
    pages: dict[str, Path] = {}
    rows: list[dict[str, Any]] = []
    for experiment in experiments:
        kept = experiment.kept(workspace)
        if kept is None:
            continue
        pages[experiment.key] = render(
            folder,
            f"experiment-{experiment.key}.html",
            "experiment.html",
            experiment=experiment,
            kept=kept,
            outdated=experiment.key in outdated,
            size=said(kept.size),
            version=asdict(kept.version),
            figures=[_drawn(f"{experiment.key}-{k}", figure) for k, figure in enumerate(kept.findings.figures)],
        )
        page, is_outdated = pages[experiment.key].name, experiment.key in outdated
        rows.append({"experiment": experiment, "kept": kept, "page": page, "outdated": is_outdated})
    render(folder, "experiments.html", "experiments.html", rows=rows)
    return pages


def _drawn(key: str, figure: Chart | Bars | Heatmap) -> dict[str, str]:
    if isinstance(figure, Chart):
        return _chart(key, figure)
    return _bars(key, figure) if isinstance(figure, Bars) else _heatmap(key, figure)


def _chart(key: str, chart: Chart) -> dict[str, str]:
    traces: list[dict[str, Any]] = []
    for curve in chart.curves:
        colour = COLOURS.get(curve.name)
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": curve.name,
            "x": curve.x,
            "y": curve.y,
            "line": {"color": colour},
        }
        if curve.low:
            pairs = list(zip(curve.y, curve.low, curve.high, strict=True))
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": [high - y for y, _, high in pairs],
                "arrayminus": [y - low for y, low, _ in pairs],
                "thickness": 1,
            }
        traces.append(trace)
    scale = {"type": "log"} if chart.logarithmic else {}
    return figure(
        key,
        chart.title,
        "",
        traces,
        xaxis={"title": {"text": chart.x}, **scale},
        yaxis={"title": {"text": chart.y}, **scale},
        legend={"orientation": "h", "y": -0.2},  # below: there may be many
        height=480,
    )


def _bars(key: str, bars: Bars) -> dict[str, str]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": bars.values,
        "y": bars.names,
        "marker": {"size": 9, "color": [COLOURS.get(name, "#2f7de1") for name in bars.names]},
    }
    if bars.low:
        trace["error_x"] = {
            "type": "data",
            "symmetric": False,
            "array": [high - x for x, high in zip(bars.values, bars.high, strict=True)],
            "arrayminus": [x - low for x, low in zip(bars.values, bars.low, strict=True)],
            "thickness": 2,
            "color": "#8a8f98",  # seen on white and on black
        }
    else:
        trace |= {"type": "bar", "orientation": "h"}
    return figure(
        key,
        bars.title,
        "",
        [trace],
        xaxis={"title": {"text": bars.x}},
        yaxis={"autorange": "reversed", "automargin": True},
        height=90 + 26 * len(bars.names),
    )


def _heatmap(key: str, heatmap: Heatmap) -> dict[str, str]:
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": heatmap.columns,
        "y": heatmap.rows,
        "z": heatmap.values,
        "text": heatmap.marks,
        "texttemplate": "%{text}",
        "zmin": -1,
        "zmax": 1,
        "colorscale": DIVERGING,
        "hoverongaps": False,
    }
    return figure(
        key,
        heatmap.title,
        "",
        [trace],
        xaxis={"automargin": True},
        yaxis={"autorange": "reversed", "automargin": True},
        height=140 + 34 * len(heatmap.rows),
    )
