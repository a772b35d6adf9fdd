"""What ``care fit`` and ``care rate`` read: scores, and beside them items, families and anchors.

Belongs here: printing how each file was read. Belongs elsewhere: reading them (``assets.table.reading``), fitting
(``assets.table``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestration.cli import tables

if TYPE_CHECKING:
    from assets.table.fitting import ScoreTable
    from warehouse.testsets import ReadingOptions, ScoreColumns


def read_table(
    scores: Path,
    items: Path | None,
    judges: Path | None,
    anchors: Path | None,
    columns: ScoreColumns,
    options: ReadingOptions,
) -> ScoreTable:
    """Read every file, and print how each was read before anything is fitted."""
    from assets.table import reading

    return reading.read_table(reading.TableInputs(scores, items, judges, anchors), columns, options, tables.tell)
