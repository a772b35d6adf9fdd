"""Importer of Langfuse's exports to blob storage: ``scores`` and ``observations_v2`` as JSON lines.

A trace is an item, and a score name is a judge. Scores by people (source ``ANNOTATION``) are labels.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from care_ops.errors import InputError
from warehouse.importers.collected import Collector, files_of, text_of
from warehouse.items import ItemRecord

_TOOL = "Langfuse"


def read(path: Path, collector: Collector) -> None:
    """Read one file of scores, or an export folder with ``scores`` and optionally ``observations_v2``.

    Raises ``InputError`` if there are no scores, or a score has no trace.
    """
    folder = path / "scores" if (path / "scores").is_dir() else path
    observations = path / "observations_v2"
    for file in files_of(observations, "*.jsonl*", "observations") if observations.is_dir() else []:
        for record in collector.lines(file):
            if record.get("parent_observation_id") in (None, ""):  # a trace has the texts of its root observation
                collector.add_item(_item(record))
    for file in files_of(folder, "*.jsonl*", f"scores of {_TOOL}"):
        for record in collector.lines(file):
            _add(collector, record, file)


def _item(record: Mapping[str, Any]) -> ItemRecord:
    return ItemRecord(
        str(record.get("trace_id")),
        prompt=text_of(record.get("input")),
        response=text_of(record.get("output")),
        metadata={"system": record.get("provided_model_name")},
    )


def _add(collector: Collector, record: Any, path: Path) -> None:
    if not isinstance(record, Mapping) or not record.get("trace_id") or not record.get("name"):
        raise InputError(f"{path}: a score has no trace_id or no name; give a file of {_TOOL}'s scores")
    item_id, name = str(record["trace_id"]), str(record["name"])
    collector.add_item(ItemRecord(item_id))
    value = record.get("string_value") if record.get("value") is None else record["value"]
    if record.get("source") == "ANNOTATION":
        collector.note(f"scores {name!r} are read as labels, because people gave them")
        collector.add_label(item_id, value)
    else:
        collector.add_score(item_id, name, value)
