"""Pages from report data: jinja2 templates beside one local copy of plotly's script.

Belongs here: writing files a browser opens without the network. Does not: choosing what to show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any

from assets.report.data import ReportData
from assets.report.figures import figures, trend
from assets.report.names import page_name
from assets.report.probe_cards import probe_cards
from warehouse.storage import write_bytes

_SCRIPT = "plotly.min.js"


def write_page(data: ReportData, path: Path) -> None:
    """Write one test set's page."""
    care = data.aggregates.get("care")
    render(
        path.parent,
        path.name,
        "page.html",
        data=data,
        figures=figures(data),
        probe_cards=probe_cards(data.probes, data.scores, care.details if care is not None else {}),
        columns=_metric_columns(data),
        provenance=json.dumps(data.provenance, indent=1, sort_keys=True, default=str),
        details={n: json.dumps(a.details, indent=1, sort_keys=True) for n, a in data.aggregates.items()},
    )


def write_index(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the index of all pages; rows carry name, title, items, judges and the evaluation."""
    experiments = (folder / "experiments.html").exists()
    return render(folder, "index.html", "index.html", rows=rows, page_name=page_name, experiments=experiments)


def write_trend(folder: Path, editions: Mapping[str, Sequence[dict[str, Any]]]) -> Path:
    """Write what moved from night to night: by test set its editions, oldest first."""
    drawn = {name: trend(name, rows) for name, rows in editions.items()}
    return render(folder, "trend.html", "trend.html", editions=editions, figures=drawn, page_name=page_name)


def render(folder: Path, name: str, template: str, **values: Any) -> Path:
    """Write a page from a template, and beside it, once, the script that it draws with."""
    write_script(folder)
    html = _environment().get_template(template).render(script=_SCRIPT, **values)
    path = folder / name
    write_bytes(path, html.encode())
    return path


def write_script(folder: Path) -> None:
    """Write plotly's script beside the pages where it is missing, damaged or of another release."""
    from plotly.offline import get_plotlyjs

    path, plotly = folder / _SCRIPT, get_plotlyjs().encode()
    if not path.is_file() or path.read_bytes() != plotly:
        write_bytes(path, plotly)


def _metric_columns(data: ReportData) -> list[tuple[str, str, str]]:
    """(field, heading, what is better) of the metrics that this gold defines."""
    columns = [
        ("auc", "AUC", "order, higher is better"),
        ("tau", "Kendall τ", "order, higher is better"),
        ("accuracy", "accuracy", "at the aggregate's own threshold, higher is better"),
        ("balanced_accuracy", "balanced acc.", "mean of both classes, higher is better"),
        ("risk_coverage", "doubt finds errors", "share of the errors avoided that doubt could avoid, higher is better"),
        ("calibration_error", "ECE", "probabilities against gold, lower is better"),
        ("mae", "MAE", "order and scale together, lower is better"),
        ("mae_filled", "MAE, one scale", "after one common mapping: order alone, lower is better"),
    ]
    evaluations = list(data.evaluations.values())
    return [c for c in columns if any(getattr(e, c[0]) is not None for e in evaluations)]


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0], "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["percent"] = _percent
    environment.filters["cell"] = _cell
    return environment


def _number(value: float | int | None) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "" if value is None or value != value else f"{100 * value:.1f} %"


def _cell(value: float | int | str | None) -> str:
    """A number as a table shows it: whole ones whole, small ones with three digits; words as they are."""
    if value is None or isinstance(value, str):
        return value or "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isnan(value):
        return "–"
    return f"{value:,.0f}" if value.is_integer() and abs(value) >= 10 else f"{value:.3g}"
