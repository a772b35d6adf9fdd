"""The figures of a page: their data, titles and captions."""

import numpy as np
from markupsafe import Markup

from assets.report.charts import Axes, Figure, Ranked, Series, heat_map, line_chart, ranked_list
from assets.report.data import ReportData

_GROUPS, _FEWEST_IN_GROUPS = 10, 20


def page_figures(data: ReportData) -> list[Figure]:
    """Return the figures of a page: order against gold, correlation of judges, and loadings."""
    drawn = (_gold(data), _correlation(data), _loadings(data))
    return [figure for figure in drawn if figure is not None]


def system_list(data: ReportData) -> tuple[str, Markup] | None:
    """Draw the systems, best first, under a heading; None if there are none.

    They are drawn by value with interval if labels give intervals, otherwise by the difference from the best system.
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
    heading = "Difference from the best (at zero)"
    return (heading, ranked_list(ranks, "difference from the best")) if ranks else None


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
