"""The first screen of a page: one picture of the reason for its verdict, and the judge weights."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.stats import rankdata

from assets.report.cards import JudgeCard
from assets.report.charts import Axes, Dot, Figure, Ranked, Series, domain, line_chart, ranked_list, scatter, shortened
from assets.report.data import ReportData
from assets.report.items import ItemRow
from care_ops.results.interpret import counted
from care_ops.results.reasons import feature_in_words
from care_ops.results.verdict import Verdict
from care_ops.scores import Array

_MOST_DOTS = 500
"""Items that a picture shows; of more, those to label and an even sample of the ranking."""

_MOST_INTERVALS = 60
_LEVELS = 5
_TEXT_SHOWN = 80
_JUDGES_SHOWN = 12


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
    to_label = {*data.items_to_label}
    ringed = np.array([data.scores.item_ids[k] in to_label for k in known])
    spread = np.argsort(ranks[0], kind="stable")[np.linspace(0, len(known) - 1, _MOST_DOTS).astype(int)]
    shown = np.arange(len(known)) if len(known) <= _MOST_DOTS else np.union1d(spread, np.flatnonzero(ringed))
    dots = [
        Dot(
            float(ranks[0][k]),
            float(ranks[1][k]),
            int(levels[k]),
            bool(ringed[k]),
            shortened(f"{data.scores.item_ids[known[k]]}: {data.responses[known[k]] or ''}", _TEXT_SHOWN),
        )
        for k in shown
    ]
    caption = f"Each dot is an item; {int(far.sum()):,} of {len(known):,} differ by more than 25 places of 100."
    axes = Axes(f"rank, {one} (100 is best)", f"rank, {other}", (0.0, 100.0), (0.0, 100.0), diagonal=True)
    return scatter("first", "Where the two rankings disagree", caption, dots, axes, legend)


def _levels(data: ReportData, known: NDArray[np.intp]) -> tuple[Array, tuple[str, str, str]]:
    """Return a shade for each item by the feature that separates the estimates, and a legend."""
    feature = None if data.care is None else data.care.differing_feature
    values = counted(data.responses).get(feature or "")
    if feature is None or values is None:
        return np.full(len(known), _LEVELS - 1), ("", "", "label these first")
    place = rankdata(np.nan_to_num(values[known], nan=-np.inf), method="average") / len(known)
    levels = np.minimum((place * _LEVELS).astype(int), _LEVELS - 1)
    return levels, (f"{feature_in_words(feature)}: few", "many", "label these first")


def _ranked(data: ReportData, rows: Sequence[ItemRow]) -> Figure:
    """Draw the items by rank, with intervals; an even sample if there are many."""
    places = np.unique(np.linspace(0, max(len(rows) - 1, 0), _MOST_INTERVALS).astype(int)) if rows else []
    shown = [rows[k] for k in places]
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
