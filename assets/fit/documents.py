"""Records of the JSON documents that the stages of a fit exchange."""

from dataclasses import dataclass

from care_ops.records import Certificate


@dataclass(frozen=True)
class PanelDocument:
    """Versions of a panel's inputs: the scores of each judge, the settings, the code, and the source of the items.

    ``panel`` is the fingerprint of the matrix of admitted scores.
    """

    slices: dict[str, str]
    settings: str
    code: str
    panel: str
    source: str | None = None


@dataclass(frozen=True)
class SolutionRecord:
    """Penalties and duality gap of an estimated structure."""

    lambda_s: float
    lambda_l: float
    certificate: Certificate


@dataclass(frozen=True)
class StructureDocument:
    """Estimated structure of a panel's precision matrix, or the reason why there is none.

    Attributes
    ----------
    details : dict
        Penalties, and the values that determined the choice of the penalties.
    solution : SolutionRecord or None
        Penalties and duality gap of the structure; None if no structure could be estimated.
    """

    details: dict[str, float]
    failures: dict[str, str]
    solution: SolutionRecord | None


@dataclass(frozen=True)
class FitDocument:
    """Current fit of a test set, with the versions of its inputs.

    Attributes
    ----------
    fit_ids : tuple of (aggregator, fit_id)
        Id of each aggregator's fit, in the configured order of the aggregators.
    panel, settings, code : str
        Fingerprint of the panel, version of the fit's settings, and version of the code of all stages.
    """

    fit_ids: tuple[tuple[str, str], ...]
    failures: dict[str, str]
    fit_version: str
    panel: str
    settings: str
    code: str

    @property
    def by_aggregator(self) -> dict[str, str]:
        """Id of each aggregator's fit, in the configured order."""
        return dict(self.fit_ids)
