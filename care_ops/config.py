"""Settings of a fit: rule for admitting judges, penalties and aggregators.

The module does not import numpy, because reading a configuration must be fast.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval

from care_ops.errors import InputError
from care_ops.minimum_sizes import MIN_RESAMPLES

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Absent = Literal["auto", "failed", "not_asked"]
Placement = Literal["panel", "weights"]

DEFAULT_AGGREGATORS = ("care", "mv", "avg", "uws", "care_svd", "care_tensor")
"""Default aggregators of every command; the first one gives the recommended estimate."""

AGGREGATORS = (
    *DEFAULT_AGGREGATORS,
    "median",
    "families",
    "factor_analysis",
    "dawid_skene",
    "glad",
    "mace",
    "ws",
    "best_judge",
    "care_tensor_paper",
)
"""Names of all aggregators (keys of ``aggregators.registry.REGISTRY``), in display order."""

PAPER_PROFILE: dict[str, Any] = {
    "aggregators": ("care_svd", "care_tensor_paper", "mv", "avg", "ws", "uws", "dawid_skene", "glad", "mace"),
    "placement": "weights",
}
"""Settings of ``profile: paper``: Algorithms 1 and 2 as written, and the baselines of the paper's tables."""

LABEL_FREE = tuple(name for name in AGGREGATORS if name not in ("best_judge", "care_tensor_paper"))
"""All aggregators except two: ``best_judge`` needs labels, and ``care_tensor_paper`` rejects panels whose third moment
shows no states."""


NOTHING_ELSE = {"extra": "forbid"}
"""Value of ``__pydantic_config__`` that makes a settings class reject unknown keys of a file."""


_ATTRIBUTE = re.compile(r"^(\w+(?:, \w+)*) : (?:\{(.*)\})?.*$")


def check(settings: Any, settings_name: str) -> None:
    """Validate each field of a settings dataclass against its declared type.

    Raises ``InputError`` if a value has the wrong type, is outside its bounds or is not one of the allowed values.
    """
    from pydantic import ValidationError

    for name, adapter in _bounded(type(settings)).items():
        value = getattr(settings, name)
        try:
            adapter.validate_python(value)
        except ValidationError as error:
            why = error.errors()[0]["msg"].replace("Input should", f"{name} must")
            raise InputError(f"{settings_name}: {why}, got {value!r}") from None


def _is_finite_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)


@cache
def _bounded(kind: type) -> dict[str, TypeAdapter[Any]]:
    from pydantic import TypeAdapter

    hints = get_type_hints(kind, include_extras=True)
    return {name: TypeAdapter(hint) for name, hint in hints.items() if get_origin(hint) in (Annotated, Literal)}


def explained(kind: type) -> dict[str, str]:
    """Parse the docstring of a settings class; return a description of each field, with any allowed values first."""
    lines = textwrap.dedent("    " + (kind.__doc__ or "")).splitlines()
    words_of: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if match := _ATTRIBUTE.match(line):
            names = match[1].split(", ")
            words_of |= {
                name: [match[2].replace('"', "").replace(", ", " | ") + "." if match[2] else ""] for name in names
            }
        elif line.startswith("    "):
            for name in names:
                words_of[name].append(line.strip())
    return {name: " ".join(filter(None, words)) for name, words in words_of.items()}


def with_profile(options: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults of the chosen ``profile`` to fit settings; explicit settings take precedence.

    Raises ``InputError`` if the profile is neither ``care`` (the defaults) nor ``paper``.
    """
    profile, given = options.get("profile", "care"), {k: v for k, v in options.items() if k != "profile"}
    if profile not in ("care", "paper"):
        raise InputError(f"fit: there is no profile {profile!r}; use care or paper")
    return {**PAPER_PROFILE, **given} if profile == "paper" else given


def named(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are fields of a settings class."""
    return {entry.name: options[entry.name] for entry in fields(kind) if entry.name in options}


@dataclass(frozen=True)
class AdmissionRule:
    """Rule that decides which judges a panel admits; see ``admission.check_panel``.

    Attributes
    ----------
    admit : {"rule", "all"}
        ``rule`` leaves out judges whose scores are often missing, nearly constant or joined to the wrong items
        (``care_ops.admission``); ``all`` admits every judge that has at least two different scores.
    absent : {"auto", "failed", "not_asked"}
        Meaning of an absent score: the judge failed, and this counts against the judge; or the judge was not asked, as
        in crowdsourcing. ``auto`` means not asked if most judges lack more than a tenth of the scores. If CARE itself
        runs judges on the test set, ``auto`` means failed.
    max_missing : float
        Maximum share of missing scores of an admitted judge (paper: 10 %); CARE uses the judge's other scores.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    admit: Literal["rule", "all"] = "rule"
    absent: Absent = "auto"
    max_missing: Annotated[float, Interval(ge=0, le=1)] = 0.50

    def __post_init__(self) -> None:
        check(self, "admission")


@dataclass(frozen=True)
class StructureConfig:
    """Penalties of the sparse + low-rank program; see ``aggregators.care_svd.fit_structure``.

    Attributes
    ----------
    gamma : float
        Penalty of S in units of sqrt(log p / n) * m; m is the median diagonal entry of the inverse correlation. The
        paper's theorem on sample complexity requires a penalty of the order 1 / sqrt(n).
    tau : float
        Ratio of the penalty of L to the penalty of S, divided by sqrt(p) for p judges. The default was
        chosen on draws from the paper's model (docs/method.md).
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    gamma: Annotated[float, Gt(0)] = 1.0
    tau: Annotated[float, Gt(0)] = 0.5

    def __post_init__(self) -> None:
        check(self, "structure")


@dataclass(frozen=True)
class Calibration:
    """Scale of the estimates and prevalence of good items, for all aggregators of a fit.

    Attributes
    ----------
    scale : str
        ``own``: each aggregator's own scale. ``anchors``: the labels set the location; five labels or more also set
        the slope (ten or more if ``FitConfig.scale`` is declared).
    prevalence : float, optional
        Declared share of good items (Q = 1); this share of the estimates will lie above the threshold.
    """

    scale: str = "own"
    prevalence: float | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("own", "anchors"):
            raise InputError(f"calibration: scale is {self.scale!r}; use own or anchors")
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise InputError(f"calibration: prevalence is {self.prevalence}; give a share between 0 and 1")


POSITION = "position"
"""Feature name for the position of a row in the file; it belongs in ``not_quality`` if rows are in random order."""


@dataclass(frozen=True)
class FitConfig:
    """Settings of a fit; together with the scores, they determine the result.

    Attributes
    ----------
    aggregators : tuple of str
        Aggregators to compute, in this order; the first gives the recommended estimate.
    cut : float, optional
        Value above which a score is a vote for a good item (Q = 1); labels of 0 and 1 already mean fail and pass.
    scale : (low, high), optional
        Declared scale that all judges share; ``care`` then averages the scores without standardising them.
    calibration : Calibration
    structure : StructureConfig
    placement : {"panel", "weights"}
        Estimate of ``care_svd``. ``panel``: E[Q | J] at the location and spread of the panel's mean. ``weights``: the
        paper's w'J, a mean of the raw scores, weighted by the loadings on quality. See docs/method.md.
    resamples : int
        Number of bootstrap resamples for intervals of weights: at least 20, or 0 for no intervals.
    seed : int
        Seed of the random starts; CARE combines the seed with a hash of the scores.
    not_quality : tuple of str
        Text features that are declared not to be part of quality; ``care`` removes everything that they explain.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    aggregators: tuple[str, ...] = DEFAULT_AGGREGATORS
    cut: float | None = None
    scale: tuple[float, float] | None = None
    calibration: Calibration = field(default_factory=Calibration)
    structure: StructureConfig = field(default_factory=StructureConfig)
    placement: Placement = "panel"
    resamples: Annotated[int, Ge(0)] = 60
    seed: Annotated[int, Ge(0)] = 0
    not_quality: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.aggregators, str):  # one name, not a sequence of letters
            object.__setattr__(self, "aggregators", (self.aggregators,))
        check(self, "fit")
        for name, value in (("cut", self.cut), *(("scale", end) for end in self.scale or ())):
            if value is not None and not _is_finite_number(value):
                raise InputError(f"fit: {name} is {value!r}; give a finite number")
        if 0 < self.resamples < MIN_RESAMPLES:
            raise InputError(
                f"fit: resamples is {self.resamples}; give 0 for no intervals, or at least {MIN_RESAMPLES}"
            )
        unknown = [name for name in self.aggregators if name not in AGGREGATORS]
        if unknown or not self.aggregators:
            problem = f"there is no aggregator {unknown[0]!r}" if unknown else "no aggregator is named"
            raise InputError(f"fit: {problem}; choose from {', '.join(AGGREGATORS)}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> FitConfig:
        """Build the configuration from a flat mapping of options, where ``calibrate`` sets ``calibration.scale``."""
        options = with_profile(options)
        return cls(
            **named(cls, options),
            calibration=Calibration(options.get("calibrate", "own"), options.get("prevalence")),
            structure=StructureConfig(**named(StructureConfig, options)),
        )

    def fingerprint(self) -> str:
        """Return a SHA-256 hash of the configuration."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
