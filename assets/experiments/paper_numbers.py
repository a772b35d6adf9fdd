"""The paper's printed numbers and claims, and claims recomputed from its own tables."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from pydantic import TypeAdapter

from assets.experiments.base import Table

NUMBERS = Path(__file__).with_name("paper_numbers.yaml")

_NONE = "--"
"""How the paper prints a cell without a number."""


@dataclass(frozen=True)
class PrintedTable:
    """A table of the paper; ``paper_numbers.yaml`` describes the fields."""

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
        """Yield row, column, number and printed standard deviation of every cell with a number."""
        for row, numbers in self.printed.items():
            for column, text in zip(self.printed_columns, numbers, strict=True):
                if text != _NONE:
                    number, _, spread = str(text).partition(" ± ")
                    yield row, column, float(number), float(spread or 0.0)

    def names(self, row: str, column: str, written: Mapping[str, str]) -> tuple[str, str]:
        """Return the names of a cell's measures by our procedure and by the paper's (``PaperNumbers.written``)."""
        row, column = self.rows[row], self.columns[column]
        literal = {"row": written.get(row, row), "column": written.get(column, column)}
        return self.ours.format(row=row, column=column), self.as_written.format(**literal)


@dataclass(frozen=True)
class Claim:
    """A claim of the text or of a figure; ``paper_numbers.yaml`` describes the fields."""

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
    """The content of ``paper_numbers.yaml``."""

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
    """Read ``paper_numbers.yaml``."""
    return TypeAdapter(PaperNumbers).validate_python(yaml.safe_load(NUMBERS.read_text(encoding="utf-8")))


def measure(measures: Mapping[str, float], name: str) -> float | None:
    """Return the measure of this name, or of the first test set whose name contains the part before the slash."""
    part, slash, rest = name.partition("/")
    alike = (k for k in sorted(measures) if slash and part in k.partition("/")[0] and k.partition("/")[2] == rest)
    return measures.get(name) if name in measures else next((measures[key] for key in alike), None)


def as_printed(asset: str, measures: Mapping[str, float]) -> list[Table]:
    """Lay out an experiment's measures as the paper prints its tables."""
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
            title = f"{table.label} as the paper prints it, {table.about}: by its procedure as written, and by ours"
            laid_out.append(Table(title, rows))
    return laid_out


def _shown(measures: Mapping[str, float], name: str) -> str:
    value, spread = measure(measures, name), measure(measures, f"{name}, sd")
    return _NONE if value is None else f"{value:.3f}" + ("" if spread is None else f" ± {spread:.3f}")


_SCORING, _CLASSES = "tab:results_scoring", "tab:results_mix"


def _reductions(numbers: PaperNumbers, against: str) -> dict[str, float]:
    """Return the relative reduction of MAE by CARE-SVD on each scoring set, in percent."""
    table = numbers.table(_SCORING)
    return {s: 100 * (1 - table["CARE-SVD"][s] / value) for s, value in table[against].items()}


def _best_rows(numbers: PaperNumbers, label: str, choose: Callable[..., str] = min) -> list[str]:
    """Return, for each column, the row with the lowest (or the highest) number."""
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
    "scoring sets on which CARE-SVD is lowest": lambda n: _best_rows(n, _SCORING).count("CARE-SVD"),
    "sets on which a CARE is most accurate": lambda n: sum(
        row.startswith("CARE") for row in _best_rows(n, _CLASSES, max)
    ),
    "sets on which CARE-Tensor is most accurate": lambda n: _best_rows(n, _CLASSES, max).count("CARE-Tensor"),
    "gain of CARE-Tensor on Summarize in percent": _summarize_gain,
    "biases under which CARE-SVD moves least": lambda n: _best_rows(n, "tab:robustness_to_confounding_factors").count(
        "CARE-SVD"
    ),
    "openings at which CARE-Tensor has the fewest false positives": _fewest_false_positives,
    "loading of gemma-3-1b-it on the second factor": lambda n: n.table(_LOADINGS)["gemma-3-1b-it"][_SECOND],
    "whether the length dummy loads most on the second factor": lambda n: (
        _best_rows(n, _LOADINGS, max)[1] == "dummy_eval_1"
    ),
    "scoring sets on which the first factor is lowest": lambda n: _best_rows(n, "tab:heuristic_validation").count(
        "1st Factor"
    ),
}
"""Claims about the paper's own tables, computed from them."""
