"""Several criteria of the same items: a fit of each, and what they share."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from assets.fit.stages import recommended
from assets.report.names import folder_name
from assets.report.page import render
from assets.table.files import write_files
from assets.table.fitting import ScoreTable, TableConfig, TableFit, fit_table
from assets.table.rows import aggregate_rows
from care_ops.errors import FitError, InputError, listed
from care_ops.results.halo import correlations, deviations, halo
from care_ops.scores import Array
from warehouse.documents import plain
from warehouse.sources.columns import named
from warehouse.sources.input_table import InputTable, WantedColumns
from warehouse.sources.tables import TableSource, read_input_table
from warehouse.storage import write_bytes
from warehouse.testsets import ReadingOptions


@dataclass(frozen=True)
class CriteriaFit:
    """The fits of several criteria, and what they share.

    Attributes
    ----------
    agreement : (c, c) array
        Correlation of the recommended scores of every two criteria, over the items that they share.
    people : (c, c) array or None
        The same of the people's labels; None where no two criteria have some.
    halo : mapping judge -> correlation
        How far a judge's mistakes in one criterion come again in the others (``care_ops.results.halo``); NaN where too
        little is known.
    without : mapping criterion -> str
        Criteria of which no fit can be made, as of those that too few judges score, and why.
    """

    fits: Mapping[str, TableFit]
    agreement: Array
    people: Array | None
    halo: Mapping[str, float]
    without: Mapping[str, str]

    @property
    def criteria(self) -> list[str]:
        """Names of the criteria, in the order of the matrices."""
        return list(self.fits)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each criterion: the verdict in a word, its items and judges, and facts of its recommended score.

        Those without a fit come last, with nothing but the name and "No fit".
        """
        rows: list[dict[str, Any]] = []
        for criterion, fitted in self.fits.items():
            name = recommended(fitted.fit.aggregates)
            (row,) = [row for row in aggregate_rows(fitted.page) if row["aggregator"] == name]
            judges = len(fitted.fit.scores.judges)
            rows.append({"criterion": criterion, "verdict": fitted.verdict.pill, "judges": judges, **row})
        rows += [{"criterion": criterion, "verdict": "No fit"} for criterion in self.without]
        columns = list(dict.fromkeys(column for row in rows for column in row))
        return [{column: row.get(column) for column in columns} for row in rows]

    def sentences(self) -> list[str]:
        """Which criteria have no fit, and what the others share, in words; nothing where they do not agree closely."""
        said = [f"{criterion!r} has no fit: {why}" for criterion, why in self.without.items()]
        for a in range(len(self.criteria)):
            for b in range(a):
                ours = self.agreement[a, b]
                theirs = float("nan") if self.people is None else self.people[a, b]
                if ours - theirs > _APART:
                    said.append(
                        f"{self.criteria[b]} and {self.criteria[a]} correlate at {ours:+.2f} by the judges and at "
                        f"{theirs:+.2f} by people: the judges tell them less apart than people do, unless noise in "
                        "the labels explains it, which lowers the second number."
                    )
        carriers = [judge for judge, value in self.halo.items() if value > _HALO]
        if carriers:
            said.append(
                f"{len(carriers)} of {len(self.halo)} judges carry a halo (their mistakes in one criterion come again "
                f"in the others, at a correlation above {_HALO:g}): {listed(sorted(carriers), 5)}."
            )
        return said


_APART = 0.2
"""Difference of correlations from which a sentence is said of two criteria; the numbers are shown in any case."""

_HALO = 0.3
"""Correlation of mistakes from which a judge is named; the numbers are shown in any case."""


def split_by(source: TableSource, column: str, options: ReadingOptions) -> dict[str, InputTable]:
    """The rows of a table by the value of a column, which is left out; each part is called after the table and both.

    Raises ``InputError`` where there is no such column, a row has no value there, or all rows have one and the same.
    """
    input_table = read_input_table(source, lambda names: WantedColumns(frozenset(names)), options)
    named(input_table.name, input_table.names, column)
    values = input_table.table.column(column).cast(pa.string())
    if values.null_count:
        raise InputError(f"{input_table.name}: {column!r} is empty in {values.null_count:,} rows; every row needs one")
    kinds = values.unique().to_pylist()
    if len(kinds) < 2:
        raise InputError(f"{input_table.name}: {column!r} is {kinds[0]!r} in every row; one criterion needs `care fit`")
    rest, of_row = input_table.table.drop_columns([column]), np.array(values.to_pylist())
    parts = {kind: np.flatnonzero(of_row == kind) for kind in kinds}
    return {
        kind: replace(
            input_table,
            name=f"{input_table.name}, {column} {kind!r}",
            table=rest.take(rows),
            locate=lambda picked, rows=rows: input_table.locate(rows[picked].tolist()),
        )
        for kind, rows in parts.items()
    }


def fit_criteria(tables: Mapping[str, ScoreTable], config: TableConfig) -> CriteriaFit:
    """Fit each criterion by itself, and compare them; raises as ``fit_table`` does, with the criterion's name.

    A criterion of which no fit can be made is no reason to leave out the others; ``FitError`` where there is no other.
    """
    fits, refused = dict[str, TableFit](), dict[str, FitError]()
    for criterion, table in tables.items():
        try:
            fits[criterion] = fit_table(table, config)
        except FitError as error:
            refused[criterion] = error
    if not fits:
        raise next(iter(refused.values()))
    items = sorted({item for fitted in fits.values() for item in fitted.fit.scores.item_ids})
    judges = sorted({judge for fitted in fits.values() for judge in fitted.fit.scores.judges})
    row, column = ({name: k for k, name in enumerate(names)} for names in (items, judges))
    estimates, labels = (np.full((len(items), len(fits)), np.nan) for _ in range(2))
    left = np.full((len(fits), len(items), len(judges)), np.nan)
    votes = np.ones(len(judges), dtype=np.bool_)
    for k, fitted in enumerate(fits.values()):
        scores = fitted.fit.scores
        rows = [row[item] for item in scores.item_ids]
        estimate = fitted.fit.aggregates[recommended(fitted.fit.aggregates)].estimate
        estimates[rows, k] = estimate
        labels[rows, k] = fitted.page.gold
        columns = [column[judge] for judge in scores.judges]
        left[k][np.ix_(rows, columns)] = deviations(scores.values, estimate)
        votes[columns] &= [len(np.unique(given[~np.isnan(given)])) <= 2 for given in scores.values.T]
    people = correlations(labels)
    known = ~np.isnan(people[np.triu_indices(len(fits), k=1)])
    carried = dict(zip(judges, halo(left, votes).tolist(), strict=True))
    without = {name: str(error).removeprefix(f"{name}: ") for name, error in refused.items()}
    return CriteriaFit(fits, correlations(estimates), people if known.any() else None, carried, without)


def write_criteria(result: CriteriaFit, out: Path) -> None:
    """Write the files of every fit to a folder of its own, and ``criteria.json`` and ``criteria.html`` beside them."""
    folders = {criterion: folder_name(criterion) for criterion in result.criteria}
    for criterion, fitted in result.fits.items():
        write_files(fitted, out / folders[criterion])
    document = {
        "criteria": result.rows(),
        "agreement": plain(result.agreement),
        "people": plain(result.people),
        "halo": {judge: None if np.isnan(value) else value for judge, value in result.halo.items()},
        "without": dict(result.without),
        "says": result.sentences(),
    }
    write_bytes(out / "criteria.json", json.dumps(document, indent=1, default=str).encode())
    carriers = sorted(result.halo.items(), key=lambda pair: -np.nan_to_num(pair[1], nan=-2.0))
    render(out, "criteria.html", "criteria.html", result=result, folders=folders, carriers=carriers, least_halo=_HALO)
