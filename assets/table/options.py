"""Options of a fit, shared by the command line and the Python library."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypedDict

from assets.table.fitting import TableConfig
from care_ops.config import POSITION, Absent, AdmissionRule, FitConfig, named
from care_ops.errors import InputError, guarded


class FitOptions(TypedDict, total=False):
    """Options of a fit; missing options keep their defaults.

    Attributes
    ----------
    aggregators : str or sequence of str
        Aggregators to compute, in this order; by default ``care_ops.config.DEFAULT_AGGREGATORS``.
    profile : {"care", "paper"}
        ``paper`` selects the paper's algorithms and baselines, with its settings; other options override the profile.
    cut, scale, seed :
        See ``care_ops.config.FitConfig``.
    scales : mapping judge -> (low, high)
        Scales of individual judges, whose scores are rescaled to the panel's scale (``--scale JUDGE=0:100``).
    gamma, tau :
        Penalties of the structure estimate (``care_ops.config.StructureConfig``); ``care select`` can choose them.
    calibrate : str
        ``own``: each aggregator keeps its own scale; ``anchors``: the labels set the scale of the estimates.
    prevalence : float
        Declared share of good items (Q = 1).
    admit, absent, max_missing :
        Rule that admits judges to the panel; see ``care_ops.config.AdmissionRule``.
    intervals : int
        Number of bootstrap resamples for weight intervals: at least 20, or 0 for no intervals.
    system : str or sequence of str
        Column of the items that names an item's system. Pairs need two columns, left and right; a high
        score favours the left system. ``systems`` is another name for this option.
    features : str or sequence of str
        Numeric item columns to check for judge bias, in addition to text features such as ``words``.
    shuffled : bool
        Whether the rows are in random order. Quality then cannot depend on the position in the file, so CARE
        removes every trend along the file as judge drift.
    not_quality : str or sequence of str
        Features (``words``, ``sentences``, ``list_items``, ``numbers``, or a column) that are not part of quality.
    """

    aggregators: str | Sequence[str]
    profile: Literal["care", "paper"]
    cut: float | None
    scale: tuple[float, float] | None
    scales: Mapping[str, tuple[float, float]]
    seed: int
    gamma: float
    tau: float
    calibrate: str
    prevalence: float | None
    admit: Literal["rule", "all"]
    absent: Absent
    max_missing: float
    intervals: int
    system: str | Sequence[str]
    features: str | Sequence[str]
    not_quality: str | Sequence[str]
    shuffled: bool


_ALSO = {"systems": "system", "feature": "features", "aggregator": "aggregators"}
"""Accepted spellings of options, and the names of these options."""

_NAMES = ("aggregators", "not_quality", "system", "features")
"""Options that take one name or several."""


@guarded("give each option a value of the type in `assets.table.options.FitOptions`", "the options of the fit")
def table_config(options: FitOptions) -> TableConfig:
    """Build the configuration of a table from options.

    Raises ``InputError`` if an option does not exist or its value is invalid.
    """
    given: dict[str, Any] = {_ALSO.get(name, name): value for name, value in options.items() if value is not None}
    if unknown := [name for name in given if name not in FitOptions.__annotations__]:
        near = "".join(
            f"; did you mean {name!r}?" for name in get_close_matches(unknown[0], FitOptions.__annotations__, 1)
        )
        names = ", ".join(sorted(FitOptions.__annotations__))
        raise InputError(f"a fit has no option {unknown[0]!r}; its options are {names}{near}")
    given |= {name: names_of(given[name]) for name in _NAMES if name in given}
    if given.get("shuffled"):
        given["not_quality"] = (*given.get("not_quality", ()), POSITION)
    if "intervals" in given:
        given["resamples"] = given["intervals"]
    admission = AdmissionRule(**named(AdmissionRule, given))
    scales, systems, features = (given.get(name, ()) for name in ("scales", "system", "features"))
    return TableConfig(FitConfig.of(given), admission, systems, dict(scales), features)


def names_of(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return a tuple of names; a string is a single name."""
    return (names,) if isinstance(names, str) else tuple(() if names is None else names)
