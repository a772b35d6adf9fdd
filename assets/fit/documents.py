"""The JSON documents that the stages of a fit leave for one another, as records."""

from dataclasses import dataclass

from care_ops.records import Certificate


@dataclass(frozen=True)
class PanelDocument:
    """What the panel was made of: the content of each judge's slice, and versions of settings and code.

    ``panel`` is the fingerprint of the admitted matrix.
    """

    slices: dict[str, str]
    settings: str
    code: str
    panel: str


@dataclass(frozen=True)
class SolutionRecord:
    """What is said of a structure beside its two matrices."""

    lambda_s: float
    lambda_l: float
    certificate: Certificate


@dataclass(frozen=True)
class StructureDocument:
    """How the structure was found.

    Attributes
    ----------
    details : dict
        Penalties and how they were come by.
    solution : SolutionRecord or None
        None where the panel allows no structure; then ``failures`` says why.
    """

    details: dict[str, float]
    failures: dict[str, str]
    solution: SolutionRecord | None


@dataclass(frozen=True)
class FitDocument:
    """The current fit of a test set, and what it was made from.

    Attributes
    ----------
    fit_ids : tuple of (aggregator, fit_id)
        In the configured order of the aggregators.
    panel, settings, code : str
        Fingerprint of the panel; versions of the fit's settings and of the code of all stages.
    """

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
