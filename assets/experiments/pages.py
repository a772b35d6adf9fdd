"""Report pages of the experiments, from their stored findings."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assets.experiments.base import Chart, Experiment, Heatmap, size_text
from assets.report.charts import Axes, Figure, heat_map, line_chart
from assets.report.page import render
from assets.workspace import Workspace


def write_experiments(
    folder: Path, workspace: Workspace, experiments: Sequence[Experiment], outdated: Collection[str] = ()
) -> dict[str, Path]:
    """Write a page for each experiment that has been run, and their index; returns the pages by key.

    Stale ones are marked on their page and in the index.
    """
    pages: dict[str, Path] = {}
    rows: list[dict[str, Any]] = []
    for experiment in experiments:
        kept = experiment.kept(workspace)
        if kept is None:
            continue
        row = {"experiment": experiment, "kept": kept, "outdated": experiment.key in outdated}
        figures = [_drawn(f"{experiment.key}-{k}", figure) for k, figure in enumerate(kept.findings.figures)]
        shown = {"size": size_text(kept.size), "version": asdict(kept.version), "figures": figures}
        path = render(folder, f"experiment-{experiment.key}.html", "experiment.html", **row, **shown)
        pages[experiment.key] = path
        rows.append({**row, "page": path.name})
    render(folder, "experiments.html", "experiments.html", rows=rows)
    return pages


def _drawn(key: str, figure: Chart | Heatmap) -> Figure:
    if isinstance(figure, Chart):
        axes = Axes(figure.x, figure.y, logarithmic=figure.logarithmic)
        return line_chart(key, figure.title, "", figure.curves, axes)
    return heat_map(key, figure.title, "", figure.rows, figure.columns, figure.values, marks=figure.marks)
