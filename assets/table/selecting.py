"""Search for the penalties whose estimates agree best with gold, for a table of scores."""

from dataclasses import asdict, dataclass, replace
from typing import Any, cast, get_args

import numpy as np

from assets.table.fitting import ScoreTable, within_scale
from care_ops.admission import check_panel
from care_ops.config import AdmissionRule, FitConfig
from care_ops.errors import InputError
from care_ops.fit import Watch, fit_panel, unwatched
from care_ops.metrics import evaluate
from care_ops.scores import Array, ScoreMatrix
from care_ops.selection import Criterion, Penalised, Selection, select_with_labels, validation_items


@dataclass(frozen=True)
class Choice:
    """Chosen penalties and their evaluation.

    Attributes
    ----------
    selection : Selection
        The searched grid, and its best point.
    measured : list of dict
        Metrics of the chosen penalties, the default penalties and the plain mean, on held-out items.
    """

    selection: Selection
    measured: list[dict[str, Any]]

    @property
    def gamma(self) -> float:
        """Chosen value of the setting ``gamma``."""
        return self.selection.best.config.gamma

    @property
    def tau(self) -> float:
        """Chosen value of the setting ``tau``."""
        return self.selection.best.config.tau


@dataclass(frozen=True)
class Search:
    """Settings of a search for penalties.

    Attributes
    ----------
    criterion : {"order", "error"}
        Metric that selects the penalties: rank agreement with gold (``order``), or error against gold (``error``).
    share : float
        Share of the items whose gold may be used to select the penalties.

    Raises
    ------
    InputError
        The aggregator or the criterion is not a permitted value.
    """

    aggregator: str = "care_svd"
    criterion: str = "order"
    share: float = 0.15

    def __post_init__(self) -> None:
        if self.aggregator not in get_args(Penalised):
            raise InputError(f"aggregator {self.aggregator!r} has no penalties; use {' or '.join(get_args(Penalised))}")
        if self.criterion not in get_args(Criterion):
            raise InputError(f"criterion is {self.criterion!r}; use order or error")


def select_table(table: ScoreTable, search: Search, config: FitConfig, watch: Watch = unwatched) -> Choice:
    """Admit judges of a table, and search the paper's grid of penalties.

    Raises
    ------
    InputError
        The items have no gold.
    FitError
        No point of the grid gives an estimate.
    """
    matrix, _ = within_scale(table.scores, config.scale)
    matrix = matrix.select_judges([check.judge for check in check_panel(matrix, AdmissionRule()) if check.admitted])
    gold = np.array([np.nan if record.gold is None else record.gold for record in table.records])
    units = [r.split_unit or item_id for r, item_id in zip(table.records, matrix.item_ids, strict=True)]
    if np.isnan(gold).all():
        raise InputError(f"{table.readings[-1].source}: no item has gold; add the column `gold` for some of the items")
    may_choose = validation_items(units, search.share, np.random.default_rng(config.seed))
    selection = select_with_labels(
        matrix,
        config,
        np.where(may_choose, gold, np.nan),
        aggregator=cast(Penalised, search.aggregator),
        criterion=cast(Criterion, search.criterion),
        watch=watch,
    )
    return Choice(selection, _on_the_rest(matrix, config, selection, np.where(may_choose, np.nan, gold), watch))


def _on_the_rest(
    scores: ScoreMatrix, config: FitConfig, selection: Selection, gold: Array, watch: Watch
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    tried = (
        (f"{selection.aggregator}, chosen", selection.best.config, selection.aggregator),
        (f"{selection.aggregator}, default", config.structure, selection.aggregator),
        ("avg", config.structure, "avg"),
    )
    for done, (label, at, name) in enumerate(tried):
        watch("measuring the choice", done, len(tried))
        aggregate = fit_panel(scores, replace(config, aggregators=(name,), structure=at)).aggregates[name]
        measured = asdict(evaluate(aggregate.estimate, gold, threshold=aggregate.threshold, scale=None))
        used = selection.labels_used if label.endswith("chosen") else 0
        rows.append({"aggregate": label, "labels": used, **{k: v for k, v in measured.items() if v is not None}})
    return rows
