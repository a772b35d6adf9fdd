"""The drawings of a page: one picture of the reason for its verdict, judge weights, systems and figures."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.stats import rankdata

from assets.report.cards import JudgeCard
from assets.report.charts import (
    Axes,
    Dot,
    Figure,
    Ranked,
    Series,
    domain,
    heat_map,
    line_chart,
    ranked_list,
    scatter,
    shortened,
)
from assets.report.data import ReportData
from assets.report.items import ItemRow
from care_ops.results.interpret import counted
from care_ops.results.reasons import feature_in_words
from care_ops.results.verdict import Verdict
from care_ops.samples import spread_rows
from care_ops.scores import Array

_GROUPS, _FEWEST_IN_GROUPS = 10, 20

_MOST_DOTS = 500
"""Items that a picture shows; of more, an even sample of the ranking."""

_MOST_INTERVALS = 60
_LEVELS = 5
_TEXT_SHOWN = 80
_JUDGES_SHOWN = 12


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


def picture(data: ReportData, verdict: Verdict, rows: Sequence[ItemRow], systems: tuple[str, Markup] | None) -> Figure:
    """Draw the rival estimates if they differ; otherwise the systems; otherwise the ranked items.

    Rows are best first; ``systems`` are a heading and a drawing.
    """
    if verdict.pill != "Use" and len(data.rivals) == 2 and data.care and data.care.concerns and (part := _rivals(data)):
        return part
    if systems is not None:
        heading, drawn = systems
        return Figure("first", "Systems, with 90 % intervals", f"{heading}.", drawn)
    return _ranked(data, rows)


def _rivals(data: ReportData) -> Figure | None:
    """Draw items by their ranks in two rival estimates, shaded by the feature that separates these; or None."""
    first, second = data.rivals.values()
    one, other = (name.replace("_", " ") for name in data.rivals)
    known = np.flatnonzero(~np.isnan(first) & ~np.isnan(second))
    ranks = [100.0 * rankdata(answer[known]) / len(known) for answer in (first, second)]
    far = np.abs(ranks[0] - ranks[1]) > 25.0
    if not far.any():
        return None
    levels, legend = _levels(data, known)
    places = spread_rows(len(known), _MOST_DOTS)
    dots = [
        Dot(
            float(ranks[0][k]),
            float(ranks[1][k]),
            int(levels[k]),
            shortened(f"{data.scores.item_ids[known[k]]}: {data.responses[known[k]] or ''}", _TEXT_SHOWN),
        )
        for k in map(int, np.argsort(ranks[0], kind="stable")[places])
    ]
    caption = f"Each dot is an item; {int(far.sum()):,} of {len(known):,} differ by more than 25 places of 100."
    axes = Axes(f"rank, {one} (100 is best)", f"rank, {other}", (0.0, 100.0), (0.0, 100.0), diagonal=True)
    return scatter("first", "Where the two rankings disagree", caption, dots, axes, legend)


def _levels(data: ReportData, known: NDArray[np.intp]) -> tuple[Array, tuple[str, ...]]:
    """Return a shade for each item by the feature that separates the estimates, and a legend."""
    feature = None if data.care is None else data.care.differing_feature
    values = counted(data.responses).get(feature or "")
    if feature is None or values is None:
        return np.full(len(known), _LEVELS - 1), ()
    place = rankdata(np.nan_to_num(values[known], nan=-np.inf), method="average") / len(known)
    levels = np.minimum((place * _LEVELS).astype(int), _LEVELS - 1)
    return levels, (f"{feature_in_words(feature)}: few", "many")


def _ranked(data: ReportData, rows: Sequence[ItemRow]) -> Figure:
    """Draw the items by rank, with intervals; an even sample if there are many."""
    shown = [rows[k] for k in spread_rows(len(rows), _MOST_INTERVALS)]
    some = f"{len(shown)} of them, evenly spread" if len(shown) < len(rows) else "all of them"
    has = shown and shown[0].lo is not None
    series = Series(
        data.lead or "none",
        [row.rank for row in shown],
        [row.estimate for row in shown],
        [row.lo or 0.0 for row in shown] if has else (),
        [row.hi or 0.0 for row in shown] if has else (),
    )
    title = "Items ranked, with 90 % intervals" if has else "Items ranked"
    return line_chart("first", title, f"Best first; {some}.", [series], Axes("rank", "score"))


def trusted(cards: Sequence[JudgeCard]) -> Markup:
    """Draw the judge weights by family, each with its interval and the feature that it follows."""
    panel = [card for card in cards if card.weight.weight is not None]
    shown = sorted(panel, key=lambda card: -abs(card.weight.weight or 0.0))[:_JUDGES_SHOWN]
    families: dict[str, list[JudgeCard]] = {}
    for card in shown:
        families.setdefault(card.family or "", []).append(card)
    several = {name: group for name, group in families.items() if name and len(group) > 1}
    single = [card for card in shown if card.family not in several]
    ranks = ranked_judges(shown)
    low, high = domain([*ranks.values()])
    scale = (min(low, 0.0), max(high, 0.0))  # the lengths of bars are the weights
    groups = [(Markup("<h3>Family {}</h3>").format(name), group) for name, group in several.items()]
    groups += [(Markup("<h3>On their own</h3>" if groups else ""), single)] if single else []
    groups.sort(key=lambda group: -max(abs(card.weight.weight or 0.0) for card in group[1]))
    parts = [
        heading + ranked_list([ranks[card.check.judge] for card in group], "weight", scale) for heading, group in groups
    ]
    if len(shown) < len(panel):
        parts.append(Markup(f'<p class="soft"><a href="#judges">{len(panel) - len(shown)} more judges</a></p>'))
    return Markup("").join(parts)


def ranked_judges(cards: Sequence[JudgeCard]) -> dict[str, Ranked]:
    """Return each judge's weight, if it has one, with its interval and the feature that it follows."""
    return {
        (judge := card.check.judge): Ranked(judge, cell.weight, cell.lo, cell.hi, _moved_by(card))
        for card in cards
        if (cell := card.weight).weight is not None
    }


def _moved_by(card: JudgeCard) -> str:
    """Name the text feature that a judge follows, with an arrow for the direction; empty without one."""
    follows = card.follows
    if follows is None or follows.feature is None or follows.correlation is None:
        return ""
    return f"{'↑' if follows.correlation >= 0 else '↓'} {follows.feature.replace('_', ' ')}"
