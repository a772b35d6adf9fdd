"""Probes: how judges respond to versions of an answer whose quality is known to be kept or spoilt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from care_ops.errors import InputError
from care_ops.records import Array
from care_ops.scores import ScoreMatrix, mean_of_present, rows_of


@dataclass(frozen=True)
class ProbeResponses:
    """Scores of versions less the scores of the items that they were made from.

    Attributes
    ----------
    item_ids : tuple of m str
        The item that each version was made from; an item may have several versions, also of one kind.
    kinds : tuple of m str
        How each version was made.
    spoils : mapping kind -> bool
        Whether a kind spoils quality; otherwise it keeps it.
    judges : tuple of p str
    changes : (m, p) array
        Score of the version less that of the original, in the judge's points; NaN where either is missing.
    """

    item_ids: tuple[str, ...]
    kinds: tuple[str, ...]
    spoils: Mapping[str, bool]
    judges: tuple[str, ...]
    changes: Array = field(repr=False)

    def __post_init__(self) -> None:
        if not self.item_ids:  # a list of no rows does not say how wide they are
            object.__setattr__(self, "changes", np.empty((0, len(self.judges))))
        if self.changes.shape != (len(self.item_ids), len(self.judges)) or len(self.kinds) != len(self.item_ids):
            raise InputError(
                f"probes: changes have shape {self.changes.shape}, but there are {len(self.item_ids)} versions, "
                f"{len(self.kinds)} kinds and {len(self.judges)} judges"
            )
        undeclared = sorted(set(self.kinds) - set(self.spoils))
        if undeclared:
            raise InputError(
                f"probes: it is not declared whether {undeclared[0]!r} keeps or spoils quality; declare every kind"
            )
        beyond = np.isinf(self.changes)
        if beyond.any():
            row, column = map(int, np.argwhere(beyond)[0])
            raise InputError(
                f"probes: judge {self.judges[column]!r} changes infinitely on {self.item_ids[row]!r} "
                f"({self.kinds[row]}); leave the score empty if it is missing"
            )

    def __len__(self) -> int:
        return len(self.item_ids)

    def fingerprint(self) -> str:
        """Content hash."""
        digest = hashlib.sha256(repr((self.item_ids, self.kinds, sorted(self.spoils.items()), self.judges)).encode())
        digest.update((self.changes + 0.0).tobytes())
        return digest.hexdigest()[:32]

    def names(self, *, spoil: bool) -> list[str]:
        """The kinds that occur and spoil quality, or that keep it; sorted."""
        return sorted(kind for kind in set(self.kinds) if self.spoils[kind] == spoil)

    def of_judges(self, judges: Sequence[str]) -> ProbeResponses:
        """The responses of these judges in this order; NaN for a judge that was not asked."""
        column = {judge: j for j, judge in enumerate(self.judges)}
        changes = np.full((len(self), len(judges)), np.nan)
        for j, judge in enumerate(judges):
            if judge in column:
                changes[:, j] = self.changes[:, column[judge]]
        return ProbeResponses(self.item_ids, self.kinds, self.spoils, tuple(judges), changes)

    def by_item(self, kind: str) -> tuple[tuple[str, ...], Array]:
        """The items of which there are versions of a kind, sorted, and the mean change of each, shape (items, p)."""
        of_kind = np.flatnonzero(np.array(self.kinds) == kind)
        rows = rows_of(self.item_ids[int(row)] for row in of_kind)
        items = tuple(sorted(rows))
        if not items:
            return (), np.empty((0, len(self.judges)))
        return items, np.array([mean_of_present(self.changes[of_kind[rows[item]]]) for item in items])

    def resampled(self, rng: np.random.Generator) -> ProbeResponses:
        """As many items drawn with replacement, with all their versions, under ids of their own."""
        by_item = rows_of(self.item_ids)
        items = sorted(by_item)
        drawn = [items[int(k)] for k in rng.integers(0, len(items), len(items))] if items else []
        rows = [row for item in drawn for row in by_item[item]]
        ids = tuple(f"{n:06d}" for n, item in enumerate(drawn) for _ in by_item[item])
        kinds = tuple(self.kinds[row] for row in rows)
        return ProbeResponses(ids, kinds, self.spoils, self.judges, self.changes[rows])


NO_PROBES = ProbeResponses((), (), {}, (), np.empty((0, 0)))


Version = tuple[str, str, bool]
"""The item that a version was made from, its kind, and whether that spoils quality."""


_TURNED = "swap"
"""Kind of which the scores are turned round at the middle of the scale before they are compared."""


def responses(
    versions: Mapping[str, Version],
    scores: ScoreMatrix,
    originals: ScoreMatrix,
    *,
    scale: tuple[float, float] | None = None,
) -> ProbeResponses:
    """What judges say of versions, beside what they say of the originals.

    Parameters
    ----------
    versions : mapping item_id -> Version
    scores : ScoreMatrix
        Of the versions, by any of the judges; its items are among ``versions``.
    originals : ScoreMatrix
        The panel. Versions of other items are left out, and so are judges that are not on it.
    scale : (low, high), optional
        Scores of versions outside it count as missing.

    Raises
    ------
    InputError
        There are versions whose scores are to be turned round, and no scale.
    """
    row = {item_id: k for k, item_id in enumerate(originals.item_ids)}
    kept = [k for k, item_id in enumerate(scores.item_ids) if versions[item_id][0] in row]
    made = [versions[scores.item_ids[k]] for k in kept]
    judges = [judge for judge in scores.judges if judge in originals.judges]
    values = scores.select_judges(judges).values[kept]
    if scale is not None:
        values = np.where((values < scale[0]) | (values > scale[1]), np.nan, values)
    is_turned = np.array([kind == _TURNED for _, kind, _ in made], dtype=bool)
    if is_turned.any():
        if scale is None:
            raise InputError(
                f"probes: scores of kind {_TURNED!r} are turned round at the middle of the scale; declare the scale"
            )
        values = np.where(is_turned[:, None], scale[0] + scale[1] - values, values)
    changes = values - originals.select_judges(judges).values[[row[of] for of, _, _ in made]]
    return ProbeResponses(
        tuple(of for of, _, _ in made),
        tuple(kind for _, kind, _ in made),
        {kind: spoils for _, kind, spoils in made},
        tuple(judges),
        changes.reshape(len(made), len(judges)),
    )
