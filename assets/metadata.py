"""Metadata and asset check results for Dagster's UI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg


def table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Build a metadata table from rows, with numbers rounded to four decimals."""
    return dg.MetadataValue.table(
        records=[dg.TableRecord({k: _cell(v) for k, v in row.items()}) for row in rows],
        schema=dg.TableSchema([dg.TableColumn(name) for name in rows[0]]) if rows else dg.TableSchema([]),
    )


_POINTER = "dagster/input_event_pointer/"
_EVER = str(2**53)
"""Storage id that is larger than the id of any event."""


def made_from(instance: dg.DagsterInstance, inputs: Iterable[dg.AssetKey]) -> dict[str, str]:
    """Return tags that name the latest event of each input, for a materialisation that a step logs itself.

    Dagster needs these tags to show stale assets, and adds them only to the results that a step returns.
    """
    latest = {key: instance.fetch_materializations(key, limit=1).records for key in inputs}
    return _pointing({key: str(records[0].storage_id) if records else "NULL" for key, records in latest.items()})


def never_stale(inputs: Iterable[dg.AssetKey]) -> dict[str, str]:
    """Return tags that keep a partition without content from becoming stale when an input changes."""
    return _pointing(dict.fromkeys(inputs, _EVER))


def is_behind(event: dg.AssetMaterialization, key: dg.AssetKey, storage_id: int) -> bool:
    """Return whether a materialisation used an event of its input ``key`` that is older than event ``storage_id``."""
    pointer = (event.tags or {}).get(f"{_POINTER}{key.to_user_string()}", _EVER)
    return pointer == "NULL" or int(pointer) < storage_id


def _pointing(pointers: Mapping[dg.AssetKey, str]) -> dict[str, str]:
    tags = {"dagster/code_version": "none", "dagster/data_version_is_user_provided": "true"}
    for key, pointer in pointers.items():
        tags[f"{_POINTER}{key.to_user_string()}"] = pointer
        tags[f"dagster/input_data_version/{key.to_user_string()}"] = "by partition"
    return tags


_WHY = "why"


def failure(reasons: Mapping[str, str]) -> dg.Failure:
    """Build the failure of a run over several partitions, with a table of the reasons."""
    rows = [{"partition": partition, _WHY: why} for partition, why in reasons.items()]
    return dg.Failure("; ".join(f"{row['partition']}: {row[_WHY]}" for row in rows), metadata={_WHY: table(rows)})


def reasons_of(failed: dg.StepFailureData) -> dict[str, str]:
    """Return the reason for each failed partition of a step; empty if the step failed for another reason."""
    data = failed.user_failure_data
    found = data.metadata.get(_WHY) if data is not None else None
    rows = found.records if isinstance(found, dg.TableMetadataValue) else []
    return {str(row.data["partition"]): str(row.data[_WHY]) for row in rows}


def is_blocked(failed: dg.StepFailureData) -> bool:
    """Return whether a step failed only because a blocking asset check did not pass."""
    return failed.error is not None and failed.error.cls_name == "DagsterAssetCheckFailedError"


def bullets(lines: Iterable[str]) -> Any:
    """Format sentences as a Markdown list, with all markup escaped."""
    return dg.MetadataValue.md("".join(f"- {as_text(line)}\n" for line in lines) or "nothing to add")


def checked(check: str, message: str, *, passed: bool, blocks: bool = False, **more: Any) -> dg.AssetCheckResult:
    """Build the result of an asset check; a failed check is an error if it ``blocks``, otherwise a warning."""
    return dg.AssetCheckResult(
        check_name=check,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if blocks else dg.AssetCheckSeverity.WARN,
        description=message,
        metadata={"message": message, **more},
    )


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return round(value, 4) if value == value else ""
    return value


def as_text(text: str) -> str:
    """Escape a text for Markdown, including links, images and tags."""
    return re.sub(r"([\\`*_{}\[\]()<>#!|~&])", r"\\\1", " ".join(text.split()))
