"""A file of questions at an endpoint, and what keeps the record of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.bill import Bill


@dataclass(frozen=True)
class Batch:
    """A file of questions that is at an endpoint, or on its way there: what is kept of it until its answers are stored.

    Attributes
    ----------
    token : str
        Names it in its metadata at the endpoint.
    judge_key : str
        Key of what the judge was asked: its own as it was then, or that of a question about several criteria.
    since : str
        When it was made, in UTC.
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


@dataclass(frozen=True)
class BatchStore:
    """Keeps the batches of one judge on one test set.

    Attributes
    ----------
    key : str
        Of what the judge is asked now, as a batch has it.
    elsewhere : frozenset of str
        The names of requests that batches of other test sets hold, whose answers this one is to take over.
    batches : callable
        Those that are kept, oldest first.
    place : callable
        Where a batch is kept, for a person.
    keep, remove : callable
        Keep a batch, or what has become known of it; and delete what is kept.
    paid : callable
        Enter what a batch has taken; told again after a kill, it is entered once.
    """

    key: str
    elsewhere: frozenset[str]
    batches: Callable[[], list[Batch]]
    place: Callable[[Batch], Path]
    keep: Callable[[Batch], None]
    remove: Callable[[Batch], None]
    paid: Callable[[Batch, Bill], None]
