"""Records of the request batches that CARE sends to an endpoint's Batch API."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.bill import Bill


@dataclass(frozen=True)
class Batch:
    """Record of one batch of requests, written before the batch is sent and deleted after the answers are stored.

    Attributes
    ----------
    token : str
        Token in the batch's metadata that identifies the batch at the endpoint.
    judge_key : str
        Key of the judge when the batch was created.
    since : str
        Time at which the batch was created, in UTC.
    items, questions : int
        Number of items that the batch asks about, and number of distinct questions about these items.
    lines : tuple of str
        Ids (``custom_id``) of the batch's requests, one for each prompt.
    body : dict
        Fields of the request body that all requests of the batch share.
    worst : float
        Maximum cost of the batch in US dollars.
    batch_id : str
        Id of the batch at the endpoint; empty until the id is known.
    done : int
        Number of answered requests at the last check.
    run_date : str
        Date of the cost record (YYYY-MM-DD): the first day on which a run found that the batch had ended.
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
    """Functions that read and write the batch records of one judge on one test set.

    Attributes
    ----------
    key : str
        Current key of the judge.
    batches : callable
        Function that returns the batch records, oldest first.
    place : callable
        Function that returns the path of a batch record's file.
    keep, remove : callable
        Functions that write and delete a batch record.
    paid : callable
        Idempotent function that records the cost of a batch.
    """

    key: str
    batches: Callable[[], list[Batch]]
    place: Callable[[Batch], Path]
    keep: Callable[[Batch], None]
    remove: Callable[[Batch], None]
    paid: Callable[[Batch, Bill], None]
