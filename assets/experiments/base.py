"""Records of the experiments that reproduce the paper, and of their findings.

Findings are stored as JSON. They are stale if code or inputs have changed, or if they are of the size ``small``
and the current size is ``full``.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import call
from typing import Any, Literal, TypeVar

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
    """Run each simulation with the seeds 0 to ``seeds - 1``; return the results in the order of the seeds."""
    calls = [partial(draw, seed) for draw in draws.values() for seed in range(seeds)]
    results = workspace.workers.map(call, calls)
    return {key: [*islice(results, seeds)] for key in draws}


@dataclass(frozen=True)
class Table:
    """Table of numbers and text; a page shows a missing cell as a dash."""

    title: str
    rows: Sequence[Mapping[str, Any]]

    @property
    def columns(self) -> list[str]:
        """Column names of all rows, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


@dataclass(frozen=True)
class Chart:
    """Line chart of one or more curves over a common x axis."""

    title: str
    x: str
    y: str
    curves: Sequence[Series]
    kind: Literal["chart"] = "chart"


@dataclass(frozen=True)
class Heatmap:
    """Heat map of values between -1 and 1; None marks an undefined value."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number | None]]
    kind: Literal["heatmap"] = "heatmap"


@dataclass(frozen=True)
class ExperimentFindings:
    """Findings of an experiment: conclusions, tables, figures and named measures."""

    conclusions: Sequence[str]
    tables: Sequence[Table] = ()
    figures: Sequence[Chart | Heatmap] = ()
    measures: Mapping[str, Number] = field(default_factory=dict[str, Number])


def joined(parts: Iterable[ExperimentFindings], otherwise: str = "") -> ExperimentFindings:
    """Join several findings into one; if none of them has a conclusion, the conclusion is ``otherwise``."""
    parts = [*parts]
    return ExperimentFindings(
        [line for part in parts for line in part.conclusions] or [otherwise],
        [table for part in parts for table in part.tables],
        [figure for part in parts for figure in part.figures],
        {name: value for part in parts for name, value in part.measures.items()},
    )


def find_or_report(find: Callable[[Any], ExperimentFindings | None], panel: Any) -> ExperimentFindings | None:
    """Return the findings of ``find`` for a panel; if the panel cannot be fitted, report the reason."""
    try:
        return find(panel)
    except FitError as error:
        return ExperimentFindings([f"{panel.testset}: {error}"])


def for_each(
    panels: Iterable[Any], find: Callable[[Any], ExperimentFindings | None], otherwise: str
) -> ExperimentFindings:
    """Join the findings that ``find`` returns for each panel; if a panel cannot be fitted, report the reason."""
    return joined((found for panel in panels if (found := find_or_report(find, panel)) is not None), otherwise)


def ascending(values: Mapping[str, float], digits: int) -> str:
    """Format the names and values of a mapping as text, in ascending order of value."""
    return ", ".join(f"{name} {values[name]:.{digits}f}" for name in sorted(values, key=lambda name: values[name]))


Value = int | Sequence[Number]
"""Parameter of an experiment: an integer, or a sequence of values that the experiment compares."""

Size = Literal["small", "full"]


@dataclass(frozen=True)
class StoredExperiment:
    """Stored findings of an experiment, with the versions of the code and the inputs."""

    version: Mapping[str, str]
    size: Size
    seconds: float
    findings: ExperimentFindings


def read_stored(workspace: Workspace, key: str) -> StoredExperiment | None:
    """Read the stored findings of an experiment; return None if no findings in this release's format are stored."""
    document = find_sound(workspace.experiment_file(key), read_document)
    try:
        return None if document is None else record_of(StoredExperiment, document)
    except ValueError as error:
        _log.info("%s: cannot read results of another CARE release (%s); run `care run --experiments`", key, error)
        return None


@dataclass(frozen=True)
class Experiment:
    """Experiment that reproduces a table, a figure or claims of the paper.

    ``key`` is the name of the asset and of the page. ``run(workspace, **parameters)`` returns the findings. By
    default, the parameters are those in ``small``; for a run at the paper's size, they are those in ``full``.
    """

    key: str
    title: str
    paper: str
    protocol: str
    run: Callable[..., ExperimentFindings]
    small: Mapping[str, Value] = field(default_factory=dict[str, Value])
    full: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def parameters(self, size: str) -> Mapping[str, Value]:
        """Return the parameters of a run at the size ``small`` or ``full``."""
        return self.full if size == "full" else self.small

    def is_current(self, workspace: Workspace, version: Mapping[str, str]) -> bool:
        """Return whether findings of this ``version`` are stored, at the configured size or at full size."""
        stored = read_stored(workspace, self.key)
        return stored is not None and stored.version == version and stored.size in ("full", _size(workspace))

    def store(
        self, workspace: Workspace, findings: ExperimentFindings, version: Mapping[str, str], *, seconds: float
    ) -> None:
        """Store findings with the versions of the code and inputs that produced them."""
        stored = StoredExperiment(version, _size(workspace), seconds, findings)
        write_document(workspace.experiment_file(self.key), json.loads(json.dumps(document_of(stored), default=float)))


def _size(workspace: Workspace) -> Size:
    return "full" if workspace.experiments == "full" else "small"
