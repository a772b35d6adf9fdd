"""A file of questions at an endpoint, and what keeps the record of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from judges.bill import Bill


@dataclass(frozen=True)
class Batch:
    """A file of questions that is at an endpoint, or on its way there: what is kept of it until its answers are stored.

    Attributes
    ----------
    token : str
        Names it in its metadata at the endpoint.
    judge_key : str
        Key of the judge as it was when it asked.
    since : str
        When it was made, in UTC (ISO 8601).
    items, questions : int
        Items that wait for it, and different questions about them.
    lines : tuple of str
        The names of its requests, one for each prompt.
    body : dict
        What all of its requests have in common.
    worst : float
        The most that it can cost, in US dollars.
    batch_id : str
        By which the endpoint knows it; empty until it has said so.
    done : int
        Requests that were answered when it was last looked at.
    night : str
        On whose bill it is (YYYY-MM-DD): when it was first found to have ended.
    """

    token: str
    judge_key: str
    since: str
    items: int
    questions: int
    lines: tuple[str, ...]
    body: dict[str, Any]
    worst: float
    batch_id: str = ""
    done: int = 0
    night: str = ""


class BatchStore(Protocol):
    """Keeps the batches of one judge on one test set; ``key`` is that of the judge as it is asked now."""

    key: str

    def batches(self) -> list[Batch]:
        """Those that are kept, oldest first."""
        ...

    def place(self, batch: Batch) -> str:
        """Where a batch is kept, for a person."""
        ...

    def keep(self, batch: Batch) -> None:
        """Keep a batch, or what has become known of it."""
        ...

    def remove(self, batch: Batch) -> None:
        """Delete what is kept of a batch."""
        ...

    def paid(self, batch: Batch, bill: Bill) -> None:
        """Enter what a batch has taken; told again after a kill, it is entered once."""
        ...
