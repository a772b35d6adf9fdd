"""Comparison of the paper's printed numbers and claims with the measured values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import TypeAdapter

from assets.experiments.base import Experiment, ExperimentFindings, Table, read_stored
from assets.workspace import Workspace

NUMBERS = Path(__file__).with_name("paper_numbers.yaml")

_NONE = "--"
"""Cell without a number in the paper's tables."""


@dataclass(frozen=True)
class PrintedTable:
    """Table of the paper; ``paper_numbers.yaml`` describes the fields."""

    label: str
    about: str
    asset: str
    printed_columns: tuple[str, ...]
    printed: Mapping[str, tuple[str | float, ...]]
    needs: str
    ours: str
    as_written: str
    columns: Mapping[str, str]
    rows: Mapping[str, str]
    recorded: tuple[str, ...] = ()
    released: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    absent: str = ""
    because: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def cells(self) -> Iterator[tuple[str, str, float, float]]:
        """Yield the row, column, number and standard deviation of each cell with a number in a printed table."""
        for row, numbers in self.printed.items():
            for column, text in zip(self.printed_columns, numbers, strict=True):
                if text != _NONE:
                    number, _, spread = str(text).partition(" ± ")
                    yield row, column, float(number), float(spread or 0.0)

    def names(self, row: str, column: str, written: Mapping[str, str]) -> tuple[str, str]:
        """Return the names of a cell's measures, computed by this project's procedure and by the paper's procedure."""
        row, column = self.rows[row], self.columns[column]
        literal = {"row": written.get(row, row), "column": written.get(column, column)}
        return self.ours.format(row=row, column=column), self.as_written.format(**literal)


@dataclass(frozen=True)
class Claim:
    """Claim in the paper's text or in a figure; ``paper_numbers.yaml`` describes the fields."""

    place: str
    claim: str
    asset: str
    value: float | None = None
    printed: str = ""
    measure: str = ""
    as_written: str = ""
    at_least: float | None = None
    at_most: float | None = None
    needs: str = ""
    because: str = ""


@dataclass(frozen=True)
class PaperNumbers:
    """Printed tables and claims of the paper, from ``paper_numbers.yaml``."""

    written: Mapping[str, str]
    within: float
    tables: tuple[PrintedTable, ...]
    claims: tuple[Claim, ...]

    def table(self, label: str) -> dict[str, dict[str, float]]:
        """Return the numbers of a table by row and column."""
        table = next(table for table in self.tables if table.label == label)
        numbers: dict[str, dict[str, float]] = {}
        for row, column, number, _ in table.cells():
            numbers.setdefault(row, {})[column] = number
        return numbers


@cache
def paper_numbers() -> PaperNumbers:
    """Read the paper's printed tables and claims from ``paper_numbers.yaml``."""
    return TypeAdapter(PaperNumbers).validate_python(yaml.safe_load(NUMBERS.read_text(encoding="utf-8")))


def measure(measures: Mapping[str, float], name: str) -> float | None:
    """Look up a measure by name, with the test set's name possibly shortened; return None if the measure is missing."""
    part, slash, rest = name.partition("/")
    alike = (k for k in sorted(measures) if slash and part in k.partition("/")[0] and k.partition("/")[2] == rest)
    return measures.get(name) if name in measures else next((measures[key] for key in alike), None)


def as_printed(asset: str, measures: Mapping[str, float]) -> list[Table]:
    """Arrange an experiment's measures in tables with the rows and columns of the paper's tables."""
    numbers, laid_out = paper_numbers(), list[Table]()
    for table in (table for table in numbers.tables if table.asset == asset):
        rows = list[dict[str, str]]()
        for row in table.printed:
            names = {column: table.names(row, column, numbers.written) for column in table.printed_columns}
            ours, literal = ({c: _shown(measures, both[which]) for c, both in names.items()} for which in (0, 1))
            rows.append({"": row or "(blank)", **literal})
            if any(cell not in (_NONE, literal[c]) for c, cell in ours.items()):
                rows.append({"": f"{row or '(blank)'}, ours", **ours})
        if any(cell != _NONE for row in rows for head, cell in row.items() if head):
            title = f"{table.label}, {table.about}: by the paper's procedure as written, and by our procedure"
            laid_out.append(Table(title, rows))
    return laid_out


def _shown(measures: Mapping[str, float], name: str) -> str:
    value, spread = measure(measures, name), measure(measures, f"{name}, sd")
    return _NONE if value is None else f"{value:.3f}" + ("" if spread is None else f" ± {spread:.3f}")


_SCORING, _CLASSES = "tab:results_scoring", "tab:results_mix"


def _reductions(numbers: PaperNumbers, against: str) -> dict[str, float]:
    table = numbers.table(_SCORING)
    return {s: 100 * (1 - table["CARE-SVD"][s] / value) for s, value in table[against].items()}


def _best_rows(numbers: PaperNumbers, label: str, choose: Callable[..., str] = min) -> list[str]:
    """Return, for each column, the name of the row with the lowest number, or the highest if ``choose`` is ``max``."""
    table = numbers.table(label)
    columns = next(iter(table.values()))
    return [choose((row for row in table if c in table[row]), key=lambda row, c=c: table[row][c]) for c in columns]


def _summarize_gain(numbers: PaperNumbers) -> float:
    table = numbers.table(_CLASSES)
    baseline = max(row["Summarize"] for name, row in table.items() if not name.startswith("CARE"))
    return 100 * (table["CARE-Tensor"]["Summarize"] / baseline - 1)


def _fewest_false_positives(numbers: PaperNumbers) -> int:
    table = numbers.table("table:adversarial_response").values()
    return sum(min(row, key=lambda name: row[name]) == "CARE-Tensor" for row in table)


_LOADINGS, _SECOND = "tab:confounding_appendix", "Length confounder"

FROM_TABLES: dict[str, Callable[[PaperNumbers], float]] = {
    "largest reduction of MAE in percent": lambda n: max(
        value for against in ("MV", "AVG", "WS", "UWS") for value in _reductions(n, against).values()
    ),
    "reduction of MAE against MV on UltraFeedback in percent": lambda n: _reductions(n, "MV")["UltraFeedback"],
    "mean reduction of MAE against AVG in percent": lambda n: float(np.mean(list(_reductions(n, "AVG").values()))),
    "mean reduction of MAE against MV in percent": lambda n: float(np.mean(list(_reductions(n, "MV").values()))),
    "scoring sets on which CARE-SVD has lowest MAE": lambda n: _best_rows(n, _SCORING).count("CARE-SVD"),
    "sets on which a CARE method is most accurate": lambda n: sum(
        row.startswith("CARE") for row in _best_rows(n, _CLASSES, max)
    ),
    "sets on which CARE-Tensor is most accurate": lambda n: _best_rows(n, _CLASSES, max).count("CARE-Tensor"),
    "gain of accuracy by CARE-Tensor on Summarize in percent": _summarize_gain,
    "biases under which CARE-SVD moves least": lambda n: _best_rows(n, "tab:robustness_to_confounding_factors").count(
        "CARE-SVD"
    ),
    "openings at which CARE-Tensor has the fewest false positives": _fewest_false_positives,
    "loading of gemma-3-1b-it on the second factor": lambda n: n.table(_LOADINGS)["gemma-3-1b-it"][_SECOND],
    "whether the length dummy loads most on the second factor": lambda n: (
        _best_rows(n, _LOADINGS, max)[1] == "dummy_eval_1"
    ),
    "scoring sets on which the first factor has lowest MAE": lambda n: _best_rows(n, "tab:heuristic_validation").count(
        "1st Factor"
    ),
}
"""Mapping from a claim to the function that computes its value from the paper's own tables."""


REPRODUCED, BY_OURS = "reproduced by the paper's procedure as written", "reproduced only by our procedure"
FOLLOWS, NOT_REPRODUCED = "follows from the paper's tables", "not reproduced"
NEEDS_MODELS, NOT_RUN = "needs language models", "not computed in this workspace"
VERDICTS = (REPRODUCED, BY_OURS, FOLLOWS, NOT_REPRODUCED, NEEDS_MODELS, NOT_RUN)

_UNEXPLAINED = "not explained"

Measures = Mapping[str, Mapping[str, float]]
"""Measured values by experiment and name of the measure."""


@dataclass(frozen=True)
class LedgerRow:
    """Number or claim of the paper, with the measured values and a verdict.

    ``as_written`` is measured by the paper's procedure, ``ours`` by this project's procedure, and ``released`` by the
    authors' code. A value that was not measured is None.
    """

    place: str
    claim: str
    paper: str
    as_written: float | None
    ours: float | None
    released: float | None
    verdict: str
    why: str
    asset: str


def ledger_rows(measures: Measures) -> list[LedgerRow]:
    """Compare each number of the paper's tables, and each claim, with the stored measures."""
    numbers = paper_numbers()
    rows = [_cell(table, *cell, measures, numbers) for table in numbers.tables for cell in table.cells()]
    return rows + [_claim(claim, measures, numbers) for claim in numbers.claims]


def _cell(
    table: PrintedTable, row: str, column: str, number: float, spread: float, measures: Measures, numbers: PaperNumbers
) -> LedgerRow:
    found, (name, literal) = measures.get(table.asset, {}), table.names(row, column, numbers.written)
    ours, written = measure(found, name), measure(found, literal)
    limit = max(numbers.within * abs(number), 2 * hypot(spread, measure(found, f"{literal}, sd") or 0.0))
    off = [abs(value - number) for value in (written, ours) if value is not None]
    if off:
        verdict = _verdict(*(value is not None and abs(value - number) <= limit for value in (written, ours)))
        because = table.because.get(column, {}).get(row, _UNEXPLAINED)
        why = f"it differs by {off[0]:.3g}; the limit is {limit:.3g}" if verdict == REPRODUCED else because
    elif _is_scored(found, name):
        verdict, why = (NOT_REPRODUCED, table.absent) if table.absent else (NOT_RUN, f"run {table.asset}")
    elif column in table.recorded:
        verdict, why = NOT_RUN, f"{table.asset} has no measure for a test set named {name.partition('/')[0]}"
    else:
        verdict, why = NEEDS_MODELS, table.needs
    paper = f"{number:.3f}" + (f" ± {spread:.3f}" if spread else "")
    released = table.released.get(column, {}).get(row)
    return LedgerRow(
        table.label, f"{row or '(blank)'}, {column}", paper, written, ours, released, verdict, why, table.asset
    )


def _is_scored(found: Mapping[str, float], name: str) -> bool:
    return any(name.partition("/")[0] in key.partition("/")[0] for key in found)


def _verdict(as_written: bool, ours: bool) -> str:
    return REPRODUCED if as_written else BY_OURS if ours else NOT_REPRODUCED


def _claim(claim: Claim, measures: Measures, numbers: PaperNumbers) -> LedgerRow:
    found = measures.get(claim.asset, {})
    ours = float(FROM_TABLES[claim.printed](numbers)) if claim.printed else measure(found, claim.measure)
    written = measure(found, claim.as_written) if claim.as_written else ours
    bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most or 0:g}"
    paper = f"{claim.value:g}" if claim.value is not None else f"{claim.printed or claim.measure}: {bound}"
    holds = [value is not None and _holds(claim, value) for value in (written, ours)]
    if ours is None and written is None:
        verdict, why = (NEEDS_MODELS, claim.needs) if claim.needs else (NOT_RUN, f"run {claim.asset}")
        if claim.needs and _is_scored(found, claim.measure):
            verdict, why = NOT_REPRODUCED, "the panel lacks the factor, or the feature is constant"
    elif claim.printed and holds[1]:
        verdict, why = FOLLOWS, "it follows from the printed numbers"
    else:
        verdict = _verdict(*holds)
        why = "it holds" if verdict == REPRODUCED else claim.because or _UNEXPLAINED
    return LedgerRow(claim.place, claim.claim, paper, written, ours, None, verdict, why, claim.asset)


def _holds(claim: Claim, ours: float) -> bool:
    if claim.value is not None:
        digits = len(f"{claim.value:g}".partition(".")[2])
        return abs(ours - claim.value) <= 0.5 * 10.0**-digits + 1e-9
    return (claim.at_least is None or ours >= claim.at_least) and (claim.at_most is None or ours <= claim.at_most)


def run(workspace: Workspace) -> ExperimentFindings:
    """Compare the paper's numbers and claims with the stored measures of the other experiments."""
    numbers = paper_numbers()
    stored = {key: read_stored(workspace, key) for key in {each.asset for each in (*numbers.tables, *numbers.claims)}}
    rows = ledger_rows({key: found.findings.measures for key, found in stored.items() if found is not None})
    by_verdict = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    counts = {verdict: len(listed) for verdict, listed in by_verdict.items()}
    explained = sum(row.why != _UNEXPLAINED for row in by_verdict[NOT_REPRODUCED])
    conclusions = [
        f"{len(rows)} numbers and claims of the paper: {counts[REPRODUCED]} reproduced by the paper's procedure as "
        f"written, {counts[BY_OURS]} only by our procedure, {counts[FOLLOWS]} follow from the paper's own tables, "
        f"{counts[NOT_REPRODUCED]} not reproduced ({explained} with the reason), {counts[NEEDS_MODELS]} need language "
        f"models, {counts[NOT_RUN]} are not computed in this workspace.",
        f"A number counts as reproduced if it is within {numbers.within:.0%} or two standard deviations of the printed "
        "number.",
        "The paper's procedure as written uses judges with at most 10 % missing scores, and items that all these "
        "judges scored. CARE-SVD applies weights to raw scores; CARE-Tensor is Algorithm 2. Labels of 15 % of the "
        "items select penalties from the paper's grids; errors are measured on the other 85 % (five random splits).",
        "Tables: " + "; ".join(f"{table.label}, {table.about}" for table in numbers.tables) + ".",
        "To compute a row again, run `care run --select key:ASSET`, then `care run --select key:ledger`.",
    ]
    tables = [Table(verdict, [_cells(row) for row in listed]) for verdict, listed in by_verdict.items() if listed]
    return ExperimentFindings(conclusions, tables)


def _cells(row: LedgerRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "what": row.claim,
        "the paper": row.paper,
        "by the paper's procedure": row.as_written,
        "by our procedure": row.ours,
        "released code": row.released,
        "why": row.why,
        "asset": row.asset,
    }


EXPERIMENT = Experiment(
    key="ledger",
    title="The paper's numbers, one by one",
    paper="The paper has six tables of numbers, and makes claims in its text and figures.",
    protocol=(
        "The file assets/experiments/paper_numbers.yaml lists the paper's numbers, their places in the paper, and "
        "measurements of the authors' released code. The other experiments compute the same numbers, once by the "
        "paper's procedure as written and once by our procedure. The first decides whether a number is reproduced. "
        "If a test set has no published scores, language models must score it first."
    ),
    run=run,
)
EXPERIMENTS = (EXPERIMENT,)
