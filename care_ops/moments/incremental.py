"""Moments brought up to date from those of yesterday's panel: only what changed is summed.

Rows that are new, gone or different are added to or taken from the sums; judges that are gone are sliced
out; a judge that is new, or whose scores changed on many items, is summed with all others once.

Belongs here: what of a panel changed, and whether an update is cheaper than a full pass. Belongs elsewhere: the sums
(``moments``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.moments.state import Moments, accumulate
from care_ops.scores import ScoreMatrix

Array = NDArray[np.float64]

WORTH_FROM = 5e8
"""Least n p^3 for which an update is worth the files that it needs. A full pass over fewer takes less than a second."""

LEAST_JUDGES = 96
"""Fewest judges for which an update is worth it: with fewer, reading both panels costs more than to sum one of them."""

MOST_SCORES = 50_000_000
"""Largest panel, in scores, that is updated: both panels are held in memory, which a full pass does not need."""

MOST_WORK = 0.5
"""Largest work of an update, as a share of a full pass. Where an update needs more, a full pass is made."""

MOST_UPDATES = 30
"""Most updates after one another. Then a full pass is made, so that rounding cannot add up over months."""

_RESCORED = 0.2
"""A judge whose scores changed on more than this share of the items counts as a new judge."""


def is_worth_updating(items: int, judges: int) -> bool:
    """Whether an update of the sums of a panel of this size can cost less than a full pass over its file."""
    enough = judges >= LEAST_JUDGES and items * judges**3 >= WORTH_FROM
    return enough and items * judges <= MOST_SCORES


@dataclass(frozen=True)
class Change:
    """The difference of a panel from the one before, as positions in canonical order.

    Attributes
    ----------
    kept : (k,) array
        Judges of the earlier panel that stay.
    added : (p - k,) array
        Judges of the present panel that the earlier did not have, or had with other scores.
    removed_rows, added_rows : arrays
        Rows of the earlier panel to take away, and of the present one to add.
    work : float
        Cost of the update as a share of a full pass.
    """

    kept: NDArray[np.intp]
    added: NDArray[np.intp]
    removed_rows: NDArray[np.intp]
    added_rows: NDArray[np.intp]
    work: float


def change(then: ScoreMatrix, now: ScoreMatrix) -> Change:
    """Compare two panels, both in canonical order (``ScoreMatrix.canonical``)."""
    rows = {item: i for i, item in enumerate(then.item_ids)}
    origin = np.array([rows.get(item, -1) for item in now.item_ids], dtype=np.intp)
    common = origin >= 0
    columns = {judge: j for j, judge in enumerate(then.judges)}
    kept: list[int] = []
    added: list[int] = []
    differs = np.zeros(int(common.sum()), dtype=bool)
    for j, judge in enumerate(now.judges):
        if judge not in columns:
            added.append(j)
            continue
        before, after = then.values[origin[common], columns[judge]], now.values[common, j]
        changed = ~((before == after) | (np.isnan(before) & np.isnan(after)))
        if changed.sum() > _RESCORED * len(changed):
            added.append(j)
        else:
            kept.append(columns[judge])
            differs |= changed
    moved = np.flatnonzero(common)[differs]
    gone = np.ones(len(then.item_ids), dtype=bool)
    gone[origin[common]] = False
    removed_rows = np.concatenate([np.flatnonzero(gone), origin[moved]])
    added_rows = np.concatenate([np.flatnonzero(~common), moved])
    n, p = now.shape
    touched = (len(removed_rows) + len(added_rows)) / max(n, 1)
    return Change(
        np.array(kept, dtype=np.intp),
        np.array(added, dtype=np.intp),
        removed_rows,
        added_rows,
        touched + 3 * len(added) / max(p, 1),
    )


def updated(state: Moments, then: ScoreMatrix, now: ScoreMatrix, shift: Array) -> Moments | None:
    """The moments of ``now`` from those of ``then``; None where a full pass is needed or costs no more.

    Equal to a full pass up to rounding: the sums run over the same products.

    Parameters
    ----------
    state : Moments
        Moments of ``then``, with the judges in sorted order.
    then, now : ScoreMatrix
    shift : (p,) array
        The shift that a full pass would subtract, with the judges in sorted order. Where scores are missing the third
        moments depend on it a little, so that an update must have the same shift.

    Returns
    -------
    Moments of ``now``, judges in sorted order, or None.
    """
    then, now = then.canonical(), now.canonical()
    difference = change(then, now)
    if difference.work > MOST_WORK or not len(difference.kept):
        return None
    here = np.setdiff1d(np.arange(len(now.judges)), difference.added)
    moments = state.select(difference.kept)
    missing = bool(np.isnan(then.values).any() or np.isnan(now.values).any())
    if missing and not np.array_equal(moments.shift, shift[here]):
        return None
    if len(difference.removed_rows):
        gone = then.values[np.ix_(difference.removed_rows, difference.kept)]
        moments = moments - accumulate(gone, moments.shift, like=moments.n)
    if len(difference.added_rows):
        moments = moments.with_items(now.values[np.ix_(difference.added_rows, here)])
    order = [int(j) for j in here]
    for j in map(int, difference.added):
        moments = moments.with_judge(now.values[:, order], now.values[:, j], float(shift[j]))
        order.append(j)
    return moments.select(np.argsort(order))
