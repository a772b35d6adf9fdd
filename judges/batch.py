"""Records of batches (files of questions at an endpoint)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.bill import Bill


@dataclass(frozen=True)
class Batch:
    """Record of a batch, kept from before it is sent until its answers are stored.

    Attributes
    ----------
    token : str
        Its name in the metadata at the endpoint.
    judge_key : str
        The judge's key at that time.
    since : str
        Time of its creation, in UTC.
    items, questions : int
        Items that wait for it, and different questions about them.
    lines : tuple of str
        Names of its requests, one for each prompt.
    body : dict
        The fields that all its requests share.
    worst : float
        The most that it can cost, in US dollars.
    batch_id : str
        The endpoint's id; empty until it is known.
    done : int
        Requests that were answered when it was last looked at.
    run_date : str
        Day of its bill (YYYY-MM-DD): the first on which it was seen to have ended.
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
    run_date: str = ""


@dataclass(frozen=True)
class BatchStore:
    """Store of the batches of one judge on one test set.

    Attributes
    ----------
    key : str
        The judge's present key.
    batches : callable
        Returns the records, oldest first.
    place : callable
        Returns the file of a record.
    keep, remove : callable
        Write a record, and delete it.
    paid : callable
        Enters the cost of a batch; repeated after a kill, it is entered once.
    """

    key: str
    batches: Callable[[], list[Batch]]
    place: Callable[[Batch], Path]
    keep: Callable[[Batch], None]
    remove: Callable[[Batch], None]
    paid: Callable[[Batch, Bill], None]
