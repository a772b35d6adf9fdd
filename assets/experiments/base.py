"""Records of the paper's experiments and of their stored findings.

Findings are stored as JSON, from which the page is drawn. They are stale when the code, the size or the inputs change.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import call
from typing import Any, Literal, Protocol, TypeVar

from assets.code import code_version
from assets.report.charts import Series
from assets.workspace import Workspace
from care_ops.errors import FitError
from warehouse.documents import document_of, record_of
from warehouse.storage import find_sound, read_document, write_document

_log = logging.getLogger(__name__)

Number = int | float

K = TypeVar("K")
R = TypeVar("R")


def by_seed(workspace: Workspace, seeds: int, draws: Mapping[K, Callable[[int], R]]) -> dict[K, list[R]]:
    """Call each function with each seed, on the run's workers where these pay."""
    calls = [partial(draw, seed) for draw in draws.values() for seed in range(seeds)]
    found = workspace.workers.map(call, calls)
    return {key: [*islice(found, seeds)] for key in draws}


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words; a row that lacks a column has a dash there."""

    title: str
    rows: Sequence[Mapping[str, Any]]

    @property
    def columns(self) -> list[str]:
        """Return the columns of all rows, in the order in which they appear."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


@dataclass(frozen=True)
class Chart:
    """Curves over one axis."""

    title: str
    x: str
    y: str
    curves: Sequence[Series]
    kind: Literal["chart"] = "chart"


@dataclass(frozen=True)
class Heatmap:
    """Values between -1 and 1, (rows, columns), None where undefined; ``marks`` are the texts of the cells."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number | None]]
    marks: Sequence[Sequence[str]]
    kind: Literal["heatmap"] = "heatmap"


@dataclass(frozen=True)
class ExperimentFindings:
    """Findings of an experiment: conclusions, tables, figures, and the measures that the ledger reads, by name."""

    conclusions: Sequence[str]
    tables: Sequence[Table] = ()
    figures: Sequence[Chart | Heatmap] = ()
    measures: Mapping[str, Number] = field(default_factory=dict[str, Number])


def joined(parts: Iterable[ExperimentFindings], otherwise: str = "") -> ExperimentFindings:
    """Join findings; where they hold no conclusion, ``otherwise`` is the only one."""
    parts = [*parts]
    return ExperimentFindings(
        [line for part in parts for line in part.conclusions] or [otherwise],
        [table for part in parts for table in part.tables],
        [figure for part in parts for figure in part.figures],
        {name: value for part in parts for name, value in part.measures.items()},
    )


class _OfTestset(Protocol):
    @property
    def testset(self) -> str: ...


T = TypeVar("T", bound=_OfTestset)


def for_each(panels: Iterable[T], find: Callable[[T], ExperimentFindings | None], otherwise: str) -> ExperimentFindings:
    """Join the findings on every panel; a panel that cannot be fitted contributes the reason."""

    def attempt(panel: T) -> ExperimentFindings | None:
        try:
            return find(panel)
        except FitError as error:
            return ExperimentFindings([f"{panel.testset}: {error}"])

    return joined((found for panel in panels if (found := attempt(panel)) is not None), otherwise)


def ascending(values: Mapping[str, float], digits: int) -> str:
    """Format names and values in ascending order of value."""
    return ", ".join(f"{name} {values[name]:.{digits}f}" for name in sorted(values, key=lambda name: values[name]))


Value = int | Sequence[Number]
"""A parameter: a number, or the values that an experiment goes through."""

Size = Literal["small", "full"]


@dataclass(frozen=True)
class ExperimentVersion:
    """Versions of an experiment's code and of the panels or findings that it reads."""

    code: str
    reads: Mapping[str, str] | None


@dataclass(frozen=True)
class StoredExperiment:
    """Stored findings of an experiment's last run."""

    version: ExperimentVersion
    size: Size
    seconds: float
    findings: ExperimentFindings


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables or figures.

    Attributes
    ----------
    key : str
        Name of the asset, the module and the page.
    title, question, paper : str
        Heading, the question, and the paper's result.
    protocol : str
        The procedure, with everything that the paper leaves open.
    run : callable (workspace, **parameters) -> ExperimentFindings
    small, full : mapping parameter -> value
        Parameters of ``run`` by default, and at the paper's own size.
    """

    key: str
    title: str
    question: str
    paper: str
    protocol: str
    run: Callable[..., ExperimentFindings]
    small: Mapping[str, Value] = field(default_factory=dict[str, Value])
    full: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def parameters(self, size: str) -> Mapping[str, Value]:
        """Return the parameters of a size."""
        return self.full if size == "full" else self.small

    def is_current(self, workspace: Workspace, reads: Mapping[str, str] | None) -> bool:
        """Return whether the stored findings have current code and inputs and at least the configured size."""
        stored = self.stored(workspace)
        return (
            stored is not None
            and stored.version == version(self.key, reads)
            and stored.size in ("full", workspace.experiments)
        )

    def stored(self, workspace: Workspace) -> StoredExperiment | None:
        """Return the stored findings, or None if there are none that this release can read."""
        document = find_sound(workspace.experiment_file(self.key), read_document)
        try:
            return None if document is None else record_of(StoredExperiment, document)
        except ValueError as error:
            _log.info("%s: the stored findings have the form of another release (%s); run it again", self.key, error)
            return None

    def store(
        self, workspace: Workspace, findings: ExperimentFindings, reads: Mapping[str, str] | None, *, seconds: float
    ) -> None:
        """Store the findings with the versions of code and inputs."""
        size: Size = "full" if workspace.experiments == "full" else "small"
        stored = StoredExperiment(version(self.key, reads), size, seconds, findings)
        write_document(workspace.experiment_file(self.key), json.loads(json.dumps(document_of(stored), default=float)))


def version(key: str, reads: Mapping[str, str] | None) -> ExperimentVersion:
    """Return the current versions of an experiment's code and inputs."""
    return ExperimentVersion(code_version(f"{__package__}.{key}", "care_ops"), reads)


def in_words(parameters: Mapping[str, Value]) -> str:
    """Format parameters and their values."""

    def values(value: Value) -> str:
        return f"{value:,}" if isinstance(value, int) else ", ".join(f"{v:,g}" for v in value)

    return "; ".join(f"{name} {values(value)}" for name, value in parameters.items())
