"""Records of the paper's experiments and of their stored findings.

Findings are stored as JSON, from which the page is drawn. They are stale when the code, the size or the inputs change.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from assets.code import code_version
from assets.report.charts import Series
from assets.workspace import Workspace
from warehouse.documents import document_of, record_of
from warehouse.storage import find_sound, read_document, write_document

_log = logging.getLogger(__name__)

Number = int | float


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words; numbers are printed with three digits."""

    title: str
    rows: Sequence[Mapping[str, Any]]


def filled(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return rows with the same columns, a dash where a row has no value."""
    columns = columns or list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name, "–") for name in columns} for row in rows]


def ascending(values: Mapping[str, float], digits: int) -> str:
    """Format names and values in ascending order of value."""
    return ", ".join(f"{name} {values[name]:.{digits}f}" for name in sorted(values, key=lambda name: values[name]))


@dataclass(frozen=True)
class Chart:
    """Curves over one axis."""

    title: str
    x: str
    y: str
    curves: Sequence[Series]
    logarithmic: bool = False
    kind: Literal["chart"] = "chart"


@dataclass(frozen=True)
class Heatmap:
    """A heat map of correlations, or of other values between -1 and 1.

    Attributes
    ----------
    rows, columns : sequences of str
    values : (rows, columns) nested sequences of float or None
        None where undefined.
    marks : nested sequences of str, of the same shape
        Texts of the cells.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number | None]]
    marks: Sequence[Sequence[str]]
    kind: Literal["heatmap"] = "heatmap"


@dataclass(frozen=True)
class ExperimentFindings:
    """What an experiment found.

    Attributes
    ----------
    says : list of str
        Conclusions; every number in them is computed.
    measures : mapping name -> number
        What the ledger of the paper's numbers reads (``ledger``).
    """

    says: Sequence[str]
    tables: Sequence[Table] = ()
    figures: Sequence[Chart | Heatmap] = ()
    measures: Mapping[str, Number] = field(default_factory=dict[str, Number])


Value = int | Sequence[Number]
"""A parameter: a number, or the values that an experiment goes through."""


@dataclass(frozen=True)
class ExperimentVersion:
    """Versions of an experiment's code and, if it reads panels, of its panels."""

    code: str
    reads: Mapping[str, str] | None


@dataclass(frozen=True)
class KeptExperiment:
    """Stored findings of an experiment's last run.

    Attributes
    ----------
    size : mapping parameter -> value
        What ``Experiment.run`` was given.
    seconds : float
        How long it ran.
    """

    version: ExperimentVersion
    size: Mapping[str, Value]
    seconds: float
    findings: ExperimentFindings


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables or figures.

    Attributes
    ----------
    key : str
        Name of the asset, the file and the page.
    title, asks, paper : str
        Heading, what was asked, and what the paper says.
    protocol : str
        How it is done here, with everything that the paper leaves open.
    run : callable (workspace, **size) -> ExperimentFindings
    small, full : mapping parameter -> value
        What ``run`` is given by default, and at the paper's own size.
    """

    key: str
    title: str
    asks: str
    paper: str
    protocol: str
    run: Callable[..., ExperimentFindings]
    small: Mapping[str, Value] = field(default_factory=dict[str, Value])
    full: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def size(self, workspace: Workspace) -> dict[str, Value]:
        """Return the parameters of the configured size, small or full."""
        return dict(self.full if workspace.experiments == "full" else self.small)

    def current(self, workspace: Workspace, reads: Mapping[str, str] | None) -> bool:
        """Return whether the stored findings have current code and inputs and at least the configured size."""
        size, kept = self.size(workspace), self.kept(workspace)
        return (
            kept is not None
            and kept.version == version(self.key, reads)
            and all(name in kept.size and _covers(kept.size[name], value) for name, value in size.items())
        )

    def kept(self, workspace: Workspace) -> KeptExperiment | None:
        """Return the stored findings, or None if there are none that this release can read."""
        document = find_sound(workspace.experiment_file(self.key), read_document)
        try:
            return None if document is None else record_of(KeptExperiment, document)
        except ValueError as error:
            _log.info("%s: what is kept is of another release (%s), and counts as not there", self.key, error)
            return None

    def keep(
        self, workspace: Workspace, findings: ExperimentFindings, reads: Mapping[str, str] | None, *, seconds: float
    ) -> None:
        """Store the findings with the versions of code and inputs."""
        kept = KeptExperiment(version(self.key, reads), self.size(workspace), seconds, findings)
        write_document(workspace.experiment_file(self.key), json.loads(json.dumps(document_of(kept), default=float)))


def version(key: str, reads: Mapping[str, str] | None) -> ExperimentVersion:
    """Return the current versions of an experiment's code and inputs."""
    return ExperimentVersion(code_version(f"{__package__}.{key}", "care_ops"), reads)


def size_text(size: Mapping[str, Value]) -> str:
    """Format parameters and their values for a page."""

    def values(value: Value) -> str:
        return f"{value:,}" if isinstance(value, int) else ", ".join(f"{v:,g}" for v in value)

    return "; ".join(f"{name} {values(value)}" for name, value in size.items())


def _covers(kept: Value, asked: Value) -> bool:
    if isinstance(kept, int) or isinstance(asked, int):
        return isinstance(kept, int) and isinstance(asked, int) and kept >= asked
    return set(asked) <= set(kept)
