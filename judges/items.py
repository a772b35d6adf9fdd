"""What a judge is given and what it gives back.

Belongs here: the two records that cross the package's border. Does not: how they are stored.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
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


MAY_PASS = (Status.TIMEOUT, Status.ENGINE_ERROR)
"""What may be gone the next time that a language model is asked; the other statuses say something of the item."""


@dataclass(frozen=True)
class Item:
    """One thing to judge.

    Attributes
    ----------
    item_id : str
    prompt, response, response_2, reference, aspect : str, optional
        The texts a judge may read; ``response_2`` in pairwise sets, ``aspect`` where what is judged differs by item.
    """

    item_id: str
    prompt: str | None = None
    response: str | None = None
    response_2: str | None = None
    reference: str | None = None
    aspect: str | None = None

    @cached_property
    def key(self) -> str:
        """Content key (law 5): id and texts."""
        return _hash_of(self.item_id, self.text_key)

    @cached_property
    def text_key(self) -> str:
        """Content key of the texts alone: items that share it are one question to a judge."""
        return _hash_of(*self.texts)

    @property
    def texts(self) -> tuple[str | None, ...]:
        """What a judge may read."""
        known = (self.prompt, self.response, self.response_2, self.reference)
        return known if self.aspect is None else (*known, self.aspect)


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
    p_json : str or None
        Probability of each legal score, where the engine gives it; by order for pairs that were shown both ways.
    valid_mass : float or None
        Probability that fell on legal scores.
    order : str or None
        ``both`` where a pair was shown both ways and the score is half their difference.
    tokens_in, tokens_out : int or None
    """

    item_id: str
    item_key: str
    score: float | None
    status: Status
    raw: str | None = None
    latency_ms: float | None = None
    text_mismatch: bool = False
    p_json: str | None = None
    valid_mass: float | None = None
    order: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None

    def of(self, item: Item) -> Score:
        """The same score for another item of the same texts."""
        if item.item_id == self.item_id:
            return self
        return replace(self, item_id=item.item_id, item_key=item.key)

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
            "p_json": self.p_json,
            "valid_mass": self.valid_mass,
            "order": self.order,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }


def _hash_of(*texts: str | None) -> str:
    digest = hashlib.sha256()
    for text in texts:
        encoded = b"\x00" if text is None else b"\x01" + text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()[:32]


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
