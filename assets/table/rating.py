"""Pass rates or mean labels of systems, and release gates, from judges' scores corrected by labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np

from assets.labels import read_labels
from assets.results.comparison import label_scale, recommended_estimate
from assets.results.gold import aligned
from assets.table.fitting import ScoreTable, TableConfig, admit, item_columns, systems_of, unnamed_systems
from assets.table.reading import TableInputs, read_table, usual_item
from assets.workspace import Workspace
from care_ops.config import FitConfig
from care_ops.errors import InputError, counted
from care_ops.fit import Watch, unwatched
from care_ops.labels import Drawn, Labels
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import LABELS_TO_SETTLE
from care_ops.results.gate import Decision, gate
from care_ops.results.pairs import Duels
from care_ops.results.rates import LEVEL, Labelled, Rates, Repeats
from care_ops.results.repeats import VarianceSplit, passes_of_tasks, variance_split
from care_ops.results.sequential import rates_at_looks
from care_ops.scores import mean_of_present
from warehouse.sources.files import Report
from warehouse.sources.tables import TableSource
from warehouse.testsets import ReadingOptions, ScoreColumns


def read_rated_table(
    inputs: TableInputs,
    labels: TableSource | Mapping[str, float],
    columns: ScoreColumns,
    reading: ReadingOptions,
    report: Report,
    *,
    drawn: Drawn | None = None,
    systems: Sequence[str] = (),
    cut: float | None = None,
) -> tuple[ScoreTable, Labels, TableConfig]:
    """Read the tables of scores, items and families, and the labels that correct the scores.

    ``drawn`` is how items were sampled if the labels do not state it. Raises ``InputError`` if a table cannot be read,
    or systems are named without a table of items.
    """
    table = read_table(inputs, columns, reading, report)
    if systems and not table.items:
        raise InputError(
            f"--system {systems[0]} names a column of the items table, but --items is missing; give --items with the "
            "table that has this column"
        )
    given = read_labels(labels, usual_item(table.readings[0], columns), reading, report, unstated=drawn)
    return table, given, TableConfig(fit=FitConfig(cut=cut), systems=tuple(systems))


class RatingOptions(TypedDict, total=False):
    """Options of rates and gates.

    Attributes
    ----------
    level : float
        Confidence level of the intervals, .9 by default.
    population : bool
        Whether rates are for future items instead of the items in the table; gates are always for future items.
    sequential : bool
        Whether intervals stay valid if they are computed repeatedly while labels arrive; this makes them wider.
    label_bounds : (low, high)
        Lowest and highest possible label, for sequential intervals and pairs; by default 0 and 1.
    pass_k : int
        Number of runs of a system on one task (``split_unit``) that must all pass; by default 1.
    """

    level: float
    population: bool
    sequential: bool
    label_bounds: tuple[float, float] | None
    pass_k: int


def rate_table(
    table: ScoreTable, labels: Labels, config: TableConfig, watch: Watch = unwatched, **options: Unpack[RatingOptions]
) -> Rates:
    """Estimate the rate of each system (its win rate if items are pairs), or of all items if no column names systems.

    Raises ``InputError`` if the labels or the systems cannot be used, and ``FitError`` if there is no estimate or there
    are too few labels.
    """
    watch("fitting the panel", 0, 2)
    sample = _sample(table, labels, config, options)
    watch("rates", 1, 2)
    target = not options.get("population", False)
    common: dict[str, Any] = {"level": options.get("level", LEVEL), "of_these_items": target, "seed": config.fit.seed}
    return replace(sample, **common).rates() if isinstance(sample, Duels) else rates_at_looks(sample, **common)


def gate_table(
    table: ScoreTable,
    labels: Labels,
    config: TableConfig,
    new: str,
    old: str,
    *,
    margin: float,
    watch: Watch = unwatched,
    **options: Unpack[RatingOptions],
) -> Decision:
    """Decide whether a new system is worse than an old one by more than ``margin``.

    Raises ``InputError`` for unusable labels, systems or settings; ``FitError`` for no estimate or too few labels.
    """
    if not config.systems:
        raise InputError("a gate compares two systems; use --system to name the column that contains them")
    watch("fitting the panel", 0, 2)
    sample = _sample(table, labels, config, options)
    watch("comparing the systems", 1, 2)
    return gate(sample, new, old, margin=margin, level=options.get("level", LEVEL), seed=config.fit.seed)


_BY_CHANCE, _PLAIN = 3.0, 0.3
"""Multiple of the standard error, and minimum size, from which a negative rank correlation is reported."""


def _sample(table: ScoreTable, labels: Labels, config: TableConfig, options: RatingOptions) -> Labelled:
    named, paired = systems_of(table, config), len(config.systems) == 2
    bounds, sequential = options.get("label_bounds"), options.get("sequential", False)
    check_labels(table, labels)
    if paired:
        labels = labels.as_shares(bounds or label_scale(labels.values.values(), config.fit.scale))
    elif bounds is not None and not sequential:
        raise InputError("--label-bounds is only for --sequential and for pairs; remove --label-bounds")
    panel, _ = admit(table, config)
    estimate = recommended_estimate(panel, config.fit, table.labels)
    item_ids = panel.item_ids
    chance = np.array([labels.sample.get(item, 1.0) for item in item_ids], dtype=np.float64)
    if sequential and len(set(chance.tolist())) > 1:
        raise InputError(
            "--sequential needs a simple random sample, but these items were drawn with different probabilities; "
            "remove --sequential"
        )
    row_of = {item: row for row, item in enumerate(item_ids)}
    given = labels.first if sequential else labels.values  # a confidence sequence uses each item's first label
    usable = {item: value for item, value in given.items() if item in labels.sample and item in row_of}
    sample = Labelled(
        estimate,
        aligned(item_ids, usable),
        [names[0] if names else None for names in named] if len(config.systems) == 1 else None,
        item_columns(table).units(),
        chance,
        Repeats(np.array([labels.counts.get(item, 1.0) for item in item_ids], dtype=np.float64), labels.binary),
        [row_of[item] for item in usable] if sequential else None,
        bounds,
    )
    if (k := options.get("pass_k", 1)) != 1:
        if hint := unnamed_systems(table, config):
            raise InputError(f"pass^{k} needs the system of each run: {hint}")
        if paired or sequential:
            raise InputError(
                f"pass^{k} works only for single answers and without --sequential; leave out --sequential, or name "
                "one system column"
            )
        return passes_of_tasks(sample, item_columns(table).units(), k)
    return Duels(**vars(sample), pairs=named) if paired else sample


def score_variance(table: ScoreTable, config: TableConfig) -> VarianceSplit | None:
    """Estimate variance components of the scores; return None if items are pairs, or if no task has several runs."""
    tasks = item_columns(table).units()
    if len(config.systems) == 2 or unnamed_systems(table, config):
        return None
    owners = [names[0] if names else None for names in systems_of(table, config)]
    if len({*zip(owners, tasks, strict=True)}) == len(tasks) or len({*tasks}) < 2 or len(table.scores.judges) < 2:
        return None
    return variance_split(table.scores.values, owners, tasks, seed=config.fit.seed)


def workspace_table(
    workspace: Workspace, testset: str, columns: tuple[str, ...] = ()
) -> tuple[ScoreTable, TableConfig]:
    """Return a test set's panel as a table, and the settings of the fit."""
    systems = workspace.systems_of(testset, columns)
    scores = workspace.fit_folder(testset).read_panel()
    records = {record.item_id: record for record in workspace.parts.read_items(testset)}
    config = TableConfig(workspace.fit_config(testset), workspace.admission, systems=systems)
    return ScoreTable(testset, scores, records), config


def contradiction_of_labels(table: ScoreTable, labels: Labels, config: TableConfig) -> str | None:
    """Return a warning if labels contradict the mean of the judges, for example because 1 means bad."""
    mean, given = mean_of_present(table.scores.values, axis=1), aligned(table.scores.item_ids, labels.values)
    count = int((~np.isnan(mean) & ~np.isnan(given)).sum())
    if count < LABELS_TO_SETTLE or len(config.systems) == 2:
        return None
    found = rank_correlation(mean, given)
    if not found <= -max(_BY_CHANCE / np.sqrt(count), _PLAIN):
        return None
    return (
        f"the labels contradict the judges (rank correlation {found:+.2f} over {count} items); check that a higher "
        "label means a better answer, and that each label belongs to its item"
    )


def pair_reading(table: ScoreTable, config: TableConfig) -> str | None:
    """Explain which answer of a pair a high score favours; return None if the items are not pairs."""
    if len(config.systems) != 2:
        return None
    pairs = [pair for pair in systems_of(table, config) if pair is not None and pair[0] != pair[1]]
    met, left = Counter(name for pair in pairs for name in pair), Counter(pair[0] for pair in pairs)
    most = ", ".join(f"{name} in {left[name]} of {count}" for name, count in met.most_common(4))
    return (
        f"{len(pairs)} pairs: a higher score or label means that the answer of {config.systems[0]!r}, the left one, is "
        f"better; on the left are {most}{', ...' if len(met) > 4 else ''}"
    )


def check_labels(table: ScoreTable, labels: Labels) -> None:
    """Raise ``InputError`` if labels belong to unknown items, were used by the fit, or are not a random sample."""
    scored = set(table.scores.item_ids)
    if unknown := [item for item in labels.values if item not in scored]:
        called = f"; the first item with scores is {table.scores.item_ids[0]!r}; correct the ids or remove these labels"
        raise InputError(f"no scores for {counted(len(unknown), 'labelled item')}, such as {unknown[0]!r}{called}")
    if twice := [item for item in labels.values if item in table.labels.labels]:
        raise InputError(
            f"--labels and --fit-labels share {counted(len(twice), 'item')}, such as {twice[0]!r}; a label that the "
            "fit has used cannot correct the fit, so give each label to only one of the two options"
        )
    if not labels.values:
        raise InputError("there are no labels yet; fill in the column `label` of the file, for ten items or more")
    if not labels.sample:
        raise InputError(
            f"all {len(labels.values)} labelled items were chosen with an unknown probability, so they may not "
            "represent the other items; label items drawn at random, or give each item's sampling `probability`"
        )
