"""Differences between the inputs, weights and estimates of two versions of a test set's fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assets.workspace import Workspace
from care_ops.errors import InputError, counted, listed
from care_ops.metrics import changed
from care_ops.scores import canonical_order
from warehouse.fits import FitRecord, FitVersion

_ALL_RESCORED = "items were added, removed or changed, or every judge's scores changed"

_ITEMS_COMPARED = 10
"""Number of items that a comparison of two fits lists, largest change first."""


def reasons(before: FitVersion, after: FitVersion) -> list[str]:
    """Describe in sentences how the inputs of two fit versions differ."""
    old, new = before.inputs, after.inputs
    added, removed = new.slices.keys() - old.slices.keys(), old.slices.keys() - new.slices.keys()
    rescored = {judge for judge in new.slices.keys() & old.slices.keys() if new.slices[judge] != old.slices[judge]}
    sentences: list[str] = []
    if len(rescored) > 1 and rescored == old.slices.keys() & new.slices.keys():  # for example after new items
        sentences, rescored = [_ALL_RESCORED], set()
    for judges, happened in ((added, "added"), (removed, "removed"), (rescored, "changed scores")):
        if judges:
            sentences.append(f"{counted(len(judges), 'judge')} {happened}: {listed(sorted(judges), 4)}")
    dropped = sorted((old.admitted - new.admitted) & new.slices.keys())
    if dropped:
        sentences.append(f"no longer admitted: {listed(dropped, 4)}")
    if old.code != new.code:
        sentences.append("the code changed")
    if (label_changes := changed_labels(before, after)) is not None:
        sentences.append(label_changes)
    elif old.settings != new.settings and not added and not removed:
        sentences.append("settings changed")
    return sentences or ["rebuilt from the same inputs"]


def changed_labels(before: FitVersion, after: FitVersion) -> str | None:
    """Describe in one sentence how the labels of two fit versions differ; return None if the labels are equal."""
    old, new = before.inputs.labels, after.inputs.labels
    counts = {
        "new": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "corrected": sum(old[item] != new[item] for item in old.keys() & new.keys()),
    }
    changes = ", ".join(f"{count} {change}" for change, count in counts.items() if count)
    return f"labels: {changes}" if changes else None


def kept_fit(workspace: Workspace, version: FitVersion, aggregator: str) -> FitRecord:
    """Read the fit of an aggregator in a fit version; raise ``InputError`` if there is none."""
    if aggregator not in version.fits:
        choices = ", ".join(version.fits)
        raise InputError(f"fit {version.fit_version} has no aggregator {aggregator!r}; choose from {choices}")
    return workspace.fits.read_fit(version.testset, version.fits[aggregator])


@dataclass(frozen=True)
class WeightMove:
    """Weight of a judge in two fits; None for a fit without the judge."""

    judge: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class ItemMove:
    """Estimates of an item in two fits, and the change divided by the earlier estimates' standard deviation."""

    item_id: str
    before: float
    after: float
    moved: float


@dataclass(frozen=True)
class Moved:
    """Differences between two versions of one aggregator's fit.

    Attributes
    ----------
    judges : list of WeightMove
        Weights of each judge, largest change first.
    items : list of ItemMove
        Estimates of the items that moved most, largest change first.
    order : float or None
        Rank correlation (Spearman) of the estimates over the shared items; None if undefined.
    top, other : int
        Number of shared items in the later fit's top tenth, and how many of them the earlier top tenth lacks.
    lost : str
        Sentence on the items that lost all scores; empty if there are none.
    """

    why: list[str]
    judges: list[WeightMove]
    items: list[ItemMove]
    order: float | None
    top: int
    other: int
    lost: str = ""

    def moves(self) -> list[str]:
        """Describe in sentences how far the estimates moved between the two fits."""
        order = "is not defined" if self.order is None else f"is {self.order:.3f}"
        return [
            f"the rank correlation between the old and the new estimates {order}",
            f"{self.other} of the {counted(self.top, 'item')} in the top tenth were not in it before",
        ]


def difference(workspace: Workspace, before: FitVersion, after: FitVersion, aggregator: str) -> Moved:
    """Compare the fits of one aggregator in two fit versions.

    Raises ``InputError`` if the versions belong to different test sets, or one lacks the aggregator.
    """
    if before.testset != after.testset:
        raise InputError(
            f"fit {before.fit_version} belongs to test set {before.testset!r}, but {after.fit_version} belongs to "
            f"{after.testset!r}; choose two fits of the same test set"
        )
    fits = [kept_fit(workspace, version, aggregator) for version in (before, after)]
    old, new = (fit.weights for fit in fits)
    both = sorted({judge for fit in fits for judge in fit.judges})
    names = sorted(both, key=lambda j: -abs(new.get(j, 0.0) - old.get(j, 0.0)))
    judges = [WeightMove(j, old.get(j), new.get(j)) for j in names]
    ids, then = np.array(fits[0].item_ids, dtype=object), fits[0].answer.estimate
    now = fits[1].in_order(fits[0].item_ids).estimate
    had_score, has_score = ~np.isnan(then), ~np.isnan(now)
    rows = np.flatnonzero(had_score & has_score)
    rows = rows[canonical_order(ids[rows].tolist())]
    spread = (float(np.std(then[had_score])) if had_score.any() else 0.0) or 1.0
    moved = (now - then) / spread
    furthest = rows[np.argsort(-np.abs(moved[rows]), kind="stable")[:_ITEMS_COMPARED]].tolist()
    items = [ItemMove(str(ids[k]), float(then[k]), float(now[k]), float(moved[k])) for k in furthest]
    whole = changed(now[rows], then[rows])
    order = None if np.isnan(whole.correlation) else whole.correlation
    had, has = (set(fit.item_ids) for fit in fits)
    lost = [item for item in ids[had_score & ~has_score] if item in has]
    lost_scores = f"{counted(len(lost), 'item')} lost every score, such as {lost[0]!r}" if lost else ""
    first_scores = int((has_score & ~had_score).sum())
    of_items = {"added": len(has - had), "removed": len(had - has), "got their first scores": first_scores}
    item_changes = [f"{counted(count, 'item')} {happened}" for happened, count in of_items.items() if count]
    why = [why for why in reasons(before, after) if not (item_changes and why == _ALL_RESCORED)]
    return Moved(
        [*filter(None, [lost_scores]), *why, *item_changes],
        judges,
        items,
        order,
        whole.top,
        whole.top_changed,
        lost_scores,
    )
