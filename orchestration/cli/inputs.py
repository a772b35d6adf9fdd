"""What ``care fit`` and ``care rate`` read: scores, and beside them items, families and anchors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from assets.table import reading
from orchestration.cli import tables

if TYPE_CHECKING:
    from assets.table.fitting import ScoreTable
    from care_ops.scales import Scale


def read_table(
    scores: Path,
    items: Path | None,
    judges: Path | None,
    anchors: Path | None,
    form: tables.Form,
    scales: tuple[Scale | None, Mapping[str, Scale]] = (None, {}),
) -> ScoreTable:
    """Read every file, and print how each was read before anything is fitted; ``scales`` are panel's and judges'."""
    inputs = reading.TableInputs(scores, items, judges, anchors, *scales)
    return reading.read_table(inputs, form.columns, form.reading, tables.tell)
