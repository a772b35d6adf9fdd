"""What a test set's page warns of, as a record of its JSON document.

Belongs here: what the document holds. Does not: finding the warnings (``data``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warehouse.documents import FolderDocument


@dataclass(frozen=True)
class WarningsDocument(FolderDocument):
    """The warnings of the page that was drawn last."""

    NAME: ClassVar[str] = "warnings"

    warnings: tuple[str, ...] = ()
