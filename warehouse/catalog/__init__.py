"""Catalog of benchmarks, with one YAML file per test set; ``care testsets add`` copies a file into a workspace."""

from pathlib import Path

from care_ops.errors import InputError

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the sorted names of the test sets in the catalog."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def text(name: str) -> str:
    """Return the YAML text of a test set in the catalog; raise ``InputError`` if the catalog does not contain it."""
    if name not in names():
        raise InputError(f"no test set {name!r} in the catalog; choose one of {', '.join(names())}")
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
