"""How good each system of a table is by the standard of people: the judges' answer, corrected by a few labels.

Belongs here: from a table of scores and the labels of a random sample to rates and to a gate's decision. Does not: the
statistics (``care_ops.results.rates``, ``gate``), reading files, options of a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from assets.results.comparison import recommended_answer
from assets.table.fitting import ScoreTable, TableConfig, admit, item_columns, systems_of
from care_ops.errors import InputError
from care_ops.results.gate import Decision, gate
from care_ops.results.rates import Rates, rates_of
from care_ops.scores import Array


@dataclass(frozen=True)
class RandomLabels:
    """Labels of items that were drawn at random.

    Attributes
    ----------
    labels : mapping item -> label
    chances : mapping item -> chance
        With which each was drawn; empty where all had the same.
    """

    labels: Mapping[str, float]
    chances: Mapping[str, float] = field(default_factory=dict[str, float])


def rate_table(
    table: ScoreTable, drawn: RandomLabels, config: TableConfig, *, level: float = 0.9, of_these_items: bool = True
) -> Rates:
    """Rates of the systems that ``config.systems`` names, or of all items as one.

    Raises
    ------
    InputError
        A label is of an item without scores, or is also an anchor; more than one column names systems.
    FitError
        The panel gives no answer, or no system has enough labels.
    """
    sample = _sample(table, drawn, config)
    return rates_of(
        sample.estimate,
        sample.labels,
        sample.systems,
        sample.units,
        sample.chance,
        level=level,
        of_these_items=of_these_items,
        seed=config.fit.seed,
    )


def gate_table(
    table: ScoreTable, drawn: RandomLabels, config: TableConfig, new: str, old: str, *, margin: float, level: float
) -> Decision:
    """A decision about two systems; raises as ``rate_table`` and ``care_ops.results.gate.gate`` do."""
    sample = _sample(table, drawn, config)
    if sample.systems is None:
        raise InputError("a gate compares two systems; name the column of the items that says whose each item is")
    return gate(
        sample.estimate,
        sample.labels,
        sample.systems,
        new,
        old,
        sample.units,
        sample.chance,
        margin=margin,
        level=level,
        seed=config.fit.seed,
    )


@dataclass(frozen=True)
class _Sample:
    """The panel's answer and what was labelled, in the order of the scores; each has n entries."""

    estimate: Array
    labels: Array
    systems: list[str | None] | None
    units: list[str]
    chance: Array


def _sample(table: ScoreTable, drawn: RandomLabels, config: TableConfig) -> _Sample:
    _check(table, drawn, config)
    panel, _ = admit(table, config)
    estimate = recommended_answer(panel, config.fit, table.anchors)
    item_ids = panel.item_ids
    labels = np.array([drawn.labels.get(item, np.nan) for item in item_ids], dtype=np.float64)
    chance = np.array([drawn.chances.get(item, 1.0) for item in item_ids], dtype=np.float64)
    systems: list[str | None] | None = None
    if config.systems:
        systems = [None if names is None else names[0] for names in systems_of(table, config)]
    return _Sample(estimate, labels, systems, item_columns(table).units(), chance)


def _check(table: ScoreTable, drawn: RandomLabels, config: TableConfig) -> None:
    if len(config.systems) > 1:
        raise InputError("rates are of items of one system each; for pairs of systems see `care fit --systems`")
    scored = set(table.scores.item_ids)
    strange = [item for item in drawn.labels if item not in scored]
    if strange:
        raise InputError(f"{len(strange)} label(s) are of items without scores, the first is {strange[0]!r}")
    twice = [item for item in drawn.labels if item in table.anchors.labels]
    if twice:
        raise InputError(
            f"{len(twice)} item(s), the first is {twice[0]!r}, are both anchors and labels; an answer that has seen a "
            "label cannot be corrected by it, so give each label to one of the two"
        )
    unlike = [item for item in drawn.labels if drawn.chances and item not in drawn.chances]
    if unlike:
        raise InputError(f"{len(unlike)} label(s) have no chance, the first is of {unlike[0]!r}; give all or none")
