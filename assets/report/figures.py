"""Charts of a page: items by rank, judge weights, systems, and correlations of judges."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from assets.report.cards import JudgeCard
from assets.report.charts import Figure, Ranked, Series, domain, heat_map, line_chart, ranked_list
from assets.report.data import ReportData
from assets.report.items import ItemRow
from care_ops.samples import spread_rows

_MOST_INTERVALS = 60
_JUDGES_SHOWN = 12


def system_list(data: ReportData) -> tuple[str, Markup] | None:
    """Return a heading and a ranked list of the systems, best first; None if there are no systems.

    The list shows each system's value if labels provide intervals; otherwise its difference from the best system.
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
    heading = "Difference from the best system (at zero)"
    return (heading, ranked_list(ranks, "difference from the best")) if ranks else None


def correlation_map(data: ReportData) -> Figure | None:
    """Return a heat map of the correlations of the judges' scores; None if the correlations are undefined."""
    if data.correlation is None:
        return None
    return heat_map(
        "correlation",
        "Which judges agree",
        "Correlation of the judges' scores. The rows are in the order of the judges on this page; the columns are "
        "numbered in the same order. Blue is a positive correlation, orange a negative one.",
        [f"{k + 1} {name}" for k, name in enumerate(data.judges)],
        [str(k + 1) for k in range(len(data.judges))],
        data.correlation[np.ix_(data.judge_order, data.judge_order)].tolist(),
        triangle=True,
    )


def ranked_items(data: ReportData, rows: Sequence[ItemRow]) -> Figure:
    """Render the items by rank with intervals; if there are many items, show an evenly spaced sample."""
    shown = [rows[k] for k in spread_rows(len(rows), _MOST_INTERVALS)]
    some = f"{len(shown)} items, evenly spaced by rank" if len(shown) < len(rows) else "all items"
    has = shown and shown[0].lo is not None
    series = Series(
        data.lead or "none",
        [row.rank for row in shown],
        [row.estimate for row in shown],
        [row.lo or 0.0 for row in shown] if has else (),
        [row.hi or 0.0 for row in shown] if has else (),
    )
    title = "Items ranked, with 90 % intervals" if has else "Items ranked"
    return line_chart("first", title, f"Best first; {some}.", [series], "rank", "score")


def judge_weights(cards: Sequence[JudgeCard]) -> Markup:
    """Render the largest judge weights with intervals, and the feature most correlated with each judge's scores."""
    ranks = [
        Ranked(card.check.judge, card.weight.weight, card.weight.lo, card.weight.hi, _moved_by(card))
        for card in cards
        if card.weight.weight is not None
    ]
    shown = sorted(ranks, key=lambda rank: -abs(rank.value))[:_JUDGES_SHOWN]
    low, high = domain(shown)
    drawn = ranked_list(shown, "weight", (min(low, 0.0), max(high, 0.0)))  # the lengths of bars are the weights
    if len(shown) < len(ranks):
        drawn += Markup(f'<p class="soft"><a href="#judges">{len(ranks) - len(shown)} more judges</a></p>')
    return drawn


def _moved_by(card: JudgeCard) -> str:
    if card.follows is None:
        return ""
    feature, correlation = card.follows
    return f"{'↑' if correlation >= 0 else '↓'} {feature.replace('_', ' ')}"
