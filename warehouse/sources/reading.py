"""What was read: which parser read it, and which column was taken as what.

Belongs here: the record of one reading and its sentences. Does not: reading (``tables``), choosing columns
(``columns``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

_LISTED = 12
"""Names that one sentence lists; the record holds all."""


@dataclass(frozen=True)
class LeftOut:
    """A column that is not used, and why."""

    column: str
    why: str


@dataclass(frozen=True)
class Reading:
    """What a table was taken to be.

    Attributes
    ----------
    source : str
        The file, or what kind of frame it was.
    parser : str
        What read it, with its settings.
    rows : int
    layout : {"long", "wide"}, optional
        Of a table of scores.
    columns : mapping role -> column
        Such as ``item`` -> ``id``.
    judges : tuple of str
        Columns of a wide table that are judges.
    left_out : tuple of LeftOut
    notes : tuple of str
        Whatever else was decided.
    """

    source: str
    parser: str
    rows: int
    layout: Literal["long", "wide"] | None = None
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    judges: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """The decisions, one a line, for a person to check."""
        lines = [f"{self.source}: {self.rows:,} rows, read by {self.parser}"]
        taken = ", ".join(f"{role} is {column!r}" for role, column in self.columns.items())
        if self.layout == "wide":
            lines.append(f"wide: {taken}; the judges are {listed([repr(judge) for judge in self.judges])}")
        elif taken:
            lines.append(f"{self.layout}: {taken}" if self.layout else taken)
        if self.left_out:
            lines.append(f"left out: {listed([f'{one.column!r} ({one.why})' for one in self.left_out])}")
        return [*lines, *self.notes]

    def as_dict(self) -> dict[str, Any]:
        """The record as plain data."""
        return asdict(self)


def listed(names: Sequence[str], most: int = _LISTED) -> str:
    """Names in a sentence; beyond ``most`` they are counted."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
