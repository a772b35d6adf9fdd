"""The figures of a page: which numbers each of them draws, and what its title and caption say."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from assets.report.charts import Axes, Figure, Ranked, Series, heat_map, line_chart, ranked_list, sparkline
from assets.report.data import ReportData
from care_ops.errors import counted
from care_ops.metrics import is_binary, rank_correlation
from care_ops.scores import Array

_MOST_POINTS = 200
"""Points of a curve; more are not seen apart."""

_NIGHTS_IN_A_ROW, _READ = 24, ("published", "was published", "pinned")
"""Fits that a row of the index shows, and the states of those that people read."""

_BINS = 10
_FEWEST_IN_BINS = 20


def shared_figures(data: ReportData) -> list[Figure]:
    """What the judges share: what factors follow, who loads on them, who says the same."""
    return _drawn(_features(data), _loadings(data), _correlation(data))


def gold_figures(data: ReportData) -> list[Figure]:
    """The aggregates against gold: order, calibration, and errors against the share answered."""
    known = ~np.isnan(data.gold)
    if not known.any():
        return []
    if not is_binary(data.gold):
        return _drawn(_groups(data, known))
    return _drawn(_roc(data, known), _calibration(data, known), _risk_coverage(data, known))


def agreement_figures(data: ReportData) -> list[Figure]:
    """Whether the aggregates agree with one another."""
    return _drawn(_agreement(data))


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


def trend(testset: str, editions: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Order against gold by aggregator, edition by edition; None where there are no two with gold."""
    names = list(dict.fromkeys(name for row in editions for name, value in row["orders"].items() if value is not None))
    if len(editions) < 2 or not names:
        return None
    series = [
        Series(
            name,
            list(range(len(editions))),
            [float("nan") if row["orders"].get(name) is None else row["orders"][name] for row in editions],
        )
        for name in names
    ]
    return line_chart(
        f"trend-{testset}",
        testset,
        "AUC where gold is two classes, else Kendall's tau, of every fit that was made, published or not.",
        series,
        Axes(
            "fit, from the oldest to the latest",
            "order against gold",
            stepped=True,
            names=[row["made at"].replace("T", " ")[:16] for row in editions],
        ),
    )


def nights(testset: str, editions: Sequence[Mapping[str, Any]]) -> Markup:
    """The latest fits of a test set as a sparkline, oldest first: their order against gold, and who read them."""
    shown = editions[-_NIGHTS_IN_A_ROW:]
    known = [row["order"] for row in shown if row["order"] is not None]
    says = f"{testset}: {counted(len(shown), 'fit')}"
    says += f", order against gold {min(known):.3f} to {max(known):.3f}, the latest {known[-1]:.3f}" if known else ""
    unread = sum(row["state"] not in _READ for row in shown)
    says += f"; {unread} never published" if unread else ""
    return sparkline(says, [row["order"] for row in shown], [row["state"] in _READ for row in shown])


def _drawn(*figures: Figure | None) -> list[Figure]:
    return [figure for figure in figures if figure is not None]


def _chart(key: str, title: str, caption: str, series: Sequence[Series], axes: Axes) -> Figure | None:
    """Lines over two axes; None where there are none."""
    return line_chart(key, title, caption, series, axes) if series else None


def _in_groups(values: Array, gold: Array, known: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Mean value and mean gold of equal groups of the items by rising value; none where too few items have both."""
    both = known & ~np.isnan(values)
    if both.sum() < _FEWEST_IN_BINS:
        return []
    order = np.flatnonzero(both)[np.argsort(values[both], kind="stable")]
    groups = np.array_split(order, min(_BINS, len(order) // _BINS))
    return [(float(values[group].mean()), float(gold[group].mean())) for group in groups]


def _groups(data: ReportData, known: NDArray[np.bool_]) -> Figure | None:
    series: list[Series] = []
    for name, aggregate in data.aggregates.items():
        groups = _in_groups(aggregate.estimate, data.gold, known)
        places = [round(100 * (k + 0.5) / len(groups)) for k in range(len(groups))]
        series += [Series(name, places, [gold for _, gold in groups])] if groups else []
    return _chart(
        "gold",
        "Who orders the items as gold does",
        "Items sorted by each aggregate and cut into ten equal groups; the height is the mean gold of a group. "
        "A steeper line orders better; scale plays no part.",
        series,
        Axes("percentile by the aggregate", "mean gold", x_range=(0.0, 100.0)),
    )


def _roc(data: ReportData, known: NDArray[np.bool_]) -> Figure:
    series: list[Series] = []
    for name, aggregate in data.aggregates.items():
        both = known & ~np.isnan(aggregate.estimate)
        positive = data.gold[both] > 0.5
        order = np.argsort(-aggregate.estimate[both], kind="stable")
        last_of_tie = np.append(np.diff(aggregate.estimate[both][order]) != 0, True)
        true = np.cumsum(positive[order])[last_of_tie] / max(positive.sum(), 1)
        false = np.cumsum(~positive[order])[last_of_tie] / max((~positive).sum(), 1)
        kept = _thinned(len(true))
        series.append(Series(name, [0.0, *false[kept].tolist()], [0.0, *true[kept].tolist()]))
    return line_chart(
        "gold",
        "Who orders the items as gold does",
        "ROC curve of each aggregate: the nearer to the upper left corner, the better the order.",
        series,
        Axes("false positive rate", "true positive rate", (0.0, 1.0), (0.0, 1.0), diagonal=True),
    )


def _calibration(data: ReportData, known: NDArray[np.bool_]) -> Figure | None:
    """Draw calibration curves of the aggregates that give probabilities, which takes labels."""
    given = {name: a.p_quality for name, a in data.aggregates.items() if a.p_quality is not None}
    groups = {name: _in_groups(probability, data.gold, known) for name, probability in given.items()}
    series = [Series(name, *zip(*each, strict=True)) for name, each in groups.items() if each]
    return _chart(
        "calibration",
        "Are the probabilities right",
        "Items in ten equal groups by P(Q = 1): the share of gold 1 in a group against its mean probability. "
        "On the dashed line the two are equal.",
        series,
        Axes("mean probability", "share of gold 1", (0.0, 1.0), (0.0, 1.0), diagonal=True),
    )


def _risk_coverage(data: ReportData, known: NDArray[np.bool_]) -> Figure | None:
    """Errors at each aggregate's threshold; the doubt is the one that ``care_ops.metrics.evaluate`` uses."""
    series: list[Series] = []
    for name, aggregate in data.aggregates.items():
        both = known & ~np.isnan(aggregate.estimate)
        if aggregate.threshold is None or both.sum() < _FEWEST_IN_BINS:
            continue
        estimate, positive = aggregate.estimate[both], data.gold[both] > 0.5
        spread = np.ones(len(estimate)) if aggregate.sd is None else aggregate.sd[both]
        sure = np.abs(estimate - aggregate.threshold) / np.where(spread > 0, spread, 1.0)
        wrong = (estimate > aggregate.threshold) != positive
        order = np.argsort(-sure, kind="stable")
        answered = np.arange(1, len(order) + 1)
        risk = np.cumsum(wrong[order]) / answered
        shown = _thinned(len(order))
        shown = shown[shown >= min(_FEWEST_IN_BINS, len(order)) - 1]
        series.append(Series(name, (answered[shown] / len(order)).tolist(), risk[shown].tolist()))
    return _chart(
        "risk",
        "Does doubt find the errors",
        "Error rate among the items that are answered, the surest first. A line that rises to the right says that "
        "leaving out doubtful items avoids errors.",
        series,
        Axes("share of items answered", "error rate", x_range=(0.0, 1.0)),
    )


def _thinned(count: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, _MOST_POINTS).astype(np.intp))


def _numbered(data: ReportData) -> list[str]:
    return [f"{k + 1} {name}" for k, name in enumerate(data.judges)]


def _correlation(data: ReportData) -> Figure | None:
    if data.correlation is None:
        return None
    values = data.correlation[np.ix_(data.judge_order, data.judge_order)]
    numbers = [str(k + 1) for k in range(len(values))]
    return heat_map(
        "correlation",
        "Which judges say the same",
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


def _features(data: ReportData) -> Figure | None:
    rows = data.factors.correlations
    if not any(value is not None for row in rows for value in row):
        return None
    return heat_map(
        "features",
        "What the factors follow in the texts",
        "Spearman correlation of factor scores with features of the response. A correlation describes a "
        "factor; it is no proof of a cause.",
        [feature.replace("_", " ") for feature in data.factors.features],
        [f"factor {k + 1}" for k in range(len(rows))],
        list(zip(*rows, strict=True)),
    )


def _agreement(data: ReportData) -> Figure | None:
    names = list(data.aggregates)
    if len(names) < 2:
        return None
    ours = [data.aggregates[name].estimate for name in names]
    values = [[rank_correlation(x, y) if k != m else 1.0 for m, y in enumerate(ours)] for k, x in enumerate(ours)]
    return heat_map(
        "agreement",
        "Do the aggregates agree",
        "Spearman correlation of the estimates. Where two defensible aggregates part, label a few items "
        "before you trust either.",
        names,
        names,
        values,
        triangle=True,
    )
