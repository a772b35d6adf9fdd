"""How good each system of a table is by the standard of people: the judges' answer, corrected by a few labels.

Belongs here: from a table of scores and the labels of a random sample to rates and to a gate's decision. Belongs
elsewhere: the statistics (``care_ops.results.rates``, ``gate``), reading files, options of a command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from assets.results.comparison import recommended_answer
from assets.table.fitting import ScoreTable, TableConfig, Watch, admit, item_columns, systems_of, unwatched
from care_ops.errors import InputError
from care_ops.labels import Labels
from care_ops.results.gate import Decision, gate, rogan_gladen
from care_ops.results.rates import Rates, Repeats, rates_of
from care_ops.results.sequential import sequential_gate, sequential_rates
from care_ops.scores import Array

if TYPE_CHECKING:
    from assets.workspace import Workspace


Method = Literal["ppi", "rogan-gladen"]
"""How a gate corrects the judges: by a regression of labels on the answer, or by the judges' error rates."""


@dataclass(frozen=True)
class Sequential:
    """Asks for intervals that hold however often one looks.

    Attributes
    ----------
    bounds : (lo, hi), optional
        Between which a label must lie; needed where labels are not 0 and 1.
    """

    bounds: tuple[float, float] | None = None


def rate_table(
    table: ScoreTable,
    labels: Labels,
    config: TableConfig,
    *,
    level: float = 0.9,
    of_these_items: bool = True,
    sequential: Sequential | None = None,
    watch: Watch = unwatched,
) -> Rates:
    """Rates of the systems that ``config.systems`` names, or of all items as one.

    Raises
    ------
    InputError
        A label is of an item without scores, or is also an anchor; more than one column names systems; the labels
        allow no confidence sequence.
    FitError
        The panel gives no answer, or no system has enough labels.
    """
    watch("fitting the panel", 0, 2)
    sample = _sample(table, labels, config)
    watch("rates", 1, 2)
    if sequential is not None:
        return sequential_rates(
            sample.estimate,
            *_stream(sample),
            sample.systems,
            sample.units,
            bounds=sequential.bounds,
            level=level,
            of_these_items=of_these_items,
            seed=config.fit.seed,
        )
    return rates_of(
        sample.estimate,
        sample.labels,
        sample.systems,
        sample.units,
        sample.chance,
        sample.repeats,
        level=level,
        of_these_items=of_these_items,
        seed=config.fit.seed,
    )


def gate_table(
    table: ScoreTable,
    labels: Labels,
    config: TableConfig,
    new: str,
    old: str,
    *,
    margin: float,
    level: float,
    method: Method = "ppi",
    sequential: Sequential | None = None,
    watch: Watch = unwatched,
) -> Decision:
    """A decision about two systems; raises as ``rate_table`` and the gates of ``care_ops.results.gate`` do."""
    if sequential is not None and method != "ppi":
        raise InputError("rogan-gladen gives intervals for one look; a confidence sequence is there for ppi alone")
    watch("fitting the panel", 0, 2)
    sample = _sample(table, labels, config)
    watch("comparing the systems", 1, 2)
    if sample.systems is None:
        raise InputError("a gate compares two systems; name the column of the items that says whose each item is")
    if method == "rogan-gladen":
        return _by_error_rates(sample, config, new, old, margin=margin, level=level)
    if sequential is not None:
        return sequential_gate(
            sample.estimate,
            *_stream(sample),
            sample.systems,
            new,
            old,
            sample.units,
            bounds=sequential.bounds,
            margin=margin,
            level=level,
            seed=config.fit.seed,
        )
    return gate(
        sample.estimate,
        sample.labels,
        sample.systems,
        new,
        old,
        sample.units,
        sample.chance,
        sample.repeats,
        margin=margin,
        level=level,
        seed=config.fit.seed,
    )


def _by_error_rates(
    sample: _Sample, config: TableConfig, new: str, old: str, *, margin: float, level: float
) -> Decision:
    cut = config.fit.cut
    if cut is None:
        raise InputError("rogan-gladen goes by what the judges pass; say with --cut above which score that is")
    if len(set(sample.chance.tolist())) > 1:
        raise InputError("rogan-gladen needs a simple random sample; these items had different probabilities")
    passes = np.where(np.isnan(sample.estimate), np.nan, (sample.estimate > cut).astype(np.float64))
    seed = config.fit.seed
    return rogan_gladen(passes, sample.labels, sample.systems or [], new, old, margin=margin, level=level, seed=seed)


@dataclass(frozen=True)
class _Sample:
    """The panel's answer and what was labelled, in the order of the scores; each has n entries.

    ``first`` holds the first label of each item, ``order`` the labelled rows as these came.
    """

    estimate: Array
    labels: Array
    systems: list[str | None] | None
    units: list[str]
    chance: Array
    repeats: Repeats
    first: Array
    order: list[int]


def _stream(sample: _Sample) -> tuple[Array, list[int]]:
    """Each item's first label and the order in which these came, for a confidence sequence.

    A later label of the same item is left out: it would change what was known at an earlier look.
    """
    if len(set(sample.chance.tolist())) > 1:
        raise InputError("a confidence sequence needs a simple random sample; these items had different probabilities")
    return sample.first, sample.order


def _sample(table: ScoreTable, labels: Labels, config: TableConfig) -> _Sample:
    if len(config.systems) > 1:
        raise InputError("rates are of items of one system each; for pairs of systems see `care fit --systems`")
    check_labels(table, labels)
    panel, _ = admit(table, config)
    estimate = recommended_answer(panel, config.fit, table.anchors)
    item_ids = panel.item_ids
    usable = [labels.values[item] if item in labels.sample else np.nan for item in item_ids]
    systems: list[str | None] | None = None
    row_of = {item: row for row, item in enumerate(item_ids)}
    drawn = {item: value for item, value in labels.first.items() if item in labels.sample and item in row_of}
    if config.systems:
        systems = [None if names is None else names[0] for names in systems_of(table, config)]
    return _Sample(
        estimate,
        np.array(usable, dtype=np.float64),
        systems,
        item_columns(table).units(),
        np.array([labels.sample.get(item, 1.0) for item in item_ids], dtype=np.float64),
        Repeats(np.array([labels.counts.get(item, 1.0) for item in item_ids], dtype=np.float64), labels.binary),
        np.array([drawn.get(item, np.nan) for item in item_ids], dtype=np.float64),
        [row_of[item] for item in drawn],
    )


def workspace_table(workspace: Workspace, testset: str) -> tuple[ScoreTable, TableConfig]:
    """The panel of a test set as a table without anchors, and the settings of its fits.

    Raises
    ------
    InputError
        The test set names no systems.
    """
    spec = workspace.testset(testset)
    if not spec.systems:
        raise InputError(f"test set {testset!r} names no systems; say in its file which column does (`systems`)")
    scores = workspace.fit_folder(testset).read_panel()
    records = {record.item_id: record for record in workspace.parts.read_items(testset)}
    config = TableConfig(workspace.fit_config(testset), workspace.admission, systems=tuple(spec.systems))
    return ScoreTable(testset, scores, records), config


def check_labels(table: ScoreTable, labels: Labels) -> None:
    """``InputError`` where labels cannot correct the answer of a table: strange items, anchors, none of a sample."""
    scored = set(table.scores.item_ids)
    strange = [item for item in labels.values if item not in scored]
    if strange:
        raise InputError(f"{len(strange)} label(s) are of items without scores, the first is {strange[0]!r}")
    twice = [item for item in labels.values if item in table.anchors.labels]
    if twice:
        raise InputError(
            f"{len(twice)} item(s), the first is {twice[0]!r}, are both anchors and labels; an answer that has seen a "
            "label cannot be corrected by it, so give each label to one of the two"
        )
    if not labels.sample:
        raise InputError(
            f"all {len(labels.values)} labelled items were chosen with an unknown probability, so they say nothing of "
            "the others; label items drawn at random, or give the `probability` with which each was drawn"
        )
