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
    """A table of the paper.

    Attributes
    ----------
    label, about, asset : str
        Of the tex; what it shows; the experiment that computes ours.
    printed : mapping row -> numbers
        ``mean`` or ``mean ± standard deviation``.
    needs : str
        What cells lack whose test set nobody has scored.
    ours, as_written : str
        Name of the measure by this project's procedure and by the paper's own, as it is written, with {column} and
        {row}; it begins with a part of the test set's name.
    columns, rows : mapping
        What stands for a column and for a row in these names.
    recorded : tuple of str
        Columns whose scores the authors have released.
    released : mapping column -> row -> number
        What the authors' released code gives.
    absent : str
        Why ours may lack a row of a test set that it has.
    because : mapping column -> row -> reason
    """

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
    """A claim of the text or of a figure.

    Attributes
    ----------
    value : float, optional
        The number that it names.
    printed : str
        Name in ``FROM_TABLES`` of what the paper's own tables give.
    measure : str
        Name of our measure.
    as_written : str
        Name of the measure by the paper's own procedure; empty where ours is that.
    because : str
        Why it does not hold by one of the two procedures.
    at_least, at_most : float, optional
        What the measure must be where the claim names no number.
    """

    place: str
    says: str
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
    """Everything in ``paper_numbers.yaml``.

    Attributes
    ----------
    written : mapping
        By the name of an aggregator here that of the paper's procedure as it is written.
    within : float
        Relative difference up to which a number counts as reproduced.
    """

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


def measure(kept: Mapping[str, float], name: str) -> float | None:
    """Return the measure of this name, or of the first test set whose name contains the part before the slash."""
    if name in kept or "/" not in name:
        return kept.get(name)
    part, _, rest = name.partition("/")
    like = (key for key in sorted(kept) if part in key.partition("/")[0] and key.partition("/")[2] == rest)
    return next((kept[key] for key in like), None)


def as_printed(asset: str, kept: Mapping[str, float]) -> list[Table]:
    """Lay out an experiment's measures as the paper prints its tables."""
    numbers, made = paper_numbers(), list[Table]()
    for table in (table for table in numbers.tables if table.asset == asset):
        filled = list[dict[str, str]]()
        for row in table.printed:
            names = {column: table.names(row, column, numbers.written) for column in table.printed_columns}
            ours, literal = ({c: _shown(kept, both[which]) for c, both in names.items()} for which in (0, 1))
            filled.append({"": row or "(blank)", **literal})
            if any(cell not in (_NONE, literal[c]) for c, cell in ours.items()):
                filled.append({"": f"{row or '(blank)'}, ours", **ours})
        if any(cell != _NONE for row in filled for head, cell in row.items() if head):
            title = f"{table.label} as the paper prints it, {table.about}: by its procedure as written, and by ours"
            made.append(Table(title, filled))
    return made


def _shown(kept: Mapping[str, float], name: str) -> str:
    """Format a measure as the paper prints it, with its standard deviation if known."""
    value, spread = measure(kept, name), measure(kept, f"{name}, sd")
    return _NONE if value is None else f"{value:.3f}" + ("" if spread is None else f" ± {spread:.3f}")


_SCORING, _CLASSES = "tab:results_scoring", "tab:results_mix"


def _reductions(numbers: PaperNumbers, against: str) -> dict[str, float]:
    """Return the relative reduction of MAE by CARE-SVD on each scoring set, in percent."""
    table = numbers.table(_SCORING)
    return {s: 100 * (1 - table["CARE-SVD"][s] / value) for s, value in table[against].items()}


def _times_best(label: str, wanted: str, *, lowest: bool) -> Callable[[PaperNumbers], float]:
    def count(numbers: PaperNumbers) -> float:
        table, choose = numbers.table(label), min if lowest else max
        columns = next(iter(table.values()))
        best = [choose((row for row in table if c in table[row]), key=lambda row, c=c: table[row][c]) for c in columns]
        return float(sum(row.startswith(wanted) for row in best))

    return count


def _summarize_gain(numbers: PaperNumbers) -> float:
    table = numbers.table(_CLASSES)
    baseline = max(row["Summarize"] for name, row in table.items() if not name.startswith("CARE"))
    return 100 * (table["CARE-Tensor"]["Summarize"] / baseline - 1)


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
    "scoring sets on which CARE-SVD is lowest": _times_best(_SCORING, "CARE-SVD", lowest=True),
    "sets on which a CARE is most accurate": _times_best(_CLASSES, "CARE", lowest=False),
    "sets on which CARE-Tensor is most accurate": _times_best(_CLASSES, "CARE-Tensor", lowest=False),
    "gain of CARE-Tensor on Summarize in percent": _summarize_gain,
    "biases under which CARE-SVD moves least": _times_best(
        "tab:robustness_to_confounding_factors", "CARE-SVD", lowest=True
    ),
    "openings at which CARE-Tensor has the fewest false positives": _fewest_false_positives,
    "loading of gemma-3-1b-it on the second factor": lambda n: list(
        n.table("tab:confounding_appendix")["gemma-3-1b-it"].values()
    )[1],
    "whether the length dummy loads most on the second factor": _dummy_leads,
    "scoring sets on which the first factor is lowest": _times_best(
        "tab:heuristic_validation", "1st Factor", lowest=True
    ),
}
"""Claims about the paper's own tables, computed from them."""
