"""Records of the review of a fit version."""

from dataclasses import dataclass, field
from typing import Any, Literal

PublicationState = Literal["published", "held back", "pinned"]

OF_THE_FIT = {"certificate", "quality", "drift"}
"""Checks of the new fit's results; if only these checks fail, a pinned fit still scores new items."""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check of a fit version.

    Attributes
    ----------
    message : str
        Result in a sentence and, if the check failed, the remedy.
    blocks : bool
        Whether the result blocks the fit version.
    """

    check: str
    passed: bool
    message: str
    numbers: dict[str, Any] = field(default_factory=dict[str, Any])
    blocks: bool = False


@dataclass(frozen=True)
class ReviewDocument:
    """Review of the latest fit version of a test set."""

    state: PublicationState
    fit_version: str
    findings: tuple[CheckResult, ...] = ()
