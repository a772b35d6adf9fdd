"""What a page says of judges by their responses to probes: a card each, in words and as cells of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from care_ops.models.probes import KindResponse, response_a_fact, responses_by_kind
from care_ops.probes import ProbeResponses
from care_ops.scores import ScoreMatrix
from warehouse.probes import KINDS

_FULL_SHADE = 2.0
"""Standard deviations of change at which a cell has its full colour."""

_NOTHING = 0.05
"""Standard deviations of change that one decimal shows as nothing."""

_GRADED = {kind.name: kind.facts for kind in KINDS.values() if kind.facts is not None and kind.facts > 0}
"""Kinds of which the number of exchanged facts is known."""


@dataclass(frozen=True)
class ResponseCell:
    """A judge's mean change to one kind of version, in its standard deviations, with an interval; None where unknown.

    Attributes
    ----------
    is_right : bool
        Whether the change speaks for the judge: a fall where quality is spoilt. Any change where it is kept does not.
    shade : float
        How strong the cell's colour is, from 0 to 1.
    decimals : int
        With which the mean is shown.
    """

    mean: float | None
    low: float | None
    high: float | None
    items: int
    is_right: bool
    shade: float
    decimals: int = 1

    @property
    def shown(self) -> str:
        """The mean with its sign, 0 where the decimals show nothing; a dash where it is unknown."""
        if self.mean is None:
            return "–"
        return "0" if abs(self.mean) < 0.5 * 10**-self.decimals else _signed(self.mean, self.decimals)


@dataclass(frozen=True)
class ProbeCard:
    """One judge: what moves it, also in words.

    Attributes
    ----------
    cells : sequence of ResponseCell
        In the order of the kinds.
    a_fact : ResponseCell or None
        Change for each fact that is exchanged; None where no version has a known number of them exchanged.
    """

    judge: str
    says: str
    cells: Sequence[ResponseCell]
    a_fact: ResponseCell | None


@dataclass(frozen=True)
class ProbeCards:
    """What a page shows of a panel's probes; judges that fall most, for how much they move, come first.

    Attributes
    ----------
    kept, spoilt : sequence of str
        The kinds, in the order of the cells: first those that keep quality.
    """

    kept: Sequence[str]
    spoilt: Sequence[str]
    cards: Sequence[ProbeCard]

    @property
    def is_graded(self) -> bool:
        """Whether the judges have a slope over exchanged facts."""
        return any(card.a_fact is not None for card in self.cards)


def probe_cards(probes: ProbeResponses, scores: ScoreMatrix) -> ProbeCards | None:
    """The cards of a panel's judges; None where there are no responses."""
    judges = [judge for judge in probes.judges if judge in scores.judges]
    if not len(probes) or not judges:
        return None
    sd = np.nanstd(scores.select_judges(judges).values, axis=0, ddof=1)
    of_panel = probes.of_judges(judges)
    by_kind, a_fact = responses_by_kind(of_panel, sd), response_a_fact(of_panel, sd, _GRADED)
    spoilt = [response for response in by_kind if response.spoils]
    kept = [response for response in by_kind if not response.spoils]
    ordered = sorted(range(len(judges)), key=lambda j: -_merit(kept, spoilt, j))
    cards = [
        ProbeCard(
            judges[j],
            _sentence(kept, spoilt, a_fact, j),
            [_cell(r, j) for r in by_kind],
            None if a_fact is None else _cell(a_fact, j, decimals=2),
        )
        for j in ordered
    ]
    return ProbeCards([r.kind for r in kept], [r.kind for r in spoilt], cards)


def _merit(kept: Sequence[KindResponse], spoilt: Sequence[KindResponse], j: int) -> float:
    falls, moves = np.array([-r.mean[j] for r in spoilt]), np.array([r.moved[j] for r in kept])
    fall, move = (np.nanmean(each) if not np.isnan(each).all() else 0.0 for each in (falls, moves))
    return float(fall / (1.0 + move))


def _cell(response: KindResponse, j: int, decimals: int = 1) -> ResponseCell:
    mean, low, high = (None if np.isnan(v[j]) else float(v[j]) for v in (response.mean, response.low, response.high))
    shade = 0.0 if mean is None else min(abs(mean) / _FULL_SHADE, 1.0)
    is_right = response.spoils and (mean or 0.0) < 0
    return ResponseCell(mean, low, high, int(response.items[j]), is_right, shade, decimals)


def _sentence(kept: Sequence[KindResponse], spoilt: Sequence[KindResponse], a_fact: KindResponse | None, j: int) -> str:
    """What moves a judge most where quality is kept, and how far it falls where it is spoilt."""
    parts: list[str] = []
    sure = [r for r in kept if _is_told(r, j)]
    if sure:
        most = max(sure, key=lambda r: abs(float(r.mean[j])))
        parts.append(f"moves by {_signed(float(most.mean[j]))} sd when an answer {_changed(most.kind)}")
    elif kept:
        parts.append("is not surely moved by any dress")
    falling = sorted((r for r in spoilt if _is_told(r, j)), key=lambda r: float(r.mean[j]))
    if falling:
        said = [f"by {_signed(float(r.mean[j]))} when it {_changed(r.kind)}" for r in falling[:2]]
        parts.append(f"{'' if sure else 'moves '}{' and '.join(said)}")
    elif spoilt:
        parts.append("does not surely respond where an answer is spoilt")
    if falling and a_fact is not None and _is_sure(a_fact, j):
        parts.append(f"by {_signed(float(a_fact.mean[j]), 2)} for each name or number that is exchanged")
    return "; ".join(parts)


def _is_told(response: KindResponse, j: int) -> bool:
    """Whether a change is sure, and more than one decimal shows as nothing."""
    return _is_sure(response, j) and abs(float(response.mean[j])) >= _NOTHING


def _is_sure(response: KindResponse, j: int) -> bool:
    low, high = float(response.low[j]), float(response.high[j])
    return low > 0 or high < 0


def _signed(value: float, decimals: int = 1) -> str:
    return f"{value:+.{decimals}f}".replace("-", "−")


def _changed(kind: str) -> str:
    return KINDS[kind].changed if kind in KINDS else f"is {kind}"
