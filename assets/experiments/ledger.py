"""The paper's numbers and claims, one by one, beside ours.

Belongs here: reading the paper's numbers (``paper_numbers.yaml``), comparing, counting. Does not: computing any number
of ours, which the other experiments do and keep (``ExperimentFindings.measures``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table

if TYPE_CHECKING:
    from assets.workspace import Workspace

NUMBERS = Path(__file__).with_name("paper_numbers.yaml")

_NONE = "--"
"""How the paper prints a cell without a number."""

REPRODUCED, AS_RELEASED = "reproduced", "reproduced, counted as the released code counts"
FOLLOWS, NOT_REPRODUCED = "follows from the paper's tables", "not reproduced"
NEEDS_MODELS, NOT_RUN = "needs language models", "not computed in this workspace"

Measures = Mapping[str, Mapping[str, float]]
"""What each experiment kept for the ledger, by experiment."""


@dataclass(frozen=True)
class PrintedTable:
    """A table of the paper.

    Attributes
    ----------
    label, about, asset : str
        Of the tex; what it shows; the experiment that computes ours.
    printed_columns : tuple of str
    printed : mapping row -> numbers
        ``mean`` or ``mean ± standard deviation``.
    needs : str
        What cells that cannot be computed from the data that are here lack.
    ours, counted_as_released : str
        Name of the measure, with {column} for the test set and {row}; empty where there is none.
    columns, rows : mapping
        Part of the test set's name by column, and the measure's name of a row.
    released : mapping column -> row -> number
        What the authors' released code gives.
    because : mapping column -> row -> reason
    """

    label: str
    about: str
    asset: str
    printed_columns: tuple[str, ...]
    printed: Mapping[str, tuple[str | float, ...]]
    needs: str = ""
    ours: str = ""
    counted_as_released: str = ""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    rows: Mapping[str, str] = field(default_factory=dict[str, str])
    released: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    because: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def cells(self) -> Iterator[tuple[str, str, float, float]]:
        """(row, column, number, printed standard deviation) of every cell that has a number."""
        for row, numbers in self.printed.items():
            for column, text in zip(self.printed_columns, numbers, strict=True):
                if text != _NONE:
                    number, _, spread = str(text).partition(" ± ")
                    yield row, column, float(number), float(spread or 0.0)


@dataclass(frozen=True)
class Claim:
    """A claim of the text or of a figure.

    Attributes
    ----------
    place, says, asset : str
    value : float, optional
        The number that it names.
    printed : str
        Name in ``FROM_TABLES`` of what the paper's own tables give.
    measure : str
        Name of our measure.
    at_least, at_most : float, optional
        What the measure must be where the claim names no number.
    needs, because : str
    """

    place: str
    says: str
    asset: str
    value: float | None = None
    printed: str = ""
    measure: str = ""
    at_least: float | None = None
    at_most: float | None = None
    needs: str = ""
    because: str = ""


@dataclass(frozen=True)
class PaperNumbers:
    """Everything in ``paper_numbers.yaml``.

    Attributes
    ----------
    within : float
        Relative difference up to which a number counts as reproduced.
    tables : tuple of PrintedTable
    claims : tuple of Claim
    """

    within: float
    tables: tuple[PrintedTable, ...]
    claims: tuple[Claim, ...]

    def table(self, label: str) -> dict[str, dict[str, float]]:
        """Numbers of a table by row and column."""
        table = next(table for table in self.tables if table.label == label)
        numbers: dict[str, dict[str, float]] = {}
        for row, column, number, _ in table.cells():
            numbers.setdefault(row, {})[column] = number
        return numbers


@dataclass(frozen=True)
class LedgerRow:
    """One number or claim, and what became of it."""

    place: str
    says: str
    paper: str
    ours: float | None
    released: float | None
    counted_as_released: float | None
    verdict: str
    why: str
    asset: str


@cache
def paper_numbers() -> PaperNumbers:
    """The paper's numbers as they are kept beside this file."""
    import yaml
    from pydantic import TypeAdapter

    return TypeAdapter(PaperNumbers).validate_python(yaml.safe_load(NUMBERS.read_text(encoding="utf-8")))


def ledger_rows(measures: Measures) -> list[LedgerRow]:
    """A row for every number of the tables and every claim."""
    numbers = paper_numbers()
    rows = [_cell(table, *cell, measures, numbers.within) for table in numbers.tables for cell in table.cells()]
    return rows + [_claim(claim, measures, numbers) for claim in numbers.claims]


def _cell(
    table: PrintedTable, row: str, column: str, number: float, spread: float, measures: Measures, within: float
) -> LedgerRow:
    """A number of a table."""
    kept, testset, name = measures.get(table.asset, {}), table.columns.get(column), table.rows.get(row)
    ours = alike = None
    if testset is not None and name is not None:
        ours = _measure(kept, table.ours, testset, name)
        alike = _measure(kept, table.counted_as_released, testset, name)
    limit = max(within * abs(number), 2 * spread)
    because = table.because.get(column, {}).get(row, "")
    if testset is None or name is None:
        verdict, why = NEEDS_MODELS, table.needs
    elif ours is None:
        verdict, why = NOT_RUN, f"no measure of {table.asset} for a test set called {testset}"
    elif abs(ours - number) <= limit:
        verdict, why = REPRODUCED, f"{abs(ours - number):.3g} off, within {limit:.3g}"
    elif alike is not None and abs(alike - number) <= limit:
        verdict, why = AS_RELEASED, f"{abs(alike - number):.3g} off, within {limit:.3g}"
    else:
        verdict, why = NOT_REPRODUCED, because or "nobody has said why"
    paper = f"{number:.3f}" + (f" ± {spread:.3f}" if spread else "")
    released = table.released.get(column, {}).get(row)
    return LedgerRow(
        table.label, f"{row or '(blank)'}, {column}", paper, ours, released, alike, verdict, why, table.asset
    )


def _measure(kept: Mapping[str, float], template: str, testset: str, row: str) -> float | None:
    """The measure of the first test set whose name has this part."""
    _, _, rest = template.format(column="", row=row).partition("/")
    matching = (name for name in sorted(kept) if name.partition("/")[2] == rest and testset in name.partition("/")[0])
    return next((kept[name] for name in matching), None) if template else None


def _claim(claim: Claim, measures: Measures, numbers: PaperNumbers) -> LedgerRow:
    """A claim: from the paper's own tables, from a measure, or for want of language models not at all."""
    ours = measures.get(claim.asset, {}).get(claim.measure)
    if claim.printed:
        ours = FROM_TABLES[claim.printed](numbers)
    if claim.value is not None:
        paper = f"{claim.value:g}"
    else:
        bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most:g}"
        paper = f"{claim.printed or claim.measure}: {bound}"
    if ours is None:
        verdict, why = (NEEDS_MODELS, claim.needs) if claim.needs else (NOT_RUN, f"run {claim.asset}")
    elif _holds(claim, ours):
        verdict, why = (FOLLOWS, "arithmetic on the printed numbers") if claim.printed else (REPRODUCED, "it holds")
    else:
        verdict, why = NOT_REPRODUCED, claim.because or "nobody has said why"
    return LedgerRow(claim.place, claim.says, paper, ours, None, None, verdict, why, claim.asset)


def _holds(claim: Claim, ours: float) -> bool:
    """Whether a number rounds to the printed one, or lies within the claim's bounds."""
    if claim.value is not None:
        digits = len(f"{claim.value:g}".partition(".")[2])
        return abs(ours - claim.value) <= 0.5 * 10.0**-digits + 1e-9
    return (claim.at_least is None or ours >= claim.at_least) and (claim.at_most is None or ours <= claim.at_most)


_SCORING, _CLASSES = "tab:results_scoring", "tab:results_mix"


def _reductions(numbers: PaperNumbers, against: str) -> dict[str, float]:
    """Relative reduction of MAE by CARE-SVD on each scoring set, in percent."""
    table = numbers.table(_SCORING)
    return {s: 100 * (1 - table["CARE-SVD"][s] / value) for s, value in table[against].items()}


def _summed(numbers: PaperNumbers, against: str) -> float:
    table = numbers.table(_SCORING)
    return 100 * (1 - sum(table["CARE-SVD"].values()) / sum(table[against].values()))


def _best(table: Mapping[str, Mapping[str, float]], *, lowest: bool) -> list[str]:
    """The best row of each column."""
    choose = min if lowest else max
    columns = next(iter(table.values()))
    return [choose((row for row in table if c in table[row]), key=lambda row, c=c: table[row][c]) for c in columns]


def _times_best(label: str, wanted: str, *, lowest: bool) -> Callable[[PaperNumbers], float]:
    def count(numbers: PaperNumbers) -> float:
        return float(sum(row.startswith(wanted) for row in _best(numbers.table(label), lowest=lowest)))

    return count


def _summarize_gain(numbers: PaperNumbers) -> float:
    table = numbers.table(_CLASSES)
    baseline = max(row["Summarize"] for name, row in table.items() if not name.startswith("CARE"))
    return 100 * (table["CARE-Tensor"]["Summarize"] / baseline - 1)


def _second_loading(numbers: PaperNumbers, judge: str) -> float:
    return list(numbers.table("tab:confounding_appendix")[judge].values())[1]


def _dummy_leads(numbers: PaperNumbers) -> float:
    table = numbers.table("tab:confounding_appendix")
    return float(max(table, key=lambda judge: list(table[judge].values())[1]) == "dummy_eval_1")


def _fewest_false_positives(numbers: PaperNumbers) -> float:
    table = numbers.table("table:adversarial_response").values()
    return float(sum(min(row, key=lambda name: row[name]) == "CARE-Tensor" for row in table))


FROM_TABLES: dict[str, Callable[[PaperNumbers], float]] = {
    "largest reduction of MAE in percent": lambda n: max(
        value for against in ("MV", "AVG", "WS", "UWS") for value in _reductions(n, against).values()
    ),
    "reduction of MAE against MV on UltraFeedback in percent": lambda n: _reductions(n, "MV")["UltraFeedback"],
    "mean reduction of MAE against AVG in percent": lambda n: float(np.mean(list(_reductions(n, "AVG").values()))),
    "mean reduction of MAE against MV in percent": lambda n: float(np.mean(list(_reductions(n, "MV").values()))),
    "reduction of the summed MAEs against AVG in percent": lambda n: _summed(n, "AVG"),
    "reduction of the summed MAEs against MV in percent": lambda n: _summed(n, "MV"),
    "scoring sets on which CARE-SVD is lowest": _times_best(_SCORING, "CARE-SVD", lowest=True),
    "sets on which a CARE is most accurate": _times_best(_CLASSES, "CARE", lowest=False),
    "sets on which CARE-Tensor is most accurate": _times_best(_CLASSES, "CARE-Tensor", lowest=False),
    "gain of CARE-Tensor on Summarize in percent": _summarize_gain,
    "biases under which CARE-SVD moves least": _times_best(
        "tab:robustness_to_confounding_factors", "CARE-SVD", lowest=True
    ),
    "openings at which CARE-Tensor has the fewest false positives": _fewest_false_positives,
    "loading of gemma-3-1b-it on the second factor": lambda n: _second_loading(n, "gemma-3-1b-it"),
    "whether the length dummy loads most on the second factor": _dummy_leads,
    "scoring sets on which the first factor is lowest": _times_best(
        "tab:heuristic_validation", "1st Factor", lowest=True
    ),
    "MAE of the first factor on ASSET": lambda n: n.table("tab:heuristic_validation")["1st Factor"]["ASSET"],
}
"""What a claim says of the paper's own tables, computed from them."""


def run(workspace: Workspace) -> ExperimentFindings:
    """Every number and claim, from what the other experiments keep."""
    from assets.experiments.registry import experiments

    kept = {key: experiment.kept(workspace) for key, experiment in experiments().items() if key != EXPERIMENT.key}
    rows = ledger_rows({key: found.findings.measures for key, found in kept.items() if found is not None})
    verdicts = (REPRODUCED, AS_RELEASED, FOLLOWS, NOT_REPRODUCED, NEEDS_MODELS, NOT_RUN)
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in verdicts}
    measured = [row for row in rows if row.verdict in (REPRODUCED, AS_RELEASED, NOT_REPRODUCED)]
    explained = sum(row.verdict == NOT_REPRODUCED and row.why != "nobody has said why" for row in rows)
    says = [
        f"{len(rows)} numbers and claims: {counts[REPRODUCED]} reproduced, {counts[AS_RELEASED]} more where items are "
        f"counted as the released code counts them, {counts[FOLLOWS]} follow from the paper's own tables, "
        f"{counts[NOT_REPRODUCED]} not reproduced ({explained} with the reason), {counts[NEEDS_MODELS]} need language "
        f"models, {counts[NOT_RUN]} are not computed in this workspace.",
        f"Within: {paper_numbers().within:.0%} of the printed number, or two printed standard deviations.",
        "Each row is made again by `care run --select key:ASSET` with the asset that it names, then `key:ledger`.",
    ]
    by_place: dict[str, list[dict[str, Any]]] = {}
    for row in [*measured, *(row for row in rows if row not in measured)]:
        by_place.setdefault(row.verdict, []).append(_shown(row))
    return ExperimentFindings(says, [Table(verdict, by_place[verdict]) for verdict in verdicts if verdict in by_place])


def _shown(row: LedgerRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "what": row.says,
        "paper": row.paper,
        "ours": "–" if row.ours is None else row.ours,
        "released code": "–" if row.released is None else row.released,
        "ours, its rows": "–" if row.counted_as_released is None else row.counted_as_released,
        "why": row.why,
        "asset": row.asset,
    }


EXPERIMENT = Experiment(
    key="ledger",
    title="The paper's numbers, one by one",
    asks="Which numbers and claims of the paper come out here, which do not and why, and which need language models?",
    paper="Six tables of numbers, and the claims of its text and figures.",
    protocol=(
        "The paper's numbers stand in assets/experiments/paper_numbers.yaml, with their places in its tex. Ours are "
        "read from what the other experiments keep, none is typed; what the authors' released code gives stands beside "
        "them where it was measured. A cell for whose test set nobody has scores needs language models."
    ),
    run=run,
)
