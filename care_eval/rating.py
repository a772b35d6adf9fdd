"""Functions that estimate rates of systems and decide on releases, from tables of scores and labels."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, get_type_hints

from assets.table.fitting import ScoreTable, TableConfig
from assets.table.options import names_of
from assets.table.rating import RatingOptions, gate_table, rate_table, read_rated_table
from assets.table.reading import TableInputs, score_columns
from care_eval.table import Columns, as_table, in_python, refuse_unknown
from care_ops.labels import Labels
from care_ops.results.gate import Decision
from care_ops.results.rates import Rates
from care_ops.scales import Scale
from warehouse.sources.files import ignore_reading
from warehouse.sources.tables import TableSource
from warehouse.testsets import ReadingOptions


class RateOptions(RatingOptions, total=False):
    """Keyword arguments of ``rate`` and ``gate``, in addition to those of ``assets.table.rating.RatingOptions``.

    Attributes
    ----------
    drawn : "random"
        How the labelled items were drawn; required if ``labels`` does not state how each item was drawn.
    items : path, frame or mapping column -> values
        Table of items with their ids, the column that names the system, and ``split_unit``.
    system : str or (left, right)
        Column that names the system; by default, all items belong to one system. For pairs, give the columns of both
        systems: a high score or label favours the left system, and a rate is the share of wins.
    fit_labels : path, frame or mapping item -> label
        Labels that the fit uses, on items without an entry in ``labels``.
    judges, item, judge, score, drop, scale, scales :
        See ``fit``.
    """

    drawn: Literal["random"] | None
    items: TableSource | Columns | None
    system: str | Sequence[str] | None
    judges: TableSource | Mapping[str, str] | None
    fit_labels: TableSource | Mapping[str, float] | None
    item: str | None
    judge: str | Sequence[str] | None
    score: str | None
    drop: str | Sequence[str] | None
    scale: Scale | None
    scales: Mapping[str, Scale] | None


@in_python
def rate(
    scores: TableSource | Columns, labels: TableSource | Mapping[str, float], **options: Unpack[RateOptions]
) -> Rates:
    """Estimate each system's pass rate or mean label with an interval, as ``care rate`` does.

    Parameters
    ----------
    scores : path, frame or mapping column -> values
        See ``fit``.
    labels : path, frame or mapping item -> label
        Human labels of some items; the fit does not use them. A table states how each item was drawn
        (columns ``drawn``, ``probability``; docs/labels.md).
    **options :
        See ``RateOptions``.

    Raises
    ------
    InputError
        A table cannot be used, it is not stated how labels were drawn, or a labelled item is also in ``fit_labels`` or
        has no score.
    FitError
        The panel has no estimate, or no system has enough labels.
    """
    refuse_unknown("rate", options, get_type_hints(RateOptions))
    table, given, config = _read(scores, labels, options)
    return rate_table(table, given, config, **_rating(options))


@in_python
def gate(
    scores: TableSource | Columns,
    new: str,
    against: str,
    labels: TableSource | Mapping[str, float],
    *,
    margin: float = 0.0,
    **options: Unpack[RateOptions],
) -> Decision:
    """Decide whether a system is better or worse than another, as ``care gate`` does.

    Parameters
    ----------
    new, against : str
        The system to release, and the system to compare it with.
    margin : float
        Non-inferiority margin, fixed in advance: a difference in pass rate, mean label or (for pairs) share of wins.
    scores, labels, **options :
        See ``rate``; the gate compares rates on future items.

    Raises
    ------
    InputError
        ``rate`` would reject the input, a system has no labels, the systems are the same, or no pair compares them.
    FitError
        The panel has no estimate.
    """
    refuse_unknown("gate", options, [*get_type_hints(RateOptions), "margin"])
    table, given, config = _read(scores, labels, options)
    return gate_table(table, given, config, new, against, margin=margin, **_rating(options))


def _read(scores: TableSource | Columns, labels: Any, options: RateOptions) -> tuple[ScoreTable, Labels, TableConfig]:
    columns = score_columns(
        options.get("item"), names_of(options.get("judge")), options.get("score"), names_of(options.get("drop"))
    )
    tables = as_table(scores, "scores"), as_table(options.get("items"), "items")
    given = options.get("judges"), options.get("fit_labels"), options.get("scale"), options.get("scales")
    inputs = TableInputs(*tables, *given)
    systems, drawn = names_of(options.get("system")), options.get("drawn")
    return read_rated_table(inputs, labels, columns, ReadingOptions(), ignore_reading, drawn=drawn, systems=systems)


def _rating(options: RateOptions) -> RatingOptions:
    return {name: value for name, value in options.items() if name in RatingOptions.__annotations__}  # type: ignore[return-value]
