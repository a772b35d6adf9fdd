"""Rates of systems, a gate between two of them, and penalties by labels, of tables that a caller has at hand."""

from collections.abc import Mapping, Sequence
from typing import Literal

from assets.labels import read_labels
from assets.table.fitting import ScoreTable, TableConfig
from assets.table.options import names_of
from assets.table.rating import Method, gate_table, rate_table
from assets.table.reading import TableInputs, read_table, score_columns, usual_item
from assets.table.selecting import Choice, Search, select_table
from care_eval.table import Columns, as_table, in_python
from care_ops.config import FitConfig
from care_ops.labels import Labels
from care_ops.results.gate import Decision
from care_ops.results.rates import Rates
from warehouse.sources.files import tell_nobody
from warehouse.sources.tables import TableSource
from warehouse.testsets import ReadingOptions, ScoreColumns


@in_python
def rate(
    scores: TableSource | Columns,
    labels: TableSource | Mapping[str, float],
    *,
    drawn: Literal["random"] | None = None,
    items: TableSource | Columns | None = None,
    system: str | Sequence[str] | None = None,
    judges: TableSource | Mapping[str, str] | None = None,
    anchors: TableSource | Mapping[str, float] | None = None,
    population: bool = False,
    level: float = 0.9,
    sequential: bool = False,
    label_bounds: tuple[float, float] | None = None,
    item: str | None = None,
    judge: str | Sequence[str] | None = None,
    score: str | None = None,
    drop: str | Sequence[str] | None = None,
) -> Rates:
    """Each system's pass rate or mean label with an interval, as ``care rate`` prints them.

    Parameters
    ----------
    scores, judges, anchors, item, judge, score, drop :
        See ``fit``.
    labels : path, frame or mapping item -> label
        Labels of people on some of the items, which no fit sees. A table says how each item was drawn (columns
        ``drawn``, ``probability``; docs/labels.md).
    drawn : "random", optional
        Says so of labels that do not say it, as those of a mapping; without it these are refused.
    items : path, frame or mapping column -> values, optional
        The item's id, the column that names its system, and ``split_unit``.
    system : str or (left, right), optional
        That column; without it all items are one system. Of pairs those of the left system, which a higher score or
        label prefers, and of the right one, and rates are shares of wins.
    population : bool
        Whether the rates are of items to come, and not of these.
    level : float
        Of the intervals.
    sequential : bool
        Whether intervals hold however often one looks while labels come in; they are wider.
    label_bounds : (lo, hi), optional
        For these and for pairs: between which a label must lie; by default 0 and 1.

    Raises
    ------
    InputError
        A table cannot be used, labels do not say how they were drawn, or one is of an anchor or has no scores.
    FitError
        The panel gives no answer, or no system has enough labels.
    """
    inputs = TableInputs(as_table(scores, "scores"), as_table(items, "items"), judges, anchors)
    return rate_table(
        *_with_labels(inputs, score_columns(item, names_of(judge), score, names_of(drop)), labels, drawn),
        TableConfig(systems=names_of(system)),
        level=level,
        of_these_items=not population,
        sequential=sequential,
        label_bounds=label_bounds,
    )


@in_python
def gate(
    scores: TableSource | Columns,
    new: str,
    against: str,
    labels: TableSource | Mapping[str, float],
    *,
    drawn: Literal["random"] | None = None,
    items: TableSource | Columns | None = None,
    system: str | Sequence[str],
    judges: TableSource | Mapping[str, str] | None = None,
    anchors: TableSource | Mapping[str, float] | None = None,
    margin: float = 0.0,
    method: Method = "ppi",
    cut: float | None = None,
    level: float = 0.9,
    sequential: bool = False,
    label_bounds: tuple[float, float] | None = None,
    item: str | None = None,
    judge: str | Sequence[str] | None = None,
    score: str | None = None,
    drop: str | Sequence[str] | None = None,
) -> Decision:
    """Whether a system is better or worse than another, or undecided, as ``care gate`` decides; ask ``.passes``.

    Parameters
    ----------
    new, against : str
        The system that is to be released, and the one that it is compared with.
    margin : float
        Loss that is let pass, in units of the labels, of pairs in shares of wins; fix it before you look.
    method : {"ppi", "rogan-gladen"}
        How labels correct the judges; the second goes by the judges' errors on each system, and needs ``cut``.
    cut : float, optional
        An answer above it passes.
    scores, labels, drawn, items, system, judges, anchors, level, sequential, label_bounds, item, judge, score, drop :
        See ``rate``.

    Raises
    ------
    InputError
        As ``rate``, or a system has no labels, or the two are one, or never met in a pair.
    FitError
        The panel gives no answer.
    """
    inputs = TableInputs(as_table(scores, "scores"), as_table(items, "items"), judges, anchors)
    return gate_table(
        *_with_labels(inputs, score_columns(item, names_of(judge), score, names_of(drop)), labels, drawn),
        TableConfig(fit=FitConfig(cut=cut), systems=names_of(system)),
        new,
        against,
        margin=margin,
        level=level,
        method=method,
        sequential=sequential,
        label_bounds=label_bounds,
    )


@in_python
def select(
    scores: TableSource | Columns,
    items: TableSource | Columns,
    *,
    aggregator: Literal["care_svd", "care_tensor"] = "care_svd",
    criterion: Literal["order", "error", "likelihood"] = "order",
    share: float = 0.15,
    split: str | None = None,
    cut: float | None = None,
    seed: int = 0,
    item: str | None = None,
    judge: str | Sequence[str] | None = None,
    score: str | None = None,
    drop: str | Sequence[str] | None = None,
) -> Choice:
    """Penalties for ``care_svd`` or ``care_tensor``, as ``care select`` chooses them.

    ``fit(scores, gamma=choice.gamma, tau=choice.tau)`` uses them; ``choice.measured`` says how they fare on the items
    whose labels chose nothing.

    Parameters
    ----------
    items : path, frame or mapping column -> values
        The item's id, its ``gold`` for the criteria that need labels, and ``split_unit``.
    aggregator, criterion, share, split :
        See ``assets.table.selecting.Search``.
    cut : float, optional
        A score above it is a vote for Q = 1.
    seed : int
        Of the split.
    scores, item, judge, score, drop :
        See ``fit``.

    Raises
    ------
    InputError
        A table cannot be used, or there is no gold and the criterion needs it.
    FitError
        No point of the grid gives an answer.
    """
    return select_table(
        as_table(scores, "scores"),
        as_table(items, "items"),
        Search(aggregator, criterion, share, split),
        FitConfig(cut=cut, seed=seed),
        score_columns(item, names_of(judge), score, names_of(drop)),
        ReadingOptions(),
        tell_nobody,
    )


def _with_labels(
    inputs: TableInputs,
    columns: ScoreColumns,
    labels: TableSource | Mapping[str, float],
    drawn: Literal["random"] | None,
) -> tuple[ScoreTable, Labels]:
    """The tables, and the labels of a table or of a mapping, with how their items were drawn."""
    table, options = read_table(inputs, columns, ReadingOptions(), tell_nobody), ReadingOptions()
    return table, read_labels(labels, usual_item(table.readings[0], columns), options, unstated=drawn)
