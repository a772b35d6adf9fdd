"""Settings of a fit: admission, penalties, aggregators.

Plain data without numpy, so that reading a configuration costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Le, Lt

from care_ops.errors import InputError, listed
from care_ops.least import LEAST_RESAMPLES

Program = Literal["frobenius", "dtrace"]
Missing = Literal["pairwise", "em"]
ObservationModel = Literal["gaussian", "graded", "categorical", "student", "scale_mixture"]
Absent = Literal["auto", "failed", "not_asked"]
Placement = Literal["panel", "weights"]
Covariance = Literal["diagonal", "full"]
QualityRule = Literal["leading", "balance", "style", "probes", "anchors"]
DeclaredRule = Literal["leading", "balance", "probes"]
"""The rules for the quality factor that a person may declare."""

Groups = tuple[tuple[str, ...], ...]
"""Groups of judges, by their names."""

DEFAULT_AGGREGATORS = ("care", "mv", "avg", "uws", "care_svd", "care_tensor")
"""Aggregators that every command runs unless others are named; the first is the recommended answer."""

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
"""Names in ``aggregators.REGISTRY``, in the order in which they are shown."""

LABEL_FREE = tuple(name for name in AGGREGATORS if name not in ("best_judge", "care_tensor_paper"))
"""All but ``best_judge``, which needs labels, and ``care_tensor_paper``, which
refuses panels whose third moment shows no states."""


Bound = tuple[Callable[[Any], bool], str]
"""A function that says whether a value lies within a bound, and the bound in words."""

NOTHING_ELSE = {"extra": "forbid"}
"""The ``__pydantic_config__`` of a settings class that is read from a file: keys without a field are refused."""


_ATTRIBUTE = re.compile(r"^(\w+(?:, \w+)*) : (?:\{(.*)\})?.*$")


def check(settings: Any, settings_name: str) -> None:
    """Hold each field of a settings dataclass against what its type declares.

    Raises ``InputError`` where a number lies outside its bounds, or a word is none of those that are allowed.
    """
    for name, bounds, words in _declared(type(settings)):
        value = getattr(settings, name)
        outside = next((words_of for holds, words_of in bounds if not holds(value)), None)
        if outside is not None:
            raise InputError(f"{settings_name}: {name} is {value}; give a value {outside}")
        if words and value not in words:
            raise InputError(f"{settings_name}: {name} is {value!r}; use {', '.join(words)}")


@cache
def _declared(kind: type) -> list[tuple[str, list[Bound], tuple[str, ...]]]:
    """Fields of a settings class with their bounds and their allowed words."""
    hints = get_type_hints(kind, include_extras=True)
    declared: list[tuple[str, list[Bound], tuple[str, ...]]] = []
    for entry in fields(kind):
        hint = hints[entry.name]
        metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        plain = get_args(hint)[0] if metadata else hint
        words = get_args(plain) if get_origin(plain) is Literal else ()
        declared.append((entry.name, [bound for m in metadata for bound in _bounds(m)], words))
    return declared


def _bounds(metadata: Any) -> list[Bound]:
    match metadata:
        case Interval():
            return [bound for part in metadata for bound in _bounds(part)]
        case Ge(limit):
            return [(lambda value: value >= limit, f"of at least {limit:g}")]
        case Gt(limit):
            return [(lambda value: value > limit, f"above {limit:g}")]
        case Le(limit):
            return [(lambda value: value <= limit, f"of at most {limit:g}")]
        case Lt(limit):
            return [(lambda value: value < limit, f"below {limit:g}")]
        case _:
            raise TypeError(f"no bound is known that is declared by {metadata!r}")


def explained(kind: type) -> dict[str, str]:
    """What each field of a settings class means, from the ``Attributes`` of its docstring, allowed words first."""
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


def named(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that are fields of a settings class."""
    return {entry.name: options[entry.name] for entry in fields(kind) if entry.name in options}


@dataclass(frozen=True)
class AdmissionRule:
    """Who is admitted to a panel; see ``admission.check_panel``.

    Attributes
    ----------
    admit : {"rule", "all"}
        ``rule`` leaves out judges that miss too many scores, say next to nothing or are joined to the wrong items
        (``care_ops.admission``); ``all`` admits every judge that has at least two different scores.
    absent : {"auto", "failed", "not_asked"}
        What a score that is not there means: that its judge failed, which counts against the judge, or that it was not
        asked, as in a crowd. ``auto`` takes it for not asked where most judges lack more than ``max_missing``; of
        a test set whose judges are asked by CARE, it takes it for failed.
    max_missing : float
        Largest share of missing or out-of-range scores (paper: 10 %).
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    admit: Literal["rule", "all"] = "rule"
    absent: Absent = "auto"
    max_missing: Annotated[float, Interval(ge=0, le=1)] = 0.10

    def __post_init__(self) -> None:
        check(self, "admission")


@dataclass(frozen=True)
class StructureConfig:
    """Penalties and constraints of the structure program; see ``aggregators.care_svd.fit_structure``.

    Attributes
    ----------
    program : {"frobenius", "dtrace"}
        Loss of the program that splits the precision into S - L: that of the paper's Algorithm 1, or the D-trace loss.
    gamma : float
        Penalty: gamma_n = gamma * sqrt(log p / n) * median diagonal of the loss's target (the paper's theorem on sample
        complexity asks for the order 1 / sqrt(n)).
    tau : float
        Weight of L's penalty over that of S: tau * sqrt(p), at which neither of the two takes up a shared factor alone.
    edges_within : tuple of groups of judges, optional
        Groups of judges, like [[a, b], [c, d]]: S has a direct edge only between judges of one group. With [] it has
        none, with null between any two judges. See docs/method.md.
    nonnegative_within : tuple of groups of judges
        Groups of judges between which no entry of L is negative: what they share never sets two of them against each
        other. With this or ``edges_within`` a general conic solver takes the place of our own.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    program: Program = "frobenius"
    gamma: Annotated[float, Gt(0)] = 1.0
    tau: Annotated[float, Gt(0)] = 0.5
    edges_within: Groups | None = None
    nonnegative_within: Groups = ()

    def __post_init__(self) -> None:
        check(self, "structure")
        for name in ("edges_within", "nonnegative_within"):
            for group in getattr(self, name) or ():
                if len(set(group)) < 2:
                    raise InputError(
                        f"structure: {name} has the group [{', '.join(group)}], which is no pair of judges; give two "
                        "names or more, or leave it out"
                    )

    @property
    def is_constrained(self) -> bool:
        """Whether the program has constraints of its own."""
        return self.edges_within is not None or bool(self.nonnegative_within)

    def refuse_unknown(self, judges: Collection[str], where: str) -> None:
        """Raise ``InputError`` where a constraint names a judge that is not among these; the message begins so."""
        groups = (*(self.edges_within or ()), *self.nonnegative_within)
        unknown = sorted({judge for group in groups for judge in group} - set(judges))
        if unknown:
            raise InputError(
                f"{where}edges_within or nonnegative_within names {listed(unknown, 5)}, which is no judge; there are "
                f"{listed(sorted(judges), 20) or 'none'}"
            )


@dataclass(frozen=True)
class TensorConfig:
    """How ``care_tensor`` sees the judges; see ``aggregators.care_tensor``.

    Attributes
    ----------
    states : int
        States of ``care_tensor``'s mixture: two for each binary latent; 0 chooses by the Bayesian criterion (BIC).
    views : {"within", "structure"}
        How ``care_tensor`` groups judges into three views: by the precision within the states of a mixture that is
        fitted first, or by S (Algorithm 2, step A), which has edges that are the states' own as well.
    observation_model : {"gaussian", "graded", "categorical", "student", "scale_mixture"}
        How a judge's score is distributed given the state. With ``gaussian`` every judge is Gaussian. With the others a
        judge of two values is Bernoulli and one of at most ten grades is an ordered logit (with ``categorical`` its
        grades have no order); a judge of more values is Gaussian, with ``student`` Student's t, and with
        ``scale_mixture`` all such judges share one scale of noise on each item. See docs/method.md.
    covariance : {"diagonal", "full"}
        Whether Gaussian judges are independent within a state, or may depend on one another in any way (the paper's
        Sigma); a full one is fitted to the items that every judge scored.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    states: Annotated[int, Interval(ge=0, le=32)] = 4
    views: Literal["within", "structure"] = "within"
    observation_model: ObservationModel = "gaussian"
    covariance: Covariance = "diagonal"

    def __post_init__(self) -> None:
        check(self, "tensor")
        if self.states == 1:
            raise InputError("tensor: states is 1, which tells no items apart; give 2 or more, or 0 to choose by BIC")
        if self.covariance == "full" and self.observation_model != "gaussian":
            raise InputError("tensor: a full covariance is one of Gaussian judges; leave observation_model out")


@dataclass(frozen=True)
class Calibration:
    """What is *declared* about the scale of quality; the same for every aggregator of a fit.

    Attributes
    ----------
    scale : str
        ``own``: each aggregator's own (the panel's location and spread for latent ones). ``uniform``: quality fills
        the declared scale evenly. ``judge:NAME``: quality is distributed as that judge's scores are. ``anchors``:
        location, and from five labels on (ten where a scale is declared) slope, are those of the anchors.
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
        What is computed, in this order; the first is the recommended answer.
    cut : float, optional
        Scores above it are votes for Q = 1.
    scale : (low, high), optional
        The scale that all judges share, where one is declared: then ``care`` averages scores as they are, else
        standardised ones.
    calibration : Calibration
    structure : StructureConfig
    tensor : TensorConfig
    quality : {"leading", "balance", "probes"}
        Which factor ``care_svd`` takes for quality where there are no anchors: the leading one, the one on which the
        judges load most evenly, or, where there are probes, the one nearest to what they say; with ``probes`` this
        holds for ``care_tensor`` too. See docs/method.md and docs/probes.md.
    subtract_confounders : bool
        Whether ``care_svd`` takes the other factors' directions off its weights.
    placement : {"panel", "weights"}
        What ``care_svd`` answers with: E[Q | J] at the location and spread of the panel's mean, or the paper's literal
        w'J, the raw scores weighted by the quality direction, with weights of sum one. See docs/method.md.
    missing : {"pairwise", "em"}
        Means and covariances over the items where the scores they need are present, or those of greatest likelihood,
        which allow for scores that are missing because of others. See docs/method.md.
    resamples : int
        Bootstrap resamples for intervals of weights, 20 or more; 0 for none.
    seed : int
        Mixed with the content of the scores into the seed of random starts.
    not_quality : tuple of str
        Features of the texts that are declared to be no part of quality: ``care`` takes out all that they explain.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    aggregators: tuple[str, ...] = DEFAULT_AGGREGATORS
    cut: float | None = None
    scale: tuple[float, float] | None = None
    calibration: Calibration = field(default_factory=Calibration)
    structure: StructureConfig = field(default_factory=StructureConfig)
    tensor: TensorConfig = field(default_factory=TensorConfig)
    quality: DeclaredRule = "leading"
    subtract_confounders: bool = False
    placement: Placement = "panel"
    missing: Missing = "pairwise"
    resamples: Annotated[int, Ge(0)] = 60
    seed: Annotated[int, Ge(0)] = 0
    not_quality: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.aggregators, str):  # one name, not a sequence of letters
            object.__setattr__(self, "aggregators", (self.aggregators,))
        check(self, "fit")
        if 0 < self.resamples < LEAST_RESAMPLES:
            raise InputError(
                f"fit: resamples is {self.resamples}; give 0 for no intervals, or {LEAST_RESAMPLES} and more"
            )
        unknown = [name for name in self.aggregators if name not in AGGREGATORS]
        if unknown or not self.aggregators:
            named = repr(unknown[0]) if unknown else "is named"
            raise InputError(f"fit: no aggregator {named}; there are {', '.join(AGGREGATORS)}")
        if self.calibration.scale == "uniform" and self.scale is None:
            raise InputError(
                "calibration: a uniform scale needs the test set's scale; declare its lowest and highest score"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> FitConfig:
        """The configuration that options of one flat list give; ``calibrate`` is the scale of quality."""
        return cls(
            **named(cls, options),
            calibration=Calibration(options.get("calibrate", "own"), options.get("prevalence")),
            structure=StructureConfig(**named(StructureConfig, options)),
            tensor=TensorConfig(**named(TensorConfig, options)),
        )

    def fingerprint(self) -> str:
        """Hash of the configuration."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
