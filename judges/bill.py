"""Cost records of judges (tokens, US dollars, retries, latencies) and spend limits."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from judges.items import Score

_MOST_LATENCIES = 512
"""Size of the random sample of latencies in a cost record."""


@dataclass
class Bill:
    """Cost record of a judge: number, tokens, cost and latencies of the requests to the judge.

    Attributes
    ----------
    questions : int
        Number of questions that were answered or abandoned.
    requests, repeated, refused : int
        Number of requests, number of retries among them, and number of rate-limited requests (HTTP 429 or 529).
    tokens_in, tokens_cached, tokens_out, tokens_reasoning : int
        Numbers of input, cached input, output and reasoning tokens.
    dollars : float
        Cost in US dollars, computed from the token counts that the endpoint reports.
    unknown : float
        Maximum cost in US dollars of requests without reported token counts.
    settled : float
        Amount in US dollars that was reserved for the requests before their cost was known.
    latencies : list of (float, float)
        Random sample of the latencies: pairs (random number for sampling, latency in milliseconds).
    """

    questions: int = 0
    requests: int = 0
    repeated: int = 0
    refused: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    dollars: float = 0.0
    unknown: float = 0.0
    settled: float = 0.0
    latencies: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def answered(self, milliseconds: float) -> None:
        """Add the latency of one answer, in milliseconds, to the record."""
        self.latencies.append((random.random(), milliseconds))

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Bill:
        """Compute a cost record from the scores of a judge that uses no endpoint."""
        bill = cls(
            questions=len(scores),
            requests=len(scores),
            tokens_in=sum(score.tokens_in or 0 for score in scores),
            tokens_out=sum(score.tokens_out or 0 for score in scores),
        )
        for score in scores:
            bill.answered(score.latency_ms or 0.0)
        return bill

    def add(self, other: Bill) -> None:
        """Add the values of another cost record to this record."""
        for entry in fields(self):
            setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))
        if len(self.latencies) > 2 * _MOST_LATENCIES:
            self.latencies = sorted(self.latencies)[:_MOST_LATENCIES]


class Purse:
    """Spend limit of one judge or of several judges.

    Parameters
    ----------
    limit : float
        Maximum spending in US dollars.
    name : str
        Name of the setting that defines the limit, for messages.
    spent, perhaps : float
        Earlier spending in US dollars, and the maximum cost of earlier requests whose cost is unknown.
    """

    def __init__(self, limit: float, name: str, spent: float = 0.0, perhaps: float = 0.0) -> None:
        self.limit, self.name, self.spent, self.perhaps = limit, name, spent, perhaps
        self._reserved = 0.0
        self._lock = threading.Lock()

    def reserve(self, worst: float) -> bool:
        """Reserve the maximum cost of a request; return False if the reservation would exceed the limit."""
        with self._lock:
            enough = self.spent + self.perhaps + self._reserved + worst <= self.limit
            self._reserved += worst if enough else 0.0
            return enough

    def settle(self, worst: float, cost: float, perhaps: float = 0.0) -> None:
        """Replace a request's reserved amount with the cost; ``perhaps`` is the maximum cost if the cost is unknown."""
        with self._lock:
            self._reserved -= worst
            self.spent += cost
            self.perhaps += perhaps

    def __str__(self) -> str:
        perhaps = f", and at most {self.perhaps:.4f} more for requests whose cost is unknown"
        return f"{self.spent:.4f} of {self.limit} US dollars are spent{perhaps * (self.perhaps > 5e-5)} ({self.name})"


class Ledger:
    """Cost of one judge in one run, summed over all test sets.

    Parameters
    ----------
    purses : sequence of Purse
        Spend limits of the judge; other judges may share them.

    Attributes
    ----------
    sent : float
        Maximum cost in US dollars of the batches that were sent; their actual cost is recorded separately.
    """

    def __init__(self, purses: Sequence[Purse] = ()) -> None:
        self.purses = tuple(purses)
        self.sent = self.reserved = 0.0
        self.total, self._since = Bill(), Bill()
        self._lock = threading.Lock()

    def reserve(self, worst: float) -> None:
        """Reserve the maximum cost of a request before the request is sent."""
        with self._lock:
            self.reserved += worst

    def add(self, bill: Bill) -> None:
        """Add the cost record of one request or batch to the judge's total."""
        with self._lock:
            self.total.add(bill)
            self._since.add(bill)

    def take(self) -> Bill:
        """Return the sum of all cost records that were added after the previous call of this method."""
        with self._lock:
            taken, self._since = self._since, Bill()
            return taken
