"""Records of batches, which are files of questions sent to an endpoint."""

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
        Name of the batch in its metadata at the endpoint.
    judge_key : str
        The judge's key when the batch was created.
    since : str
        Time at which the batch was created, in UTC.
    items, questions : int
        Number of items that wait for the batch, and number of distinct questions about these items.
    lines : tuple of str
        Names of the batch's requests, one for each prompt.
    body : dict
        Fields that all requests of the batch share.
    worst : float
        Maximum cost in US dollars.
    batch_id : str
        The endpoint's id; empty until it is known.
    done : int
        Number of requests that were answered at the last check.
    run_date : str
        Date of the bill (YYYY-MM-DD): the first day on which a run found that the batch had ended.
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
        Function that returns the records, oldest first.
    place : callable
        Function that returns the path of a record's file.
    keep, remove : callable
        Functions that write a record and delete a record.
    paid : callable
        Function that records the cost of a batch; a repeated call after a kill does not record the cost twice.
    """

    key: str
    batches: Callable[[], list[Batch]]
    place: Callable[[Batch], Path]
    keep: Callable[[Batch], None]
    remove: Callable[[Batch], None]
    paid: Callable[[Batch, Bill], None]
