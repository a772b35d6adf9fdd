"""Is the new system better, worse, or is there not enough evidence: a decision for a pull request.

The decision rests on the interval of the difference in mean label, corrected by labels of both systems
(``results.rates``). Whether a release may pass is a question about items to come, so the target is the population from
which the items were drawn, not these items alone; and neither system's rate borrows from the other's, which would pull
their difference towards what the judges say.

Belongs here: the rule. Does not: estimates, exit codes and wording for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.results.rates import Difference, Repeats, rates_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Decision:
    """What a gate says.

    Attributes
    ----------
    outcome : {"better", "not worse", "worse", "undecided"}
        "not worse" says that the new system loses less than the margin, with the interval's confidence.
    difference : Difference
        New less old.
    margin : float
        Loss that is let pass, in units of the labels.
    """

    outcome: str
    difference: Difference
    margin: float

    @property
    def passes(self) -> bool | None:
        """True and False where the evidence decides; None where it does not."""
        return {"better": True, "not worse": True, "worse": False, "undecided": None}[self.outcome]


def gate(
    estimate: Array,
    labels: Array,
    systems: Sequence[str | None],
    new: str,
    old: str,
    units: Sequence[str] | None = None,
    chance: Array | None = None,
    repeats: Repeats | None = None,
    *,
    margin: float = 0.0,
    level: float = 0.9,
    seed: int = 0,
) -> Decision:
    """Compare the interval of ``new`` less ``old`` with 0 and with the margin.

    With a 90 % interval a system as good as the old one is called worse in at most 5 % of cases, and better in at most
    5 %. The margin has to be fixed before the labels are seen.

    Parameters
    ----------
    estimate, labels, systems, units, chance, repeats, level, seed
        As in ``rates_of``; items of other systems are left out.
    new, old : str
    margin : float

    Raises
    ------
    InputError
        The same system twice, a negative margin, or a system without enough labels.
    FitError
        Neither system has enough labels.
    """
    if new == old:
        raise InputError(f"gate: {new!r} is compared with itself; name another system")
    if margin < 0:
        raise InputError(f"gate: the margin is the loss that is let pass, 0 or more, got {margin:g}")
    compared = [name if name in (new, old) else None for name in systems]
    rates = rates_of(
        estimate,
        labels,
        compared,
        units,
        chance,
        repeats,
        level=level,
        of_these_items=False,
        borrow=False,
        seed=seed,
    )
    difference = rates.difference(new, old)
    if difference.lo > 0:
        outcome = "better"
    elif difference.hi < -margin:
        outcome = "worse"
    elif margin > 0 and difference.lo > -margin:
        outcome = "not worse"
    else:
        outcome = "undecided"
    return Decision(outcome, difference, margin)
