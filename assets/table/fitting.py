"""Fit of a table of scores, with all data that the page of the fit shows."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from assets.fit.stages import fit_code, recommended
from assets.hashing import content_hash
from assets.report.assemble import completed
from assets.report.data import ReportData
from assets.report.to_label import items_to_label
from assets.report.verdict_facts import fit_facts
from assets.results.comparison import Named, compare
from assets.results.description import describe
from assets.results.documents import FactorsDocument, SystemsDocument
from assets.results.gold import evaluations, panel_items
from assets.sources import flagged
from care_ops.admission import check_panel, means_not_asked
from care_ops.config import POSITION, AdmissionRule, FitConfig
from care_ops.errors import FitError, InputError, capital, listed
from care_ops.errors import counted as counted_words
from care_ops.fit import Fit, Watch, fit_panel, unwatched
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.labels import Drawn
from care_ops.minimum_sizes import MIN_JUDGES
from care_ops.records import JudgeCheck
from care_ops.results.decide import FitStatus, decide
from care_ops.results.fit_facts import trend
from care_ops.results.interpret import check_declared, counted
from care_ops.results.reasons import too_few
from care_ops.results.sides import Sides, always_left, sides_of
from care_ops.results.uncertainty import weight_intervals
from care_ops.results.verdict import PASS_MARK, Reason, Remedies, Step, Verdict, label_values
from care_ops.scales import RescaledJudge, Scale, on_scale
from care_ops.scores import Array, ScoreMatrix
from warehouse.fits import now
from warehouse.items import ItemColumnsRead, ItemRecord, numbers_in, systems_in, unnamed_text, unnamed_text_column
from warehouse.sources.columns import perhaps_judges
from warehouse.sources.reading import Reading
from warehouse.sources.shapes import system_columns

_log = logging.getLogger(__name__)

IN_PYTHON = Remedies(
    label=Step(
        "Label about twenty items of `result.to_label`, and fit again with the labels: `labels={item: label, ...}`."
    ),
    use=Step("Use the scores: `result.estimate`, in the order of `result.items`."),
    again=Step("Fit again."),
    decide=Step("Read the report page (`result.report(path)`) before you use the scores."),
    report=f"give the labels as the column `gold` of `items`, not as `labels`, and set `cut=VALUE`; {PASS_MARK} (`cut` "
    "is not needed if scores have only two values)",
    cut=f"`cut=VALUE`; {PASS_MARK}",
)
"""Next steps that a verdict recommends to users of the Python interface."""


@dataclass(frozen=True)
class ScoreTable:
    """Scores of items by several judges, with the items' texts and columns.

    ``source`` is the path or the name of the table. ``items`` may omit scored items. ``labels`` are labels that the fit
    may use. ``readings`` describe how the files were read, and ``rescaled`` describes the judges that were rescaled.
    """

    source: str
    scores: ScoreMatrix
    items: Mapping[str, ItemRecord] = field(default_factory=dict[str, ItemRecord])
    labels: FitLabels = NO_LABELS
    readings: Sequence[Reading] = ()
    rescaled: Sequence[RescaledJudge] = ()

    @cached_property
    def records(self) -> list[ItemRecord]:
        """Records of the scored items, in the order of the scores; an item not in ``items`` has an empty record."""
        nothing = ItemRecord("")
        return [self.items.get(item, nothing) for item in self.scores.item_ids]


@dataclass(frozen=True)
class TableConfig:
    """Settings of the fit of a table.

    Attributes
    ----------
    fit : FitConfig
        Settings of the fit; scores outside its ``scale`` count as missing.
    systems : tuple of str
        Column of the items that names an item's system; two columns for pairs, left and right. Without a column, no
        systems are compared.
    scales : mapping judge -> (low, high)
        Scales of individual judges, whose scores are rescaled to the scale of ``fit`` when they are read.
    features : tuple of str
        Numeric item columns to check for judge bias, in addition to text features such as ``words``.

    Raises
    ------
    InputError
        The panel's scale is reversed, or the limits of a scale are equal or infinite.
    """

    fit: FitConfig = field(default_factory=FitConfig)
    admission: AdmissionRule = field(default_factory=AdmissionRule)
    systems: tuple[str, ...] = ()
    scales: Mapping[str, Scale] = field(default_factory=dict[str, Scale])
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for low, high in (*map(sorted, self.scales.values()), *([self.fit.scale] if self.fit.scale else [])):
            if not -np.inf < low < high < np.inf:
                raise InputError(f"the scale is {low} to {high}; give two numbers, the lowest score first")


@dataclass(frozen=True)
class TableFit:
    """Result of fitting a table.

    Attributes
    ----------
    fit : Fit
        Moments, structure and aggregates of the admitted judges.
    page : ReportData
        Admission, evaluation, intervals, factors and systems, as the page shows them.
    to_label : mapping item -> {"random", "chosen"}
        Items to label, and how each was drawn.
    """

    fit: Fit
    page: ReportData
    verdict: Verdict
    to_label: Mapping[str, Drawn]
    items: Mapping[str, ItemRecord]
    labels: FitLabels


def fit_table(
    table: ScoreTable, config: TableConfig, remedies: Remedies = IN_PYTHON, watch: Watch = unwatched
) -> TableFit:
    """Admit judges, fit the table, and compute the verdict and the data of the page.

    Raises
    ------
    InputError
        A column of systems or features cannot be used, or there are too few split units for intervals.
    FitError
        Fewer than three judges were admitted, no aggregator gave an estimate, or there are no systems to compare.
    """
    panel, checks = admit(table, config)
    panel = replace(panel, features=features_of(table, config))
    items, named = item_columns(table), systems_of(table, config)
    fit = fit_panel(panel, config.fit, table.labels, watch=watch)
    _log.info("%s: fitted the scores of %d items from %d of %d judges", table.source, *fit.scores.shape, len(checks))
    shown_items = panel_items(fit.scores, items, table.labels)
    of_fit, units = (fit.scores, config.fit), shown_items.units()
    scores, outside = within_scale(table.scores, config.fit.scale)
    watch("describing the factors", 0, 0)
    structure, lead = fit.structure, recommended(fit.aggregates)
    estimate = fit.aggregates[lead].estimate
    data = ReportData(
        title=Path(table.source).name,
        description="Recorded scores, aggregated by care fit.",
        scores=fit.scores,
        aggregates=fit.aggregates,
        failures=fit.failures,
        checks=checks,
        evaluations=evaluations(fit.aggregates, shown_items.gold, _scale_of(fit, config)),
        gold=shown_items.gold,
        responses=shown_items.responses,
        factors=describe(fit.scores, fit.moments, structure, shown_items.responses) if structure else FactorsDocument(),
        systems=compare(lead, estimate, items, named, table.labels, fit.scores, config.fit)
        if config.systems
        else SystemsDocument(),
        labels_seen=len(table.labels),
        intervals=weight_intervals(*of_fit, table.labels, units, whole=fit.aggregates, watch=watch),
        not_asked=means_not_asked(config.admission, scores.values, sum(outside.values())),
    )
    page = completed(data, fit.moments, config.fit, _provenance(fit, table, config))
    facts = fit_facts(page, config.fit, table.labels, fit_version=fit_id(table, config), made_at=now())
    stood = _pair_systems(fit.scores, table, named)
    facts = replace(facts, sides=_sides(fit.scores, table, stood, config), always_left=always_left(stood))
    if POSITION not in config.fit.not_quality and not facts.failure:
        facts = replace(facts, trend=trend(fit.aggregates.get("care", fit.aggregates[lead]).estimate))
    notes = (*_perhaps_judges(table), *_guessed_scales(table), *_flagged(table))
    verdict = decide(
        facts, FitStatus(notes=notes), replace(remedies, label_values=label_values(pairs=has_pairs(table, config)))
    )
    if remedy := unnamed_text(table.records):
        verdict = replace(verdict, next_steps=(Step(f"{capital(remedy)}."), *verdict.next_steps))
    return TableFit(fit, page, verdict, items_to_label(page, table.labels), table.items, table.labels)


def _flagged(table: ScoreTable) -> list[Reason]:
    found = flagged(record for record in table.items.values() if record.response is not None)
    if not found:
        return []
    examples = listed([f"{item} ({rules[0]})" for item, rules in found.items()], 3)
    message = f"{counted_words(len(found), 'item')} may try to influence the judges: {examples}."
    return [Reason("injection", message, detail="Read these items, and remove items that try to influence a judge.")]


def _guessed_scales(table: ScoreTable) -> list[Reason]:
    guessed = [one for one in table.rescaled if not one.is_declared]
    if not guessed:
        return []
    shown = listed([f"{one.judge} {one.own[0]:g} to {one.own[1]:g}" for one in guessed], 3)
    message = f"CARE guessed these scales: {shown}. Declare them with `--scale JUDGE=LOW:HIGH` (`scales` in Python)."
    detail = " ".join(f"{capital(one.sentence)}." for one in guessed)
    return [Reason("condition", message, tuple(one.judge for one in guessed), detail)]


def _perhaps_judges(table: ScoreTable) -> list[Reason]:
    left_out = perhaps_judges(table.readings[0].left_out) if table.readings else ()
    used = {unnamed_text_column(table.records)}.union(*(read.columns.values() for read in table.readings[1:]))
    named = [f"{x.column!r} ({x.why.partition(';')[0]})" for x in left_out if x.column not in used]
    detail = "If one of these columns contains a judge's scores, write them as numbers."
    return [Reason("no judge", f"Columns left out: {listed(named)}.", detail=detail)] if named else []


def has_pairs(table: ScoreTable, config: TableConfig) -> bool:
    """Return whether the items are pairs of answers: all have a second response, or two columns name systems."""
    return len(config.systems) == 2 or all(record.response_2 for record in table.records)


def _pair_systems(panel: ScoreMatrix, table: ScoreTable, named: Named) -> list[tuple[str, str] | None]:
    system_of = dict(zip(table.scores.item_ids, named, strict=True))
    return [(pair[0], pair[1]) if (pair := system_of[item]) and len(pair) > 1 else None for item in panel.item_ids]


def _sides(
    panel: ScoreMatrix, table: ScoreTable, systems: Sequence[tuple[str, str] | None], config: TableConfig
) -> Sides | None:
    low, high = config.fit.scale or (0.0, 1.0)
    if not has_pairs(table, config) or np.nanmin(panel.values) < low or np.nanmax(panel.values) > high:
        return None
    return sides_of(panel.values, (low + high) / 2, systems)


def _provenance(fit: Fit, table: ScoreTable, config: TableConfig) -> dict[str, Any]:
    certificate = {} if fit.structure is None else {"certificate": asdict(fit.structure.certificate)}
    return {
        "scores": table.source,
        "fingerprint": fit.scores.fingerprint(),
        "config": asdict(config.fit),
        "structure": {**fit.structure_details, **certificate},
        "scale_for_mae_filled": _scale_of(fit, config),
        "code": {"fit": fit_code()},
        "readings": [asdict(reading) for reading in table.readings],
    }


def fit_id(table: ScoreTable, config: TableConfig) -> str:
    """Return the id of a fit: a hash of code and inputs, independent of the order of rows."""
    known = sorted(zip(table.scores.item_ids, table.records, strict=True), key=itemgetter(0)) if table.items else []
    items = [
        [item, r.response, r.response_2, r.gold, r.split_unit, *map(r.metadata.get, config.systems + config.features)]
        for item, r in known
    ]
    if POSITION in config.fit.not_quality:
        items.append([*table.scores.item_ids])
    people = [table.labels.content(), table.labels.shares]
    return content_hash([table.scores.fingerprint(), items, people, asdict(config), fit_code()])[:16]


def admit(table: ScoreTable, config: TableConfig) -> tuple[ScoreMatrix, list[JudgeCheck]]:
    """Check each judge for admission; return the admitted judges' scores, and the checks of all judges.

    Scores outside the scale become missing. Raises ``FitError`` if fewer than three judges were admitted, and
    ``InputError`` if all scores, or no scores, are above the cut.
    """
    scores, out_of_range = within_scale(table.scores, config.fit.scale)
    checks = check_panel(scores, config.admission, out_of_range=out_of_range)
    admitted = [check.judge for check in checks if check.admitted]
    if len(admitted) < MIN_JUDGES:
        why = too_few(scores, checks, loosen="--admit all admits all judges that vary", declare="--absent not_asked")
        raise FitError(f"{table.source}: {why}")
    panel, cut = scores.select_judges(admitted), config.fit.cut
    low, high = float(np.nanmin(panel.values)), float(np.nanmax(panel.values))
    if cut is not None and not low <= cut < high:
        which = "all" if cut < low else "no"
        raise InputError(
            f"--cut {cut:g}: {which} scores are above this cut; the scores range from {low:g} to {high:g}; give a cut "
            f"in this range, such as {(low + high) / 2:g}"
        )
    return panel, checks


def within_scale(scores: ScoreMatrix, scale: tuple[float, float] | None) -> tuple[ScoreMatrix, dict[str, int]]:
    """Replace scores outside the scale with NaN; return the scores and the number of replacements by judge."""
    if scale is None:
        return scores, {}
    values = on_scale(scores.values, scale)
    outside = np.isnan(values) & ~np.isnan(scores.values)
    counts = {judge: int(count) for judge, count in zip(scores.judges, outside.sum(axis=0), strict=True) if count}
    return replace(scores, values=values), counts


def features_of(table: ScoreTable, config: TableConfig) -> dict[str, Array]:
    """Return features of the scored items, shape (n,) each: text features, and the columns in ``config.features``.

    Raises ``InputError`` if such a column is empty for all items, or contains a value that is not a number.
    """
    records = table.records
    metadata = [record.metadata for record in records]
    columns = {name: numbers_in(metadata, name, f"items of {table.source}, features") for name in config.features}
    known = {**counted([r.response for r in records], [r.response_2 for r in records]), **columns}
    if POSITION in config.fit.not_quality:
        known[POSITION] = np.arange(len(records), dtype=np.float64)
    check_declared(config.fit.not_quality, known, f"items of {table.source}")
    return known


def item_columns(table: ScoreTable) -> ItemColumnsRead:
    """Return texts, gold and split units of the scored items, in the order of the scores."""
    records = table.records
    return ItemColumnsRead(
        item_ids=list(table.scores.item_ids),
        responses=[record.response for record in records],
        gold=np.array([record.gold for record in records], dtype=np.float64),
        split_units=[record.split_unit for record in records],
    )


def systems_of(table: ScoreTable, config: TableConfig) -> Named:
    """Return the systems of the scored items from ``config.systems``; raise ``InputError`` for invalid columns."""
    if not config.systems:
        return [None] * len(table.scores.item_ids)
    records = table.records
    answers = [(record.response, record.response_2) for record in records]
    return systems_in([r.metadata for r in records], config.systems, f"items of {table.source}, systems", answers)


def unnamed_systems(table: ScoreTable, config: TableConfig) -> str | None:
    """Suggest columns that name systems if ``config.systems`` is empty; return None if there is no such column."""
    metadata = [record.metadata for record in table.records]
    columns = system_columns(list(dict.fromkeys(name for values in metadata for name in values)))
    several = [name for name in columns if len({str(values.get(name)) for values in metadata}) > 1]
    if config.systems or not several:
        return None
    options = [f"--system {name}" for name in several[: 2 if any(record.response_2 for record in table.records) else 1]]
    return f"all systems count as one, although column {several[0]!r} distinguishes them; give {' '.join(options)}"


def _scale_of(fit: Fit, config: TableConfig) -> tuple[float, float]:
    values = fit.scores.values
    return config.fit.scale or (float(np.nanmin(values)), float(np.nanmax(values)))
