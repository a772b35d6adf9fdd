"""JSON documents that the stages of a fit exchange, as records."""

from dataclasses import dataclass

from care_ops.records import Certificate


@dataclass(frozen=True)
class PanelDocument:
    """Inputs of a panel: hashes of each judge's scores, and versions of settings, code and source of the items.

    ``panel`` is the fingerprint of the admitted matrix.
    """

    slices: dict[str, str]
    settings: str
    code: str
    panel: str
    source: str | None = None


@dataclass(frozen=True)
class SolutionRecord:
    """Penalties and certificate of a structure."""

    lambda_s: float
    lambda_l: float
    certificate: Certificate


@dataclass(frozen=True)
class StructureDocument:
    """The solution of the structure, or the reason why there is none.

    Attributes
    ----------
    details : dict
        Penalties and how they were chosen.
    solution : SolutionRecord or None
        None if the panel allows no structure; then ``failures`` says why.
    """

    details: dict[str, float]
    failures: dict[str, str]
    solution: SolutionRecord | None


@dataclass(frozen=True)
class FitDocument:
    """The current fit of a test set and its inputs.

    Attributes
    ----------
    fit_ids : tuple of (aggregator, fit_id)
        In the configured order of the aggregators.
    panel, settings, code : str
        Fingerprint of the panel; versions of the fit's settings and of the code of all stages.
    """

    fit_ids: tuple[tuple[str, str], ...]
    failures: dict[str, str]
    fit_version: str
    panel: str
    settings: str
    code: str

    @property
    def by_aggregator(self) -> dict[str, str]:
        """Return the id of the fit by aggregator, in the configured order."""
        return dict(self.fit_ids)
