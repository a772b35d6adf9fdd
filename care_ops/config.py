"""What a fit can be told: admission, penalties, aggregators.

Plain data without numpy, so that reading a configuration costs nothing.

Belongs here: settings of the mathematics and their defaults. Does not: anything that computes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from care_ops.errors import InputError

Program = Literal["frobenius", "dtrace"]
Missing = Literal["pairwise", "em"]
Judges = Literal["gaussian", "graded", "categorical", "student", "scale_mixture"]
QualityRule = Literal["leading", "balance", "order", "style", "anchors"]

DEFAULT_AGGREGATORS = ("care", "mv", "avg", "uws", "care_svd", "care_tensor")
"""What every command runs unless told otherwise; the first is the recommended answer."""

AGGREGATORS = (
    *DEFAULT_AGGREGATORS,
    "median",
    "families",
    "factor_analysis",
    "latent_classes",
    "dawid_skene",
    "glad",
    "mace",
    "ws",
    "best_judge",
    "ged",
)
"""Names in ``aggregators.REGISTRY``, in the order in which they are shown."""

LABEL_FREE = tuple(name for name in AGGREGATORS if name not in ("best_judge", "ged"))
"""All but ``best_judge``, which is nothing without labels, and ``ged``, which is for pairs of systems alone."""


@dataclass(frozen=True)
class AdmissionRule:
    """Thresholds of admission to a panel; see ``quality.check_panel``.

    Attributes
    ----------
    admit : {"rule", "all"}
        ``all`` keeps every judge that has at least two different scores.
    max_missing : float
        Largest share of missing or out-of-range scores (paper: 10 %).
    max_mode_share : float
        A judge that gives one score this often, or more, is degenerate.
    min_entropy : float
        Bits; a judge whose scores carry less is degenerate.
    min_return : float
        Agreement that must come back under a shift or a re-join to call a judge misaligned.
    min_gain : float
        How far that agreement must exceed the one under the rows as they are.
    report_agreement : float
        Agreement below this, or below three standard errors of none at all (3 / sqrt n), is reported.
    """

    admit: Literal["rule", "all"] = "rule"
    max_missing: float = 0.10
    max_mode_share: float = 0.95
    min_entropy: float = 0.20
    min_return: float = 0.30
    min_gain: float = 0.25
    report_agreement: float = 0.1


@dataclass(frozen=True)
class StructureConfig:
    """Penalties of the structure program; see ``aggregators.care_svd.fit_structure``.

    Attributes
    ----------
    program : {"frobenius", "dtrace"}
        Algorithm 1's loss by default.
    gamma : float
        gamma_n = gamma * sqrt(log p / n) * median diagonal of the loss's target (theorem
        "Sample complexity": gamma_n of order 1/sqrt(n)).
    tau : float
        tau = tau * sqrt(p), the balance at which neither S nor L alone takes up a shared factor.
    """

    program: Program = "frobenius"
    gamma: float = 1.0
    tau: float = 0.5


@dataclass(frozen=True)
class TensorConfig:
    """How ``care_tensor`` sees the judges; see ``aggregators.care_tensor``.

    Attributes
    ----------
    states : int
        Of the mixture: two for each binary latent, 0 to choose by the Bayesian information criterion.
    views : {"structure", "within"}
        From S (Algorithm 2 step A), or from the precision within the states of a mixture fitted first.
    judges : {"gaussian", "graded", "categorical", "student", "scale_mixture"}
        What a judge is given the state. But for ``gaussian``, two-valued judges are Bernoulli and those of at most ten
        grades ordered logit (``categorical``: any order); the others are Gaussian, Student's t, or share one scale of
        noise by item (``observation``). Views and third moment then give no start.
    """

    states: int = 4
    views: Literal["structure", "within"] = "structure"
    judges: Judges = "gaussian"

    def __post_init__(self) -> None:
        if self.states == 1 or not 0 <= self.states <= 32:
            raise InputError(f"tensor: states is {self.states}; give 2 to 32, or 0 to choose by BIC")
        if self.views not in ("structure", "within"):
            raise InputError(f"tensor: views is {self.views!r}; use structure or within")
        if self.judges not in get_args(Judges):
            raise InputError(f"tensor: judges is {self.judges!r}; use {', '.join(get_args(Judges))}")


@dataclass(frozen=True)
class Calibration:
    """What is *declared* about the scale of quality; the same for every aggregator of a fit.

    Attributes
    ----------
    scale : str
        ``own``: each aggregator's own (the panel's location and spread for latent ones). ``uniform``: quality fills
        the declared scale evenly. ``judge:NAME``: quality is distributed as that judge's scores are. ``anchors``:
        location, and from thirty labels on slope, are those of the anchors.
    prevalence : float, optional
        Share of items with Q = 1: the threshold is put there.
    """

    scale: str = "own"
    prevalence: float | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("own", "uniform", "anchors") and not self.scale.startswith("judge:"):
            raise InputError(f"calibration: scale is {self.scale!r}; use own, uniform, judge:NAME or anchors")
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise InputError(f"calibration: prevalence is {self.prevalence}; give a share between 0 and 1")


@dataclass(frozen=True)
class FitConfig:
    """What a fit depends on besides the scores.

    Attributes
    ----------
    aggregators : tuple of str
        Some of ``AGGREGATORS``.
    cut : float, optional
        Scores above it are votes for Q = 1.
    scale : (low, high), optional
        The scale that all judges share, where one is declared: then ``care`` averages scores as they are, else
        standardised ones.
    calibration : Calibration
    structure : StructureConfig
    tensor : TensorConfig
    quality : {"leading", "balance"}
        How ``care_svd`` names the quality factor without anchors; see ``factors``.
    subtract_confounders : bool
        Whether ``care_svd`` takes the other factors' directions off its weights
        (``factors.subtract_confounders``).
    missing : {"pairwise", "em"}
        Means and covariances over the items where the scores they need are present, or the Gaussian ones of
        greatest likelihood (``missing.gaussian_by_em``), which allow for scores that are missing because of others.
    resamples : int
        Bootstrap resamples for intervals of weights (``uncertainty``); 0 for none.
    seed : int
        Mixed with the content of the scores into the seed of random starts.
    """

    aggregators: tuple[str, ...] = DEFAULT_AGGREGATORS
    cut: float | None = None
    scale: tuple[float, float] | None = None
    calibration: Calibration = field(default_factory=Calibration)
    structure: StructureConfig = field(default_factory=StructureConfig)
    tensor: TensorConfig = field(default_factory=TensorConfig)
    quality: Literal["leading", "balance"] = "leading"
    subtract_confounders: bool = False
    missing: Missing = "pairwise"
    resamples: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.aggregators if name not in AGGREGATORS]
        if unknown:
            raise InputError(f"fit: no aggregator {unknown[0]!r}; there are {', '.join(AGGREGATORS)}")
        if self.calibration.scale == "uniform" and self.scale is None:
            raise InputError(
                "calibration: a uniform scale needs the test set's scale; declare its lowest and highest score"
            )

    def fingerprint(self) -> str:
        """Hash of the configuration."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
