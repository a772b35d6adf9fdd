"""Probes without a workspace: versions of a file of items to be judged by any tool, and what came back."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from assets.table.fitting import ScoreTable
from care_ops.probes import responses
from care_ops.scales import bring
from warehouse.items import ITEM_TEXTS, ItemRecord
from warehouse.probes import ProbePlan, make
from warehouse.sources.probe_scores import read_probe_scores
from warehouse.sources.tables import TableSource
from warehouse.storage import write_bytes
from warehouse.testsets import ReadingOptions


def versions_table(records: Sequence[ItemRecord], plan: ProbePlan) -> pa.Table:
    """A row for each version: its id, the item that it was made from, how, what that does to quality, and its texts.

    Raises ``InputError`` where nothing can be changed in the items.
    """
    rows = [
        {
            "item_id": probe.record.item_id,
            "of": probe.of,
            "kind": probe.kind,
            "effect": plan.kinds[probe.kind],
            **{name: getattr(probe.record, name) for name in ITEM_TEXTS},
        }
        for probe in make(records, plan)
    ]
    table = pa.Table.from_pylist(rows)
    empty = [name for name in ITEM_TEXTS if table.column(name).null_count == len(rows)]
    return table.drop_columns(empty)


def write_versions(records: Sequence[ItemRecord], plan: ProbePlan, path: Path) -> int:
    """Write the versions as CSV; returns how many there are."""
    table = versions_table(records, plan)
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    write_bytes(path, sink.getvalue().to_pybytes())
    return table.num_rows


def with_probes(
    table: ScoreTable, source: TableSource | None, scale: tuple[float, float] | None, options: ReadingOptions
) -> ScoreTable:
    """The table with what its judges say of versions, as a table of scores holds it; as it is without one.

    Raises ``InputError`` where that is not as it must be, or it has scores of a swap and no scale is declared.
    """
    if source is None:
        return table
    versions, scores, reading = read_probe_scores(source, table.scores, options)
    told = responses(versions, bring(scores, table.brought), table.scores, scale=scale)
    return replace(table, probes=told, readings=(*table.readings, reading))
