"""Pages from report data: jinja2 templates beside one local copy of plotly's script.

Belongs here: writing files a browser opens without the network. Does not: choosing what to show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assets.report.data import ReportData
from assets.report.figures import figures, trend
from warehouse.parts import write_bytes

_SCRIPT = "plotly.min.js"


def write_page(data: ReportData, path: Path) -> None:
    """Write one test set's page, and beside it, once, the script it draws with."""
    write_script(path.parent)
    html = (
        _environment()
        .get_template("page.html")
        .render(
            data=data,
            figures=figures(data),
            script=_SCRIPT,
            columns=_metric_columns(data),
            provenance=json.dumps(data.provenance, indent=1, sort_keys=True, default=str),
            details={n: json.dumps(a.details, indent=1, sort_keys=True) for n, a in data.aggregates.items()},
        )
    )
    write_bytes(path, html.encode())


def write_index(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the index of all pages; rows carry name, title, items, judges and the evaluation."""
    html = _environment().get_template("index.html").render(rows=rows, file_name=file_name)
    path = folder / "index.html"
    write_bytes(path, html.encode())
    return path


def write_trend(folder: Path, editions: Mapping[str, Sequence[dict[str, Any]]]) -> Path:
    """Write what moved from night to night: by test set its editions, oldest first."""
    write_script(folder)
    html = (
        _environment()
        .get_template("trend.html")
        .render(
            editions=editions,
            figures={name: trend(name, rows) for name, rows in editions.items()},
            script=_SCRIPT,
            file_name=file_name,
        )
    )
    path = folder / "trend.html"
    write_bytes(path, html.encode())
    return path


def write_script(folder: Path) -> None:
    """Put plotly's script beside the pages, unless it lies there."""
    path = folder / _SCRIPT
    if not path.exists():
        from plotly.offline import get_plotlyjs

        write_bytes(path, get_plotlyjs().encode())


def file_name(testset: str) -> str:
    """File name of a test set's page."""
    return "testset-" + quote(testset, safe="").replace("%", "_") + ".html"


def _metric_columns(data: ReportData) -> list[tuple[str, str, str]]:
    """(field, heading, what is better) of the metrics that this gold defines."""
    every = [
        ("auc", "AUC", "order, higher is better"),
        ("tau", "Kendall τ", "order, higher is better"),
        ("accuracy", "accuracy", "at the aggregate's own threshold, higher is better"),
        ("balanced_accuracy", "balanced acc.", "mean of both classes, higher is better"),
        ("risk_coverage", "doubt finds errors", "share of the errors avoided that doubt could avoid, higher is better"),
        ("calibration_error", "ECE", "probabilities against gold, lower is better"),
        ("mae", "MAE", "order and scale together, lower is better"),
        ("mae_filled", "MAE, one scale", "after one common mapping: order alone, lower is better"),
    ]
    found = list(data.evaluations.values())
    return [c for c in every if any(getattr(e, c[0]) is not None for e in found)]


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("assets.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["percent"] = _percent
    return environment


def _number(value: float | int | None) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "" if value is None or value != value else f"{100 * value:.1f} %"
