"""Rate limiter for requests to an endpoint."""

import random
import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from judges.spec import OpenAIEngine

LONGEST_WAIT_S = 900.0
"""Longest pause in seconds that an endpoint may request; after a longer request the judge stops."""

_LONGEST_BACKOFF_S = 60.0


class Pace:
    """Adaptive limiter of the request rate and the number of open requests at one endpoint.

    Notes
    -----
    HTTP 429 reduces the limit of open requests by a third. If several open requests get HTTP 429, the limit is reduced
    only once. Each answer increases the limit by the reciprocal of the limit, up to ``concurrency``.
    """

    def __init__(self, engine: OpenAIEngine) -> None:
        self._engine = engine
        self._changed = threading.Condition()
        self._limit = float(engine.concurrency)
        self._open = self._rounds = 0
        self._held_until = self._next_start = self._last_cut = 0.0
        self._stopped = False

    def stop(self) -> None:
        """Stop the limiter: wake all waiting threads, because a stopped engine sends no further requests."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def rest(self, pause: float) -> None:
        """Wait for ``pause`` seconds, or until the limiter is stopped."""
        end = time.monotonic() + pause
        with self._changed:
            while not self._stopped and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    @contextmanager
    def turn(self) -> Generator[float]:
        """Wait until a request may start; yield the start time, and count the request as open in the ``with`` block."""
        with self._changed:
            while (pause := self._pause()) > 0:
                self._changed.wait(pause)
            self._open += 1
        try:
            yield time.monotonic()
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    def _pause(self) -> float:
        """Return the seconds to wait before the next check, or 0 if a request may start now."""
        if self._stopped:
            return 0.0
        if self._open >= max(1, int(self._limit)):
            return 3600.0
        now = time.monotonic()
        start = max(self._held_until, self._next_start)
        if start > now:
            return start - now
        step = 60.0 / self._engine.requests_per_minute if self._engine.requests_per_minute else 0.0
        self._next_start = now + step
        return 0.0

    def answered(self) -> None:
        """Increase the limit of open requests after an answer."""
        with self._changed:
            self._rounds = 0
            grown = min(float(self._engine.concurrency), self._limit + 1 / self._limit)
            if int(grown) > int(self._limit):
                self._changed.notify_all()
            self._limit = grown

    def too_fast(self, started: float, pause: float | None) -> None:
        """Lower the limit of open requests after HTTP 429; ``pause`` is the requested pause in seconds."""
        with self._changed:
            if started >= self._last_cut:
                self._rounds += 1
                self._limit = max(1.0, self._limit * 2 / 3)
                self._last_cut = time.monotonic()
                pause = backoff(self._rounds) if pause is None else pause
            self._held_until = max(self._held_until, time.monotonic() + (pause or 0.0))


def backoff(attempt: int) -> float:
    """Return a random exponential backoff, in seconds, after ``attempt`` failed attempts."""
    return random.uniform(0.5, 1.0) * min(0.5 * 2**attempt, _LONGEST_BACKOFF_S)


def seconds(text: str) -> float | None:
    """Parse an HTTP ``Retry-After`` header; return the waiting time in seconds, or None for an invalid header."""
    text = text.strip()[:64]
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text).astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
