"""What a page says of judges by their responses to probes: a card each, in words and as cells of a table.

Belongs here: from responses to sentences and shades. Does not: the responses (``care_ops.models.probes``), HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from care_ops.models.probes import KindResponse, responses_by_kind
from care_ops.probes import ProbeResponses
from care_ops.scores import ScoreMatrix
from warehouse.probes import KINDS

_FULL_SHADE = 2.0
"""Standard deviations of change at which a cell has its full colour."""

_NOTHING = 0.05
"""Standard deviations of change that one decimal shows as nothing."""


@dataclass(frozen=True)
class ResponseCell:
    """A judge's mean change to one kind of version, in its standard deviations, with an interval; None where unknown.

    Attributes
    ----------
    mean, low, high : float or None
    items : int
    is_right : bool
        Whether the change speaks for the judge: a fall where quality is spoilt. Any change where it is kept does not.
    shade : float
        How strong the cell's colour is, from 0 to 1.
    """

    mean: float | None
    low: float | None
    high: float | None
    items: int
    is_right: bool
    shade: float

    @property
    def shown(self) -> str:
        """The mean with one decimal and its sign; a dash where it is unknown."""
        if self.mean is None:
            return "–"
        return "0" if abs(self.mean) < _NOTHING else _signed(self.mean)


@dataclass(frozen=True)
class ProbeCard:
    """One judge: what moves it, in words, and its cells in the order of the kinds."""

    judge: str
    says: str
    cells: Sequence[ResponseCell]


@dataclass(frozen=True)
class ProbeCards:
    """What a page shows of a panel's probes; judges that fall most, for how much they move, come first.

    Attributes
    ----------
    kept, spoilt : sequence of str
        The kinds, in the order of the cells: first those that keep quality.
    cards : sequence of ProbeCard
    settled : str
        What the probes say of the answer, and under which condition; empty where they say nothing of it.
    """

    kept: Sequence[str]
    spoilt: Sequence[str]
    cards: Sequence[ProbeCard]
    settled: str


def probe_cards(probes: ProbeResponses, scores: ScoreMatrix, care: Mapping[str, Any]) -> ProbeCards | None:
    """The cards of a panel's judges; None where there are no responses.

    Parameters
    ----------
    probes : ProbeResponses
    scores : ScoreMatrix
        The panel.
    care : mapping
        Details of the aggregate ``care``; empty where it gave no answer.
    """
    judges = [judge for judge in probes.judges if judge in scores.judges]
    if not len(probes) or not judges:
        return None
    sd = np.nanstd(scores.select_judges(judges).values, axis=0, ddof=1)
    by_kind = responses_by_kind(probes.of_judges(judges), sd)
    spoilt = [response for response in by_kind if response.spoils]
    kept = [response for response in by_kind if not response.spoils]
    ordered = sorted(range(len(judges)), key=lambda j: -_merit(kept, spoilt, j))
    cards = [ProbeCard(judges[j], _sentence(kept, spoilt, j), [_cell(r, j) for r in by_kind]) for j in ordered]
    return ProbeCards([r.kind for r in kept], [r.kind for r in spoilt], cards, _settled(care))


def _merit(kept: Sequence[KindResponse], spoilt: Sequence[KindResponse], j: int) -> float:
    falls = [-float(r.mean[j]) for r in spoilt if not np.isnan(r.mean[j])]
    moves = [float(r.moved[j]) for r in kept if not np.isnan(r.moved[j])]
    return (float(np.mean(falls)) if falls else 0.0) / (1.0 + (float(np.mean(moves)) if moves else 0.0))


def _cell(response: KindResponse, j: int) -> ResponseCell:
    mean, low, high = (None if np.isnan(v[j]) else float(v[j]) for v in (response.mean, response.low, response.high))
    shade = 0.0 if mean is None else min(abs(mean) / _FULL_SHADE, 1.0)
    return ResponseCell(mean, low, high, int(response.items[j]), response.spoils and (mean or 0.0) < 0, shade)


def _sentence(kept: Sequence[KindResponse], spoilt: Sequence[KindResponse], j: int) -> str:
    """What moves a judge most where quality is kept, and how far it falls where it is spoilt."""
    parts: list[str] = []
    sure = [r for r in kept if _is_sure(r, j)]
    if sure:
        most = max(sure, key=lambda r: abs(float(r.mean[j])))
        parts.append(f"moves by {_signed(float(most.mean[j]))} sd when an answer {_changed(most.kind)}")
    elif kept:
        parts.append("is not surely moved by any dress")
    falling = sorted((r for r in spoilt if _is_sure(r, j)), key=lambda r: float(r.mean[j]))
    if falling:
        said = [f"by {_signed(float(r.mean[j]))} when it {_changed(r.kind)}" for r in falling[:2]]
        parts.append(" and ".join(said))
    elif spoilt:
        parts.append("does not surely respond where an answer is spoilt")
    return "; ".join(parts)


def _is_sure(response: KindResponse, j: int) -> bool:
    low, high = float(response.low[j]), float(response.high[j])
    return low > 0 or high < 0


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _changed(kind: str) -> str:
    return KINDS[kind].changed if kind in KINDS else f"is {kind}"


def _settled(care: Mapping[str, Any]) -> str:
    """What probes say of the answer: settled by probes, if what is declared of them is true."""
    shares, declared = care.get("by_probes"), care.get("declared", {})
    if not shares:
        return ""
    best = max(shares, key=lambda name: shares[name])
    follows = "the judges' responses to probes" if best == "probes" else f"'{best}'"
    named = {effect: [kind for kind, its in declared.items() if its == effect] for effect in ("keeps", "spoils")}
    keep = f"{', '.join(named['keeps'])} keep quality and " if named["keeps"] else ""
    return (
        f"Settled by probes, if {keep}{', '.join(named['spoils'])} spoil it: quality follows {follows} with "
        f"probability {shares[best]:.2f}. Labels override this."
    )
