"""Pages of the experiments, from what is kept of them.

Belongs here: laying out findings. Belongs elsewhere: experiments.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.experiments.base import Bars, Chart, Heatmap, said
from assets.report.charts import Axes, Figure, Ranked, Series, heat_map, line_chart, ranked_list
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


def _drawn(key: str, figure: Chart | Bars | Heatmap) -> Figure:
    if isinstance(figure, Chart):
        return _chart(key, figure)
    return _bars(key, figure) if isinstance(figure, Bars) else _heatmap(key, figure)


def _chart(key: str, chart: Chart) -> Figure:
    series = [Series(curve.name, curve.x, curve.y, curve.low, curve.high) for curve in chart.curves]
    return line_chart(key, chart.title, "", series, Axes(chart.x, chart.y, logarithmic=chart.logarithmic))


def _bars(key: str, bars: Bars) -> Figure:
    ends = zip(bars.low, bars.high, strict=True) if bars.low else [(None, None)] * len(bars.names)
    rows = [
        Ranked(name, value, low, high) for name, value, (low, high) in zip(bars.names, bars.values, ends, strict=True)
    ]
    return Figure(key, bars.title, bars.x, ranked_list(rows, bars.x))


def _heatmap(key: str, heatmap: Heatmap) -> Figure:
    return heat_map(key, heatmap.title, "", heatmap.rows, heatmap.columns, heatmap.values, marks=heatmap.marks)
