"""What a judge is given and what it gives back.

Belongs here: the two records that cross the package's border. Does not: how they are stored.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any


class Status(StrEnum):
    """What became of one score. Everything but ``ok`` is a missing score, never a grade."""

    OK = "ok"
    TOO_LONG = "too_long"
    LOW_VALID_MASS = "low_valid_mass"
    PARSE_ERROR = "parse_error"
    OUT_OF_RANGE = "out_of_range"
    REFUSED = "refused"
    ENGINE_ERROR = "engine_error"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Item:
    """One thing to judge.

    Attributes
    ----------
    item_id : str
    prompt, response, response_2, reference : str, optional
        The texts a judge may read; ``response_2`` in pairwise sets.
    """

    item_id: str
    prompt: str | None = None
    response: str | None = None
    response_2: str | None = None
    reference: str | None = None

    @cached_property
    def key(self) -> str:
        """Content key (law 5): id and texts."""
        digest = hashlib.sha256()
        for text in (self.item_id, self.prompt, self.response, self.response_2, self.reference):
            encoded = b"\x00" if text is None else b"\x01" + text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
        return digest.hexdigest()[:32]


@dataclass(frozen=True)
class Score:
    """One judge on one item.

    Attributes
    ----------
    item_id, item_key : str
    score : float or None
        None unless the status is ``ok``.
    status : Status
    raw : str or None
        What the engine said, or the error, at most 500 characters.
    latency_ms : float or None
    text_mismatch : bool
        The source recorded this score beside another text than the item's.
    """

    item_id: str
    item_key: str
    score: float | None
    status: Status
    raw: str | None = None
    latency_ms: float | None = None
    text_mismatch: bool = False

    def as_row(self) -> dict[str, Any]:
        """Column values of a part."""
        return {
            "item_id": self.item_id,
            "item_key": self.item_key,
            "score": self.score,
            "status": str(self.status),
            "raw": self.raw,
            "latency_ms": self.latency_ms,
            "text_mismatch": self.text_mismatch,
        }


def checked_score(value: object, scale: tuple[float, float] | None) -> tuple[float | None, Status]:
    """A raw value as (score, status): numbers within the scale are ok, the rest missing."""
    if value is None:
        return None, Status.REFUSED
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None, Status.PARSE_ERROR
    number = float(value)
    if number != number:
        return None, Status.PARSE_ERROR
    if scale is not None and not scale[0] <= number <= scale[1]:
        return None, Status.OUT_OF_RANGE
    if number in (float("inf"), float("-inf")):
        return None, Status.OUT_OF_RANGE
    return number, Status.OK
