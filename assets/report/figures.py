"""The drawings of a page: items by rank, judge weights, systems, and the correlation of judges."""

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


def correlation_map(data: ReportData) -> Figure | None:
    """Draw the correlation of the judges' scores; None if it is undefined."""
    if data.correlation is None:
        return None
    return heat_map(
        "correlation",
        "Which judges agree",
        "Correlation of the judges' scores. Judges stand in the order of their cards and columns carry their numbers. "
        "Blue is agreement, orange opposition.",
        [f"{k + 1} {name}" for k, name in enumerate(data.judges)],
        [str(k + 1) for k in range(len(data.judges))],
        data.correlation[np.ix_(data.judge_order, data.judge_order)].tolist(),
        triangle=True,
    )


def picture(data: ReportData, rows: Sequence[ItemRow], systems: tuple[str, Markup] | None) -> Figure:
    """Draw the systems, a heading and a drawing, if there are any; otherwise the items, best first."""
    if systems is not None:
        heading, drawn = systems
        return Figure("first", "Systems, with 90 % intervals", f"{heading}.", drawn)
    return _ranked(data, rows)


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
    return line_chart("first", title, f"Best first; {some}.", [series], "rank", "score")


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
    if card.follows is None:
        return ""
    feature, correlation = card.follows
    return f"{'↑' if correlation >= 0 else '↓'} {feature.replace('_', ' ')}"
