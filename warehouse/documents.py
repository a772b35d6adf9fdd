"""Typed records of JSON documents: a frozen dataclass written as a document, and read back with its types checked.

A document that lacks a key has the record's default there, which is what its absence meant to the release that wrote
it; one that lacks a key without a default, or holds a value of another type, counts as damaged. Keys that the record
does not know are left out, so that a document of a later release can be read.
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
    """Plain values of a record, as ``record_of`` reads them: arrays as nested lists, with null for NaN."""
    return {column.name: plain(getattr(record, column.name)) for column in fields(record)}


def plain(value: Any) -> Any:
    """What JSON can hold of a value of a record: lists of an array, with null for NaN."""
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
    """The record that a document holds; ``ValueError`` says in one sentence which key is not what it should be."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "the whole document"
        raise ValueError(f"{key}: {first['msg']}") from None


def read_record(path: Path, kind: type[R]) -> R:
    """Read the record that ``storage.write_document`` stored; raises as ``storage.read_table`` does."""
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
