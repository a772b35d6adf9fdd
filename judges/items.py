"""Data classes of items and of judges' scores."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

FROM_A_FILE = "this judge's scores were read from a file, so it cannot score items; choose a judge with an engine"
"""End of a message about a judge with recorded scores that cannot score the given items."""

ONE = "score"
"""Key in ``p_json`` for the list of the scores of all repeats."""

RAW_LIMIT = 500
"""Maximum number of characters of an engine's text that CARE stores."""

TEXTS = ("prompt", "response", "response_2", "reference", "aspect")
"""Names of the text fields of an item."""


class Status(StrEnum):
    """Status of a judge's score of one item; the score is missing unless the status is ``ok``."""

    OK = "ok"
    TOO_LONG = "too_long"
    LOW_VALID_MASS = "low_valid_mass"
    PARSE_ERROR = "parse_error"
    OUT_OF_RANGE = "out_of_range"
    REFUSED = "refused"
    CUT_OFF = "cut_off"
    ENGINE_ERROR = "engine_error"
    TIMEOUT = "timeout"


MAY_PASS = (Status.TIMEOUT, Status.ENGINE_ERROR)
"""Statuses of failures that may be temporary; the item itself causes all other failures of a language model."""


@dataclass(frozen=True)
class Item:
    """Item that judges score, with an id and texts.

    Attributes
    ----------
    prompt, response, response_2, reference, aspect : str, optional
        Texts that a judge may read. ``response_2`` is the second response of a pair. ``aspect`` is the quality aspect
        to score, if it differs between items.
    """

    item_id: str
    prompt: str | None = None
    response: str | None = None
    response_2: str | None = None
    reference: str | None = None
    aspect: str | None = None

    @cached_property
    def key(self) -> str:
        """Content key of the item: a hash of the id and the texts, with 32 hexadecimal digits."""
        return _hash_of(self.item_id, self.text_key)

    @cached_property
    def text_key(self) -> str:
        """Content key of the texts without the id; items with equal text keys share one question to a judge."""
        return _hash_of(*self.texts)

    @property
    def texts(self) -> tuple[str | None, ...]:
        """Texts that a judge may read, in a fixed order, with the aspect only if the item has an aspect."""
        texts = (self.prompt, self.response, self.response_2, self.reference)
        return texts if self.aspect is None else (*texts, self.aspect)


@dataclass(frozen=True)
class Score:
    """Score of one item by one judge, or the reason why the score is missing.

    Attributes
    ----------
    score : float or None
        The score; None unless the status is ``ok``.
    raw : str or None
        Text or error message of the engine, at most 500 characters.
    latency_ms : float or None
        Time until the answer, in milliseconds.
    p_json : str or None
        Probability of each allowed answer as JSON, if the engine returns any; for a pair, one object for each order.
        With repeats, the JSON is instead ``{"score": [...]}``: the scores of all repeats, with null if missing.
    valid_mass : float or None
        Total probability of the allowed answers, in [0, 1].
    order : str or None
        ``both`` if a pair was shown in both orders (the score is half the difference between the answers), else None.
    tokens_in, tokens_out : int or None
        Numbers of input and output tokens.
    """

    item_id: str
    item_key: str
    score: float | None
    status: Status
    raw: str | None = None
    latency_ms: float | None = None
    p_json: str | None = None
    valid_mass: float | None = None
    order: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None

    def __post_init__(self) -> None:
        """Truncate ``raw`` to ``RAW_LIMIT`` characters; replace lone surrogates, which files cannot store."""
        raw = (self.raw or "")[:RAW_LIMIT].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        object.__setattr__(self, "raw", raw or None)

    def of(self, item_id: str, item_key: str) -> Score:
        """Return a copy of this score for another item with the same texts."""
        if item_id == self.item_id:
            return self
        return replace(self, item_id=item_id, item_key=item_key)

    def as_row(self) -> dict[str, Any]:
        """Return the score as a row of a Parquet file: a mapping of column names to values."""
        return {**vars(self), "status": str(self.status)}


def _hash_of(*texts: str | None) -> str:
    written = b""
    for text in texts:
        encoded = b"\x00" if text is None else b"\x01" + text.encode("utf-8", "surrogatepass")
        written += len(encoded).to_bytes(8, "big") + encoded
    return hashlib.sha256(written).hexdigest()[:32]


def checked_score(value: object, scale: tuple[float, float] | None) -> tuple[float | None, Status]:
    """Check that a judge's value is a finite number within the scale; return the score or None, and the status.

    Without a score, the status is ``refused`` (value None), ``parse_error`` (not a number) or ``out_of_range``.
    """
    if value is None:
        return None, Status.REFUSED
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return None, Status.PARSE_ERROR
    number = float(value)
    low, high = scale or (-math.inf, math.inf)
    if math.isinf(number) or not low <= number <= high:
        return None, Status.OUT_OF_RANGE
    return number, Status.OK
