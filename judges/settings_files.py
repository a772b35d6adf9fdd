"""Reader that converts YAML settings files to pydantic models and explains invalid settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from care_ops.errors import InputError, guarded

_LONGEST_BYTES, _MOST_VALUES = 2**20, 2**18
"""Maximum number of bytes and of values in a YAML file; hand-written files have at most a tenth of these numbers."""

M = TypeVar("M", bound=BaseModel)

guards_settings = guarded("write the file as docs/reference describes")
"""Decorator for functions that read an untrusted settings file."""


@guards_settings
def read_model(path: Path, kind: type[M]) -> M:
    """Read a YAML file into a pydantic model; the field ``name`` defaults to the file's name without the suffix.

    Raises ``InputError`` if the file cannot be read or is not valid; the message names the file and the field.
    """
    content = load_yaml(path)
    try:
        return kind.model_validate({"name": path.stem, **content})
    except ValidationError as error:
        raise InputError(f"{path}: {explain(error, kind, content)}") from None  # pydantic's error repeats the input


@guards_settings
def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file as a dictionary; raise ``InputError`` if it is missing, unreadable, empty or not a mapping."""
    try:
        if path.stat().st_size > _LONGEST_BYTES:
            raise InputError(
                f"{path}: the file is larger than {_LONGEST_BYTES:,} bytes, the limit for settings; shorten it"
            )
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        if _spread(node, {}) > _MOST_VALUES:
            raise InputError(
                f"{path}: its aliases (*) expand to more than {_MOST_VALUES:,} values; write the values out, and "
                "remove an alias that contains itself"
            )
        data = None if node is None else loader.construct_document(node)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; correct the path") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not valid YAML ({error}); correct the file") from error
    if data is None:
        raise InputError(f"{path}: the file is empty; write settings, or {{}} for no settings")
    if not isinstance(data, dict):
        raise InputError(f"{path}: the file holds a {type(data).__name__}, not a mapping; write lines NAME: VALUE")
    return data


def _spread(node: Any, known: dict[int, int]) -> int:
    """Count a YAML node's values with aliases expanded; a node that contains itself exceeds ``_MOST_VALUES``."""
    if id(node) not in known:
        known[id(node)] = _MOST_VALUES + 1
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        each = (part for pair in parts for part in (pair if isinstance(pair, tuple) else (pair,)))
        known[id(node)] = 1 + sum(_spread(part, known) for part in each)
    return known[id(node)]


def _places(schema: Mapping[str, Any], part: Mapping[str, Any], content: Any, name: str, path: str = "") -> list[str]:
    """Return the paths of mappings in which ``part`` of the JSON schema ``schema`` allows the setting ``name``."""
    part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    content = content if isinstance(content, dict) else {}
    kinds = part.get("discriminator", {}).get("mapping", {})
    chosen = [{"$ref": kinds[content["kind"]]}] if content.get("kind") in kinds else part.get("anyOf", [])
    places = [place for option in chosen for place in _places(schema, option, content, name, path)]
    for field, inner in part.get("properties", {}).items():
        places += [path] if field == name else _places(schema, inner, content.get(field), name, f"{path}.{field}")
    return [place.strip(".") for place in places if place]


_PATTERNS = {
    "revision": "not a commit; give a commit of the repository, as 40 hexadecimal digits",
    "at": "not a time of day; give hours and minutes, such as 02:00",
    "api_key_env": "not the name of an environment variable; put the key itself into the environment, not into a file",
}
"""Messages for settings whose text does not match the required pattern."""


def explain(error: ValidationError, kind: type[BaseModel] | None = None, content: Any = None) -> str:
    """Describe all validation errors in one line, each with the name of the field.

    If the pydantic model ``kind`` is given, the line also states where to write a misplaced setting.
    """
    schema = {} if kind is None else kind.model_json_schema()
    problems: list[str] = []
    for problem in error.errors():
        message = problem["msg"]
        if problem["type"] == "string_pattern_mismatch" and problem["loc"][-1] in _PATTERNS:
            what = "" if problem["loc"][-1] == "api_key_env" else f"{problem['input']!r} is "  # the input may be a key
            message = f"{what}{_PATTERNS[problem['loc'][-1]]}"
        elif problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            elsewhere = " or ".join(_places(schema, schema, content, str(problem["loc"][-1])))
            message = f"not a setting here; {f'write it under {elsewhere}' if elsewhere else 'delete it'}"
        problems.append(f"{'.'.join(str(part) for part in problem['loc']) or 'file'}: {message}")
    return "; ".join(problems)
