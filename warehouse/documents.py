"""Typed records of JSON documents: frozen dataclasses, written as documents and read with their types checked.

A missing key means the record's default; one without a default, or a value of another type, means that the document is
damaged. Unknown keys are left out, as in a document of a later release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

R = TypeVar("R")


def document_of(record: DataclassInstance) -> dict[str, Any]:
    """Return the plain values of a record, which ``record_of`` reads: arrays as nested lists, with null for NaN."""
    return {column.name: plain(getattr(record, column.name)) for column in fields(record)}


def plain(value: Any) -> Any:
    """Return a value of a record as JSON can hold it: an array as lists, with null for NaN."""
    if is_dataclass(value) and not isinstance(value, type):
        return document_of(value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    lists = getattr(value, "tolist", None)  # of an array, whose module need not be imported here
    if lists is not None:
        return _null_for_nan(lists())
    return value


def _null_for_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_null_for_nan(each) for each in value]
    return None if value != value else value


def record_of(kind: type[R], document: Mapping[str, Any]) -> R:
    """Return the record of a document; raise ``ValueError`` with one sentence on the first wrong key."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "the whole document"
        raise ValueError(f"{key}: {first['msg']}") from None


def read_record(path: Path, kind: type[R]) -> R:
    """Read a record that ``storage.write_document`` stored; raises as ``storage.read_table`` does."""
    from warehouse.storage import DamagedError, read_document

    document = read_document(path)
    try:
        return record_of(kind, document)
    except ValueError as error:
        raise DamagedError(f"{path}: it is damaged ({error})") from None


@cache
def _adapter(kind: type[R]) -> TypeAdapter[R]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
