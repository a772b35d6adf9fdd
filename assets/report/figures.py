"""Figures as plotly JSON, drawn without a background so that the page's scheme shows through.

Belongs here: one function a figure. Does not: page layout (``templates``), colours of the scheme (the
page's script sets text and grid colours).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.report.data import ReportData
from care_ops.metrics import is_binary

Array = NDArray[np.float64]

COLOURS = {
    "care": "#d1495b",
    "mv": "#9a6fb0",
    "avg": "#8a8f98",
    "uws": "#c98a2b",
    "care_svd": "#2f7de1",
    "care_tensor": "#1f9e77",
    "median": "#b7a7d6",
    "families": "#e39aa4",
    "factor_analysis": "#7fb2f0",
    "latent_classes": "#7cc7ae",
    "dawid_skene": "#a3794f",
    "glad": "#c4a484",
    "mace": "#7d6b5d",
    "ws": "#d9b36c",
    "best_judge": "#5b5f97",
    "ged": "#6fae3f",
}
DIVERGING = [[0.0, "#c2553d"], [0.5, "rgba(128,128,128,0.12)"], [1.0, "#2f7de1"]]


def figures(data: ReportData) -> list[dict[str, str]]:
    """Figures of a page, each with a title, a caption and plotly JSON; those without data are left out."""
    drawn = [
        _against_gold(data),
        _weights(data),
        _correlation(data),
        _loadings(data),
        _features(data),
        _agreement(data),
    ]
    return [figure for figure in drawn if figure is not None]


def trend(testset: str, editions: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """Order against gold by aggregator, edition by edition; None where there are no two with gold."""
    names = list(dict.fromkeys(name for row in editions for name, value in row["orders"].items() if value is not None))
    if len(editions) < 2 or not names:
        return None
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": [row["made at"].replace("T", " ") for row in editions],
            "y": [row["orders"].get(name) for row in editions],
            "line": {"color": COLOURS.get(name), "shape": "hv"},
        }
        for name in names
    ]
    return figure(
        f"trend-{testset}",
        testset,
        "AUC where gold is two classes, else Kendall's tau, of every fit that was made, published or not.",
        traces,
        height=300,
        yaxis={"title": {"text": "order against gold"}},
    )


def figure(key: str, title: str, caption: str, traces: list[dict[str, Any]], **layout: Any) -> dict[str, str]:
    """Plotly JSON with a title and a caption, without a background."""
    base: dict[str, Any] = {
        "margin": {"l": 60, "r": 20, "t": 10, "b": 50},
        "height": 380,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": 1.12},
    }
    document = json.dumps({"data": traces, "layout": {**base, **layout}}, default=_plain).replace("</", "<\\/")
    return {"key": key, "title": title, "caption": caption, "json": document}


def _against_gold(data: ReportData) -> dict[str, str] | None:
    known = ~np.isnan(data.gold)
    if not known.any():
        return None
    if is_binary(data.gold):
        return _roc(data, known)
    traces: list[dict[str, Any]] = []
    for name, aggregate in data.aggregates.items():
        both = known & ~np.isnan(aggregate.estimate)
        if both.sum() < 20:
            continue
        order = np.argsort(aggregate.estimate[both], kind="stable")
        bins = np.array_split(order, min(10, both.sum() // 10))
        gold = data.gold[both]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": [round(100 * (k + 0.5) / len(bins)) for k in range(len(bins))],
                "y": [float(gold[b].mean()) for b in bins],
                "line": {"color": COLOURS.get(name)},
            }
        )
    return figure(
        "gold",
        "Who orders the items as gold does",
        "Items sorted by each aggregate and cut into ten equal groups; the height is the mean gold of a group. "
        "A steeper line orders better; scale plays no part.",
        traces,
        xaxis={"title": {"text": "percentile by the aggregate"}},
        yaxis={"title": {"text": "mean gold"}},
    )


def _roc(data: ReportData, known: NDArray[np.bool_]) -> dict[str, str]:
    traces: list[dict[str, Any]] = []
    for name, aggregate in data.aggregates.items():
        both = known & ~np.isnan(aggregate.estimate)
        positive = data.gold[both] > 0.5
        order = np.argsort(-aggregate.estimate[both], kind="stable")
        last_of_tie = np.append(np.diff(aggregate.estimate[both][order]) != 0, True)
        true = np.cumsum(positive[order])[last_of_tie] / max(positive.sum(), 1)
        false = np.cumsum(~positive[order])[last_of_tie] / max((~positive).sum(), 1)
        keep = np.unique(np.linspace(0, len(true) - 1, 200).astype(int))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": [0.0, *false[keep].round(4).tolist()],
                "y": [0.0, *true[keep].round(4).tolist()],
                "line": {"color": COLOURS.get(name)},
            }
        )
    return figure(
        "gold",
        "Who orders the items as gold does",
        "ROC curve of each aggregate: the nearer to the upper left corner, the better the order.",
        traces,
        xaxis={"title": {"text": "false positive rate"}, "range": [0, 1]},
        yaxis={"title": {"text": "true positive rate"}, "range": [0, 1]},
    )


def _weights(data: ReportData) -> dict[str, str] | None:
    weighted = {n: a.weights for n, a in data.aggregates.items() if a.weights is not None}
    if not weighted:
        return None
    lead = next(iter(weighted.values()))
    order = np.argsort(lead, kind="stable")
    names = [_short(data.scores.judges[j]) for j in order]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [round(float(w[j]), 4) for j in order],
            "marker": {"color": COLOURS.get(name)},
            **_error_bars(data, name, w, order),
        }
        for name, w in weighted.items()
    ]
    return figure(
        "weights",
        "How much each judge counts",
        "Weights sum to one in absolute value; a negative weight means that the judge counts against. "
        "avg and uws weigh raw scores, the others standardised ones; care's are the weights that come nearest to it. "
        "Bars span 90 % of the bootstrap resamples of split units.",
        traces,
        height=max(320, 60 + 26 * len(names)),
        margin={"l": 190, "r": 20, "t": 10, "b": 40},
        yaxis={"type": "category"},
    )


def _error_bars(data: ReportData, name: str, weights: Array, order: NDArray[np.intp]) -> dict[str, Any]:
    bounds = data.intervals.get(name)
    if bounds is None or name == "avg" or np.isnan(bounds[0]).any():
        return {}
    lo, hi = bounds
    return {
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [round(float(hi[j] - weights[j]), 4) for j in order],
            "arrayminus": [round(float(weights[j] - lo[j]), 4) for j in order],
            "thickness": 1,
            "width": 2,
            "color": "#888",
        }
    }


def _correlation(data: ReportData) -> dict[str, str] | None:
    if data.correlation is None:
        return None
    lead = data.aggregates.get("care_svd")
    order = np.arange(len(data.scores.judges))
    if lead is not None and lead.weights is not None:
        order = np.argsort(-lead.weights, kind="stable")
    names = [_short(data.scores.judges[j]) for j in order]
    return _heatmap(
        "correlation",
        "Which judges say the same",
        "Correlation of the judges' scores, judges ordered by their weight in care_svd. "
        "Blocks are families that repeat one another.",
        data.correlation[np.ix_(order, order)],
        names,
        names,
    )


def _loadings(data: ReportData) -> dict[str, str] | None:
    lead = data.aggregates.get("care_svd")
    if lead is None or data.care_svd is None or lead.loadings is None or lead.weights is None:
        return None
    order = np.argsort(-lead.weights, kind="stable")
    loadings = lead.loadings[order, :5]
    columns = ["quality", *(f"confounder {k}" for k in range(1, loadings.shape[1]))]
    return _heatmap(
        "loadings",
        "Quality and the shared confounders",
        f"Loadings of the judges on the factors of L; quality was named by the rule '{data.care_svd.rule}'.",
        loadings,
        columns,
        [_short(data.scores.judges[j]) for j in order],
    )


def _features(data: ReportData) -> dict[str, str] | None:
    rows = data.factors.correlations
    values = np.array([[np.nan if c is None else c for c in row] for row in rows], dtype=float)
    if not values.size or np.isnan(values).all():
        return None
    names = [f"factor {k + 1}" for k in range(len(rows))]
    return _heatmap(
        "features",
        "What the factors look like in the texts",
        "Spearman correlation of factor scores with features of the response. A correlation describes a "
        "factor; it is no proof of a cause.",
        values,
        list(data.factors.features),
        names,
        height=120 + 50 * len(names),
    )


def _agreement(data: ReportData) -> dict[str, str] | None:
    from scipy.stats import spearmanr

    names = list(data.aggregates)
    if len(names) < 2:
        return None
    values = np.eye(len(names))
    for a in range(len(names)):
        for b in range(a):
            x, y = data.aggregates[names[a]].estimate, data.aggregates[names[b]].estimate
            both = ~np.isnan(x) & ~np.isnan(y)
            values[a, b] = values[b, a] = float(np.asarray(spearmanr(x[both], y[both]))[0])
    return _heatmap(
        "agreement",
        "Do the aggregates agree",
        "Spearman correlation of the estimates. Where two defensible aggregates part, label a few items "
        "before you trust either.",
        values,
        names,
        names,
    )


def _heatmap(
    key: str,
    title: str,
    caption: str,
    values: Array,
    columns: list[str],
    rows: list[str],
    height: int | None = None,
) -> dict[str, str]:
    shown = [[None if np.isnan(v) else round(float(v), 3) for v in row] for row in values[::-1]]
    small = values.size <= 150
    trace = {
        "type": "heatmap",
        "z": shown,
        "x": columns,
        "y": rows[::-1],
        "zmin": -1,
        "zmax": 1,
        "colorscale": DIVERGING,
        "texttemplate": "%{z:.2f}" if small else "",
        "hovertemplate": "%{y} / %{x}: %{z:.3f}<extra></extra>",
        "colorbar": {"thickness": 10},
    }
    return figure(
        key,
        title,
        caption,
        [trace],
        height=height or max(320, 110 + 22 * len(rows)),
        margin={"l": 190, "r": 20, "t": 10, "b": 110},
        xaxis={"type": "category", "tickangle": -40, "showgrid": False},
        yaxis={"type": "category", "showgrid": False},
    )


def _short(name: str) -> str:
    return name if len(name) <= 30 else name[:29] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"figure: cannot write {type(value).__name__} as JSON")
