"""Release gate: a decision on whether a new system is better or worse than an old system.

The decision uses the confidence interval (``results.rates``) of the difference between the systems' mean labels.
"""

from dataclasses import dataclass, replace

import numpy as np

from care_ops.errors import FitError, InputError
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.results.pairs import Duels
from care_ops.results.rates import LEVEL, Difference, Labelled
from care_ops.results.sequential import rates_at_looks


class TooFewLabelsError(InputError, FitError):
    """Error for valid input that has too few labels for a decision."""


@dataclass(frozen=True)
class Decision:
    """Decision of a gate between two systems.

    Attributes
    ----------
    outcome : {"better", "not worse", "worse", "undecided"}
        "not worse" means that the whole interval lies above ``-margin``.
    difference : Difference
        Mean label of the new system minus mean label of the old system.
    margin : float
        Non-inferiority margin: how much worse the new system may be, in units of the labels.
    """

    outcome: str
    difference: Difference
    margin: float

    @property
    def passes(self) -> bool | None:
        """Whether the new system passes the gate; None if the gate is undecided."""
        return {"better": True, "not worse": True, "worse": False, "undecided": None}[self.outcome]

    def __bool__(self) -> bool:
        """Raise ``TypeError``, because ``if gate(...)`` would accept every outcome."""
        raise TypeError("a gate's decision is not a truth value; use its .passes (True, False or None) or .outcome")


def gate(given: Labelled, new: str, old: str, *, margin: float = 0.0, level: float = LEVEL, seed: int = 0) -> Decision:
    """Compare two systems by the interval of ``new`` minus ``old`` and a non-inferiority margin fixed in advance.

    With a 90 % interval, an equally good system is called better in at most 5 % of cases, and worse in at most 5 %. If
    ``order``, the order of the labels in time, is given, these rates also hold if the gate runs after every label. For
    ``Duels``, only pairs of the two systems are used, and the margin is a difference of win rates.

    Raises
    ------
    InputError
        The systems are the same, one system has no items, no pair compares the systems, the margin is negative or
        exceeds every possible difference, or a level, a probability, a bound or a label is invalid.
    TooFewLabelsError
        There are fewer than ``MIN_LABELS`` labels of a system, or of the pairs that compare the systems.
    """
    if isinstance(given, Duels):
        _check_the_two(new, old, margin, 1.0)
        try:
            duels = replace(given, of_these_items=False, level=level, seed=seed)
            return _decided(duels.difference(new, old), margin)
        except FitError as error:
            raise TooFewLabelsError(f"{error} with `care label`") from error
    labels, systems = given.labels, given.systems or ()
    known = labels[~np.isnan(labels)]
    shares = np.isin(known, (0.0, 1.0)).all() if given.repeats is None else given.repeats.shares
    low, high = (0.0, 1.0) if shares or not len(known) else given.bounds or (float(known.min()), float(known.max()))
    _check_the_two(new, old, margin, high - low)
    if missing := [name for name in (new, old) if name not in systems]:
        there = sorted({name for name in systems if name}, key=lambda name: (name not in (new, old), name))
        remedy = f"choose from {', '.join(there)}" if there else "name the system of each item"
        raise InputError(f"gate: no item belongs to the system {' or '.join(missing)}; {remedy}")
    if given.order is None:
        labelled = [name for name, label in zip(systems, labels, strict=True) if not np.isnan(label)]
        counts = {name: labelled.count(name) for name in (new, old)}
        if lacking := {name: MIN_LABELS - n for name, n in counts.items() if n < MIN_LABELS}:
            raise TooFewLabelsError(
                f"{' and '.join(f'{name} has {count} labels of random items' for name, count in counts.items())}, "
                f"but each system needs {MIN_LABELS}: label "
                f"{' and '.join(f'{more} more random items of {name}' for name, more in lacking.items())}"
            )
    compared = replace(given, systems=[name if name in (new, old) else None for name in systems])
    rates = rates_at_looks(compared, level=level, of_these_items=False, seed=seed)
    return _decided(rates.difference(new, old), margin)


def _check_the_two(new: str, old: str, margin: float, width: float) -> None:
    if new == old:
        raise InputError(f"gate: {new!r} cannot be compared with itself; name another system")
    if margin < 0:
        raise InputError(f"gate: the margin (how much worse {new!r} may be) must be 0 or more, got {margin:g}")
    if 0 < width <= margin:
        raise InputError(
            f"gate: a margin of {margin:g} lets every system pass, because no difference exceeds {width:g}; give a "
            "smaller margin, such as 0.02 for two percentage points"
        )


def _decided(difference: Difference, margin: float) -> Decision:
    if difference.lo > 0:
        outcome = "better"
    elif difference.hi < -margin:
        outcome = "worse"
    elif margin > 0 and difference.lo > -margin:
        outcome = "not worse"
    else:
        outcome = "undecided"
    return Decision(outcome, difference, margin)
