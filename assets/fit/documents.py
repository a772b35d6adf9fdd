"""The JSON documents that the stages of a fit leave for one another, as records.

Belongs here: what each document holds. Belongs elsewhere: moments, structures and matrices (``kept``), what is computed
from a fit afterwards (``assets.results``), and anything that imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from care_ops.config import Program
from warehouse.documents import FolderDocument

if TYPE_CHECKING:
    from care_ops.probes import ProbeResponses


@dataclass(frozen=True)
class PanelDocument(FolderDocument):
    """What the panel was made of.

    Attributes
    ----------
    slices : dict judge -> content hash
    settings, code : str
        Versions of the roster with the admission rule, and of the code.
    panel : str
        Fingerprint of the admitted matrix.
    """

    NAME: ClassVar[str] = "panel"

    slices: dict[str, str]
    settings: str
    code: str
    panel: str


@dataclass(frozen=True)
class ProbesDocument(FolderDocument):
    """How judges respond to probes; the attributes are those of ``care_ops.probes.ProbeResponses``.

    Attributes
    ----------
    item_ids, kinds : tuple of str
        Of each version the item that it was made from, and how.
    spoils : dict kind -> bool
    judges : tuple of str
    changes : tuple of tuples
        By version and judge; null where either score is missing.
    """

    NAME: ClassVar[str] = "probes"

    item_ids: tuple[str, ...]
    kinds: tuple[str, ...]
    spoils: dict[str, bool]
    judges: tuple[str, ...]
    changes: tuple[tuple[float | None, ...], ...]

    @classmethod
    def of(cls, responses: ProbeResponses) -> ProbesDocument:
        """The document of these responses."""
        changes = tuple(tuple(None if v != v else float(v) for v in row) for row in responses.changes)
        return cls(responses.item_ids, responses.kinds, dict(responses.spoils), responses.judges, changes)

    def responses(self) -> ProbeResponses:
        """The responses that the document holds."""
        import numpy as np

        from care_ops.probes import ProbeResponses

        changes = np.array(self.changes, dtype=np.float64).reshape(len(self.item_ids), len(self.judges))
        return ProbeResponses(self.item_ids, self.kinds, self.spoils, self.judges, changes)


@dataclass(frozen=True)
class CountedDocument(FolderDocument):
    """The panel whose sums were kept for the next night.

    Attributes
    ----------
    code : str
        Version of the code that summed; empty while the files beside this one are being written.
    updates : int
        Nights since all items were summed.
    panel : str
        Fingerprint of the matrix.
    """

    NAME: ClassVar[str] = "counted"

    code: str
    updates: int
    panel: str


@dataclass(frozen=True)
class CertificateRecord:
    """How far a structure is from optimal, as in ``care_ops.structure.program.Certificate``."""

    primal: float
    dual: float
    gap: float
    tolerance: float
    iterations: int
    converged: bool
    solver_gap: float | None = None


@dataclass(frozen=True)
class SolutionRecord:
    """What is said of a structure beside its two matrices."""

    program: Program
    lambda_s: float
    lambda_l: float
    certificate: CertificateRecord


@dataclass(frozen=True)
class StructureDocument(FolderDocument):
    """How the structure was found.

    Attributes
    ----------
    details : dict
        Penalties and how they were come by.
    failures : dict stage -> message
    solution : SolutionRecord or None
        None where the panel allows no structure; then ``failures`` says why.
    """

    NAME: ClassVar[str] = "structure"

    details: dict[str, float]
    failures: dict[str, str]
    solution: SolutionRecord | None


@dataclass(frozen=True)
class FitDocument(FolderDocument):
    """The current fit of a test set, and what it was made from.

    Attributes
    ----------
    fit_ids : tuple of (aggregator, fit_id)
        In the configured order of the aggregators.
    failures : dict aggregator or stage -> message
    edition : str
    panel, settings, code : str
        Fingerprint of the panel; versions of the fit's settings and of the code of all stages.
    """

    NAME: ClassVar[str] = "fit"

    fit_ids: tuple[tuple[str, str], ...]
    failures: dict[str, str]
    edition: str
    panel: str
    settings: str
    code: str

    @property
    def by_aggregator(self) -> dict[str, str]:
        """Id of the fit by aggregator, in the configured order."""
        return dict(self.fit_ids)
