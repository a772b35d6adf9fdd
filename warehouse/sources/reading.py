"""Record of how a table was read: the parser, the role of each column, and other decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from care_ops.errors import listed as listed


@dataclass(frozen=True)
class LeftOut:
    """Table column that CARE did not use, with the reason."""

    column: str
    why: str


@dataclass(frozen=True)
class Reading:
    """Record of how a table was read.

    ``source`` is the path of the file, or the type of frame. ``columns`` maps roles to columns, such as ``item`` to
    ``id``. ``notes`` lists other decisions as sentences.
    """

    source: str
    parser: str
    rows: int
    layout: Literal["long", "wide"] | None = None
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    judges: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    def noting(self, sentences: Iterable[str]) -> Reading:
        """Return a copy of the record with additional decisions."""
        return replace(self, notes=(*self.notes, *sentences))

    def sentences(self) -> list[str]:
        """Describe the parser, the roles of the columns and the decisions, as sentences for the user."""
        lines = [f"{self.source}: {self.rows:,} rows, read by {self.parser}"]
        taken = ", ".join(f"{role} is {column!r}" for role, column in self.columns.items())
        if self.layout == "wide":
            lines.append(f"wide table: {taken}; the judges are {listed([repr(judge) for judge in self.judges])}")
        elif taken:
            lines.append(f"{self.layout} table: {taken}" if self.layout else taken)
        if self.left_out:
            lines.append(f"left out: {listed([f'{left.column!r} ({left.why})' for left in self.left_out])}")
        return [*lines, *self.notes]
