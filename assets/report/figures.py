"""The figures of a page: which numbers each of them draws, and what its title and caption say."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from assets.report.charts import Axes, Figure, Ranked, Series, heat_map, line_chart, ranked_list, sparkline
from assets.report.data import ReportData
from care_ops.errors import counted

_NIGHTS_IN_A_ROW, _READ = 24, ("published", "was published", "pinned")
"""Fits that a row of the index shows, and the states of those that people read."""

_GROUPS, _FEWEST_IN_GROUPS = 10, 20


def page_figures(data: ReportData) -> list[Figure]:
    """Return the evidence of a page: who orders items as gold does, which judges agree, and what they share."""
    drawn = (_gold(data), _correlation(data), _loadings(data))
    return [figure for figure in drawn if figure is not None]


def system_list(data: ReportData) -> tuple[str, Markup] | None:
    """A heading and the systems, best first; None where there are none.

    By their values with intervals where labels give some, else by how far each is ahead of the best.
    """
    rows, kind = data.system_rows(), data.systems.kind
    if any(row.lo is not None for row in rows):
        return f"{kind}, best first", ranked_list([Ranked(row.system, row.value, row.lo, row.hi) for row in rows], kind)
    ranks: list[Ranked] = []
    for row in rows:
        if row.best:
            ranks.append(Ranked(row.system, 0.0, note=f"{row.value:.3f}, the best"))
        elif row.behind is not None:
            ranks.append(Ranked(row.system, -row.behind.difference, -row.behind.hi, -row.behind.lo, f"{row.value:.3f}"))
    heading = "How far each is from the best (which stands at zero)"
    return (heading, ranked_list(ranks, "difference from the best")) if ranks else None


def nights(testset: str, editions: Sequence[Mapping[str, Any]]) -> Markup:
    """The latest fits of a test set as a sparkline, oldest first: their order against gold, and who read them."""
    shown = editions[-_NIGHTS_IN_A_ROW:]
    known = [row["order"] for row in shown if row["order"] is not None]
    says = f"{testset}: {counted(len(shown), 'fit')}"
    says += f", order against gold {min(known):.3f} to {max(known):.3f}, the latest {known[-1]:.3f}" if known else ""
    unread = sum(row["state"] not in _READ for row in shown)
    says += f"; {unread} never published" if unread else ""
    return sparkline(says, [row["order"] for row in shown], [row["state"] in _READ for row in shown])


def _gold(data: ReportData) -> Figure | None:
    """Draw the mean gold of ten equal groups of the items, sorted by each aggregate."""
    series: list[Series] = []
    for name, aggregate in data.aggregates.items():
        both = np.flatnonzero(~np.isnan(data.gold) & ~np.isnan(aggregate.estimate))
        if len(both) < _FEWEST_IN_GROUPS:
            continue
        order = both[np.argsort(aggregate.estimate[both], kind="stable")]
        groups = np.array_split(order, min(_GROUPS, len(order) // _GROUPS))
        places = [round(100 * (k + 0.5) / len(groups)) for k in range(len(groups))]
        series.append(Series(name, places, [float(data.gold[group].mean()) for group in groups]))
    if not series:
        return None
    return line_chart(
        "gold",
        "Which method orders the items as gold does",
        "Items sorted by each method, in equal groups; the height is the mean gold of a group. A steep line is good.",
        series,
        Axes("percentile by the method", "mean gold", x_range=(0.0, 100.0)),
    )


def _numbered(data: ReportData) -> list[str]:
    return [f"{k + 1} {name}" for k, name in enumerate(data.judges)]


def _correlation(data: ReportData) -> Figure | None:
    if data.correlation is None:
        return None
    values = data.correlation[np.ix_(data.judge_order, data.judge_order)]
    numbers = [str(k + 1) for k in range(len(values))]
    return heat_map(
        "correlation",
        "Which judges agree",
        "Correlation of the judges' scores. Judges stand in the order of their cards and columns carry their numbers. "
        "Blue is agreement, orange opposition.",
        _numbered(data),
        numbers,
        values.tolist(),
        triangle=True,
    )


def _loadings(data: ReportData) -> Figure | None:
    loadings, svd = data.loadings_by_factor, data.care_svd
    if loadings is None or svd is None:
        return None
    count = min(loadings.shape[1], max(len(data.factors.factors), 1))
    columns = [f"{k + 1}: {data.factor_name(k)}" for k in range(count)]
    return heat_map(
        "loadings",
        "What each judge shares, by factor",
        "How strongly each judge follows each factor that judges share. A factor is named by the text feature that its "
        f"score follows most closely, where it follows one. care_svd takes factor {svd.quality_factor + 1} for "
        f"quality, by the rule '{svd.rule}'; that is a guess unless labels made it.",
        _numbered(data),
        columns,
        loadings[data.judge_order, :count].tolist(),
    )
