"""What an experiment is, what it found, and where that is kept.

An experiment is made again where its code, its size or what it reads has changed; what it found is a JSON
file, from which its page is drawn.
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
    """The rows with these columns, by default all that any of them has; a dash where one has none."""
    columns = columns or list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name, "–") for name in columns} for row in rows]


def least_first(values: Mapping[str, float], digits: int) -> str:
    """``name value`` by rising value, for a sentence."""
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
    """What an experiment was made from: its code, and the panels (``panels.panel_versions``) where it reads them."""

    code: str
    reads: Mapping[str, str] | None


@dataclass(frozen=True)
class KeptExperiment:
    """What an experiment found last, as it is stored.

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
        """The parameters asked for: small or full."""
        return dict(self.full if workspace.experiments == "full" else self.small)

    def current(self, workspace: Workspace, reads: Mapping[str, str] | None) -> bool:
        """Whether the kept findings were made from the same code and inputs, at the size asked for or a larger one."""
        size, kept = self.size(workspace), self.kept(workspace)
        return (
            kept is not None
            and kept.version == version(self.key, reads)
            and all(name in kept.size and _covers(kept.size[name], value) for name, value in size.items())
        )

    def kept(self, workspace: Workspace) -> KeptExperiment | None:
        """The findings of the last run; None where there are none, or an earlier release wrote them in another form."""
        document = find_sound(workspace.experiment_file(self.key), read_document)
        try:
            return None if document is None else record_of(KeptExperiment, document)
        except ValueError as error:
            _log.info("%s: what is kept is of another release (%s), and counts as not there", self.key, error)
            return None

    def keep(
        self, workspace: Workspace, findings: ExperimentFindings, reads: Mapping[str, str] | None, *, seconds: float
    ) -> None:
        """Write what was found, and what it was made from."""
        kept = KeptExperiment(version(self.key, reads), self.size(workspace), seconds, findings)
        write_document(workspace.experiment_file(self.key), json.loads(json.dumps(document_of(kept), default=float)))


def version(key: str, reads: Mapping[str, str] | None) -> ExperimentVersion:
    """What an experiment would be made from now."""
    return ExperimentVersion(code_version(f"{__package__}.{key}", "care_ops"), reads)


def said(size: Mapping[str, Value]) -> str:
    """Parameters and their values in words, for a page."""

    def values(value: Value) -> str:
        return f"{value:,}" if isinstance(value, int) else ", ".join(f"{v:,g}" for v in value)

    return "; ".join(f"{name} {values(value)}" for name, value in size.items())


def _covers(kept: Value, asked: Value) -> bool:
    if isinstance(kept, int) or isinstance(asked, int):
        return isinstance(kept, int) and isinstance(asked, int) and kept >= asked
    return set(asked) <= set(kept)
