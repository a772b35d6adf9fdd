"""How many requests may be open at an endpoint, and when the next may start: what it says of its limits is kept."""

import random
import re
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from judges.spec import OpenAIEngine

LONGEST_WAIT_S = 900.0
"""The longest pause that an endpoint may ask for; where it asks for more, the judge stops."""

_LONGEST_BACKOFF_S = 60.0
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_LIMITS = (
    ("x-ratelimit-remaining-{}", "x-ratelimit-reset-{}"),
    ("anthropic-ratelimit-{}-remaining", "anthropic-ratelimit-{}-reset"),
)


class Pace:
    """Lets requests start one by one: as many at the same time as the endpoint bears, and none while it wants a pause.

    Notes
    -----
    A refusal for too many requests makes the number of open requests a third smaller, once for all those that were open
    then; each answer makes it larger by its reciprocal, up to ``concurrency``.
    """

    def __init__(self, engine: OpenAIEngine) -> None:
        self._engine = engine
        self._changed = threading.Condition()
        self._limit = float(engine.concurrency)
        self._open = self._rounds = 0
        self._held_until = self._next_start = self._last_cut = 0.0
        self._tokens = 0.0
        self._stopped = False

    def stop(self) -> None:
        """End all waiting: whoever waits goes on at once, and finds that nothing is asked any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def rest(self, pause: float) -> None:
        """Wait a while, outside of any turn."""
        end = time.monotonic() + pause
        with self._changed:
            while not self._stopped and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    @contextmanager
    def turn(self) -> Generator[float]:
        """A place among the open requests, with the time at which it was had."""
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
        """Seconds until a request may start, as far as it can be said; 0 once its place in the minute is taken."""
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

    def answered(self, tokens: int, headers: Mapping[str, str]) -> None:
        """Take in an answer: how many tokens it took, and what the endpoint says is left of its limits."""
        with self._changed:
            self._rounds = 0
            self._tokens = tokens if not self._tokens else 0.9 * self._tokens + 0.1 * tokens
            grown = min(float(self._engine.concurrency), self._limit + 1 / self._limit)
            if int(grown) > int(self._limit):
                self._changed.notify_all()
            self._limit = grown
            for kind, least in (("requests", 1.0), ("tokens", self._tokens)):
                for remaining, reset in _LIMITS:
                    left, wait = headers.get(remaining.format(kind), ""), headers.get(reset.format(kind), "")
                    if left.isdecimal() and len(left) < 16 and int(left) < least:
                        pause = min(seconds(wait) or 0.0, LONGEST_WAIT_S)
                        self._held_until = max(self._held_until, time.monotonic() + pause)

    def too_fast(self, started: float, pause: float | None) -> None:
        """Take in a refusal for too many requests; ``pause`` is what the endpoint asks for."""
        with self._changed:
            if started >= self._last_cut:
                self._rounds += 1
                self._limit = max(1.0, self._limit * 2 / 3)
                self._last_cut = time.monotonic()
                pause = backoff(self._rounds) if pause is None else pause
            self._held_until = max(self._held_until, time.monotonic() + (pause or 0.0))


def backoff(attempt: int) -> float:
    """Seconds to wait after a failure: random, so that not all come back at once, and longer each time."""
    return random.uniform(0.5, 1.0) * min(0.5 * 2**attempt, _LONGEST_BACKOFF_S)


def seconds(text: str) -> float | None:
    """A waiting time in any of the forms that endpoints send: seconds, ``6m0s``, a date of HTTP or of ISO 8601."""
    text = text.strip()[:64]
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text, re.ASCII):
        return float(text)
    if re.fullmatch(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[hms]))+", text, re.ASCII):
        return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|[hms])", text))
    try:
        date = parsedate_to_datetime(text) if "," in text else datetime.fromisoformat(text)
        return max(0.0, (date.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
