"""Importer of Phoenix's annotations, from a table (CSV, JSON lines, Parquet) or the JSON of Phoenix's API.

A span is an item. Annotations by a model or by code are scores, and the annotation's name is the judge. Annotations by
people are labels. The texts of the items are in a file of spans (such as ``spans.jsonl``) in the same folder.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from care_ops.errors import InputError
from warehouse.importers.collected import Collector, files_of, text_of
from warehouse.items import ItemRecord
from warehouse.sources.input_table import WantedColumns
from warehouse.sources.tables import read_input_table

_TOOL = "Phoenix"
_SPAN = ("span_id", "context.span_id")


def read(path: Path, collector: Collector) -> None:
    """Read one file of annotations, or ``annotations.*`` and ``spans.*`` (with the texts) in a folder.

    Raises ``InputError`` if there are no annotations, or an annotation has no span.
    """
    files = files_of(path, "annotations*.*", f"annotations of {_TOOL}")
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise InputError(
            f"{path}: the folder contains {len(files)} files of annotations ({names}), perhaps with the same "
            "annotations; give one file"
        )
    spans = sorted(path.glob("spans.*")) if path.is_dir() else []
    for span in (span for file in spans for span in _rows(collector, file)):
        collector.add_item(
            ItemRecord(
                str(_first(span, *_SPAN)),
                prompt=text_of(_first(span, "attributes.input.value")),
                response=text_of(_first(span, "attributes.output.value")),
                metadata={"system": _first(span, "attributes.llm.model_name")},
            )
        )
    for row in _rows(collector, files[0]):
        _add(collector, row, files[0])


def _add(collector: Collector, row: Mapping[str, Any], path: Path) -> None:
    item_id, name = _first(row, *_SPAN), _first(row, "annotation_name", "name")
    if item_id is None or name is None:
        raise InputError(f"{path}: an annotation has no span_id or no name; give a file of {_TOOL}'s annotations")
    collector.add_item(ItemRecord(str(item_id)))
    score = _first(row, "result.score", "score")
    value = _first(row, "result.label", "label") if score is None else score
    if row.get("annotator_kind") == "HUMAN":
        collector.note(f"annotations {name!r} are read as labels, because people made them")
        collector.add_label(str(item_id), value)
    else:
        collector.add_score(str(item_id), str(name), value)


def _first(row: Mapping[str, Any], *paths: str) -> Any:
    """Return the first non-missing value at ``paths``; ``a.b`` is column ``a.b``, or field ``b`` in column ``a``."""
    for path in paths:
        value = row.get(path)
        if value is None and "." in path:
            outer, _, inner = path.partition(".")
            nested = row.get(outer)
            value = nested.get(inner) if isinstance(nested, Mapping) else None
        if value is not None and value == value:
            return value
    return None


def _rows(collector: Collector, path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".json":
        document = collector.document(path)
        yield from document.get("data", []) if isinstance(document, dict) else document
        return
    collector.opening(path)
    yield from read_input_table(path, lambda names: WantedColumns(frozenset(_SPAN) & set(names))).table.to_pylist()
