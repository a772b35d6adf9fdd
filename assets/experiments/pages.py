"""Report pages that show the stored findings of the experiments."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from assets.experiments.base import Chart, Experiment, Heatmap, read_stored
from assets.report.charts import Figure, heat_map, line_chart
from assets.report.page import render
from assets.workspace import Workspace


def write_experiments(
    folder: Path, workspace: Workspace, experiments: Iterable[Experiment], stale: Collection[str] = ()
) -> dict[str, Path]:
    """Write a page for each experiment with stored findings, and an index; return the pages' paths by key."""
    pages: dict[str, Path] = {}
    rows: list[dict[str, Any]] = []
    for experiment in experiments:
        stored = read_stored(workspace, experiment.key)
        if stored is None:
            continue
        row = {"experiment": experiment, "stored": stored, "stale": experiment.key in stale}
        figures = [_draw(f"{experiment.key}-{k}", figure) for k, figure in enumerate(stored.findings.figures)]
        shown = {"parameters": experiment.parameters(stored.size), "figures": figures}
        path = render(folder, f"experiment-{experiment.key}.html", "experiment.html", **row, **shown)
        pages[experiment.key] = path
        rows.append({**row, "page": path.name})
    render(folder, "experiments.html", "experiments.html", rows=rows)
    return pages


def _draw(key: str, figure: Chart | Heatmap) -> Figure:
    if isinstance(figure, Chart):
        return line_chart(key, figure.title, "", figure.curves, figure.x, figure.y)
    return heat_map(key, figure.title, "", figure.rows, figure.columns, figure.values)
