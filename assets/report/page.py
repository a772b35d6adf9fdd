"""Rendering of report data as HTML pages with Jinja2; each page is one file."""

import json
import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from math import isnan
from pathlib import Path
from typing import Any
from uuid import uuid4

from markupsafe import Markup, escape

from assets.report.cards import judge_cards, retest
from assets.report.data import ReportData
from assets.report.figures import correlation_map, judge_weights, ranked_items, system_list
from assets.report.items import item_count, item_rows, label_rows
from assets.report.names import items_name
from care_ops.errors import counted
from care_ops.results.reasons import feature_in_words
from care_ops.results.verdict import Verdict, minute_of
from warehouse.storage import delete, write_bytes

_OF_THE_VERDICT = {
    "verdict.html": ("<!-- verdict -->", "<!-- end of the verdict -->"),
    "why.html": ("<!-- why -->", "<!-- end of why -->"),
}
"""Templates of a verdict, with the marks around the part of a page that a new verdict replaces."""


def write_page(data: ReportData, path: Path, verdict: Verdict) -> None:
    """Write the page of a test set, with the verdict at the top, and the page of the test set's items.

    If there are many items, judge cards and figures use a sample (``care_ops.samples``), and the page of items lists
    only the best and the worst. Both pages state this.
    """
    rows, items_page, count = item_rows(data), items_name(path.name), item_count(data)
    render(path.parent, items_page, "items.html", data=data, rows=rows, page=path.name, item_count=count)
    drawn = data.drawn
    cards = judge_cards(drawn)
    values = {
        "data": drawn,
        "label_rows": label_rows(drawn),
        "cards": cards,
        "retest": retest,
        "feature_in_words": feature_in_words,
        "system_list": system_list(drawn),
        "picture": ranked_items(drawn, rows),
        "weights": judge_weights(cards),
        "correlation": correlation_map(drawn),
        "columns": _metric_columns(drawn),
        "provenance": json.dumps(drawn.provenance, indent=1, sort_keys=True, default=str),
        "counted": counted,
        "verdict": verdict,
        "items_page": items_page,
        "item_count": count,
        "items_shown": len(rows),
        "drawn_count": drawn.scores.shape[0],
        "scored_count": data.scores.shape[0],
        "items_have_intervals": bool(rows) and rows[0].lo is not None,
    }
    render(path.parent, path.name, "page.html", **values)


def card(data: ReportData, verdict: Verdict) -> str:
    """Render a short page for a notebook: the verdict, its reasons, the items by rank, and the judge weights."""
    drawn = data.drawn
    shown = ranked_items(drawn, item_rows(data))
    values = {"data": data, "verdict": verdict, "picture": shown, "weights": judge_weights(judge_cards(drawn))}
    return _rendered("card.html", **values, counted=counted).decode()


def replace_verdict(path: Path, verdict: Verdict) -> None:
    """Replace the verdict on a page if it has changed.

    A damaged page is deleted; the next run renders it again.
    """
    try:
        text = shown = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        delete(path)
        return
    for template, (begin, finish) in _OF_THE_VERDICT.items():
        before, _, rest = shown.partition(begin)
        _, end, after = rest.partition(finish)
        if not end:
            return  # a page of another release, which the next `report` renders again
        shown = before + _rendered(template, verdict=verdict).decode().removesuffix("\n") + after
    if shown != text:
        write_bytes(path, shown.encode())


def write_index(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the index of all pages; a row has a test set's name, description, page, verdict and published fit."""
    return render(folder, "index.html", "index.html", rows=rows, experiments=(folder / "experiments.html").exists())


def render(folder: Path, name: str, template: str, **values: Any) -> Path:
    """Render a template to a file in a folder, and return its path."""
    path = folder / name
    write_bytes(path, _rendered(template, **values))
    return path


def _rendered(template: str, **values: Any) -> bytes:
    """Render a page; its script nonce is a hash of the page, so an injected text cannot contain the right nonce."""
    key = uuid4().hex
    page = _environment().get_template(template).render(key=key, **values)
    return page.replace(key, sha256(page.replace(key, "").encode()).hexdigest()[:32]).encode()


def _metric_columns(data: ReportData) -> list[tuple[str, str, str]]:
    columns = [
        ("auc", "AUC", "agreement of the ranking with gold, higher is better"),
        ("tau", "Kendall τ", "agreement of the ranking with gold, higher is better"),
        ("accuracy", "accuracy", "share of correct decisions at the aggregate's own threshold, higher is better"),
        ("balanced_accuracy", "balanced acc.", "mean of the accuracy in each class, higher is better"),
        (
            "risk_coverage",
            "sd finds errors",
            "how well the distance to the threshold, in units of sd, predicts errors: 0 is random, 1 is perfect",
        ),
        ("calibration_error", "ECE", "expected calibration error of the probabilities, lower is better"),
        ("mae", "MAE", "mean absolute error of the estimates, lower is better"),
        ("mae_filled", "MAE, one scale", "mean absolute error of ranks spread evenly over the scale, lower is better"),
    ]
    shown = {field for e in data.evaluations.values() for field, _, _ in columns if getattr(e, field) is not None}
    return [c for c in columns if c[0] in shown and not (c[0] == "tau" and "auc" in shown)]


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
    environment.filters.update(minute=minute_of, number=_number, percent=_percent, with_code=_with_code, cell=_cell)
    environment.filters["signed"] = "{:+.2f}".format
    return environment


def _number(value: float | int | None) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "" if value is None or value != value else f"{100 * value:.1f} %"


def _with_code(sentence: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))


def _cell(value: float | int | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isnan(value):
        return "–"
    return f"{value:,.0f}" if value.is_integer() and abs(value) >= 10 else f"{value:.3g}"
