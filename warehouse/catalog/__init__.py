"""The catalog: benchmarks as data, one YAML a test set; ``care testsets add`` copies one into a workspace.

Belongs here: finding an entry. Does not: reading its data (``warehouse.sources``).
"""

from __future__ import annotations

from pathlib import Path

from care_ops.errors import InputError

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Names of the entries, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def text(name: str) -> str:
    """An entry's YAML; ``InputError`` if there is none of this name."""
    path = _FOLDER / f"{name}.yaml"
    if not path.exists():
        raise InputError(f"no test set {name!r} in the catalog; there are {', '.join(names())}")
    return path.read_text(encoding="utf-8")
