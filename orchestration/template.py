"""Template of care.yaml, derived from the settings."""

import dataclasses
import json
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

import yaml
from pydantic import BaseModel, TypeAdapter

from care_ops.config import StructureConfig, explained
from orchestration.workspace import DECLARED_BY_TEST_SETS, Settings

_HEAD = "# Settings of a CARE workspace. The values are the defaults; delete the lines that you do not change.\n"
_WIDTH = 110


def template() -> str:
    """Return the text of a care.yaml with every setting, its default and its description."""
    return _HEAD + "".join(f"\n{block}" for block in _blocks())


def _blocks() -> Iterator[str]:
    for name, entry in Settings.model_fields.items():
        value = entry.get_default(call_default_factory=True)
        kind: Any = entry.annotation if value is None else type(value)
        inner = next((k for k in (kind, *get_args(kind)) if _has_fields(k)), None)
        if inner is None:
            yield _line(name, value, entry.description or "", "")
        else:
            block = "".join([f"{name}:\n", *_lines_of(inner, inner() if value is None else value, "  ")])
            yield textwrap.indent(block, "# ") if value is None else block  # a comment if it is not set by default


def _has_fields(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel))


def _lines_of(kind: Any, value: Any, indent: str) -> Iterator[str]:
    if issubclass(kind, BaseModel):
        for name, entry in kind.model_fields.items():
            yield _line(name, getattr(value, name), entry.description or "", indent)
        return
    descriptions = explained(kind)
    for entry in dataclasses.fields(kind):
        if entry.name == "structure":
            yield from _lines_of(StructureConfig, value.structure, indent)
        elif entry.name not in DECLARED_BY_TEST_SETS:
            yield _line(entry.name, getattr(value, entry.name), descriptions.get(entry.name, ""), indent)


def _line(name: str, value: Any, description: str, indent: str) -> str:
    comments = textwrap.wrap(description, _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
    plain = json.loads(TypeAdapter(Any).dump_json(value))
    text = yaml.safe_dump(plain, default_flow_style=True, width=_WIDTH * 10).removesuffix("...\n").strip()
    return "".join(f"{indent}# {line}\n" for line in comments) + f"{indent}{name}: {text}\n"
