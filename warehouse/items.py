"""Items as the warehouse keeps them.

Belongs here: the record of one item. Does not: how a source is read (``sources``), how items are stored
(``parts``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ItemRecord:
    """One item of a test set.

    Attributes
    ----------
    item_id : str
        Unique in the test set.
    prompt, response, response_2, reference : str, optional
    gold : float, optional
        For evaluation only; fits never read it.
    split_unit : str, optional
        Items that share it must not be parted between fit and evaluation.
    metadata : dict
        Everything else that the source says about the item.
    """

    item_id: str
    prompt: str | None = None
    response: str | None = None
    response_2: str | None = None
    reference: str | None = None
    gold: float | None = None
    split_unit: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
