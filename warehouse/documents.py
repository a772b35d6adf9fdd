"""Storage of dataclass records as JSON documents, with type checks on reading.

- A missing key gets the default of the record's field.
- If a key without a default is missing, or a value has a wrong type, the document is damaged.
- Unknown keys are ignored; a later release may have written them.
- The old field names of an earlier format are replaced when a document is read (``renamed``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

R = TypeVar("R")
D = TypeVar("D", bound=Mapping[str, Any])

FORMAT = 2
"""Version of the field names, stored as ``format`` in a document; a document without ``format`` has version 1."""

_RENAMED: dict[str, dict[str, str]] = {
    "AlertLog": {"night": "run_began", "owed": "unsent"},
    "Batch": {"night": "run_date"},
    "Cursor": {"night": "run_began"},
    "FactsDocument": {"facts.edition": "fit_version", "facts.doubts": "former_concerns"},
    "FitDocument": {"edition": "fit_version"},
    "FitFacts": {"edition": "fit_version", "doubts": "former_concerns"},
    "FitRecord": {"details.label_first": "items_to_label", "details.anchors_confirm": "labels_confirm"},
    "FitVersion": {"edition": "fit_version"},
    "HeldDocument": {"facts.edition": "fit_version", "facts.doubts": "former_concerns"},
    "Publication": {"edition": "fit_version"},
    "Retests": {"rows.*.night": "run_date", "changed.night": "run_date", "changed.told": "detected"},
    "ReviewDocument": {"edition": "fit_version", "findings.*.says": "message"},
    "Verdict": {"edition": "fit_version"},
}
"""Current name of each renamed field, keyed by record class and by the field's path in format 1 (``*``: any key)."""


def document_of(record: DataclassInstance) -> dict[str, Any]:
    """Convert a record to JSON values; arrays become nested lists, with null for NaN."""
    return {column.name: plain(getattr(record, column.name)) for column in fields(record)}


def plain(value: Any) -> Any:
    """Convert the value of a record's field to JSON values; arrays become nested lists, with null for NaN."""
    if is_dataclass(value) and not isinstance(value, type):
        return document_of(value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    lists = getattr(value, "tolist", None)  # numpy arrays have ``tolist``; this needs no import of numpy
    if lists is not None:
        return _null_for_nan(lists())
    return value


def _null_for_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_null_for_nan(each) for each in value]
    return None if value != value else value


def stored(record: DataclassInstance) -> dict[str, Any]:
    """Convert a record to a JSON document; add the format version if the record's class has renamed fields."""
    known = type(record).__name__ in _RENAMED
    return ({"format": FORMAT} if known else {}) | document_of(record)


def renamed(kind: str, document: D) -> D:
    """Rename the fields of a document in format 1 to their current names, in place; return the document."""
    if kind in _RENAMED and document.get("format", 1) == 1:
        for path, name in _RENAMED[kind].items():
            _rename(document, path.split("."), name)
    return document


def _rename(node: Any, path: Sequence[str], name: str) -> None:
    """Rename the key at a path; ignore a missing path, because a later validation reports missing keys."""
    step, *rest = path
    if step == "*":
        for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            _rename(each, rest, name)
    elif isinstance(node, dict) and step in node:
        if rest:
            _rename(node[step], rest, name)
        else:
            node[name] = node.pop(step)


def record_of(kind: type[R], document: Mapping[str, Any]) -> R:
    """Convert a document to a record; raise ``ValueError`` with the first invalid key and its error."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(renamed(kind.__name__, document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "the whole document"
        raise ValueError(f"{key}: {first['msg']}") from None


def write_record(path: Path, record: DataclassInstance) -> None:
    """Store a record as a JSON document."""
    from warehouse.storage import write_document

    write_document(path, stored(record))


def read_record(path: Path, kind: type[R]) -> R:
    """Read a record of the class ``kind`` from a JSON document; raise the same errors as ``storage.read_table``."""
    from warehouse.storage import DamagedError, read_document

    document = read_document(path)
    try:
        return record_of(kind, document)
    except ValueError as error:
        raise DamagedError(f"{path}: the file is damaged ({error})") from None


@cache
def _adapter(kind: type[R]) -> TypeAdapter[R]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
