"""Code versions of assets.

A version is a hash over the asset's own module and all modules of ours that it imports, also inside functions, and
that these import in turn. Docstrings, comments, blank lines and imports for types alone are left out: only a
change of the computation makes an asset stale. The text is read, not compiled, because this runs with every import of
the definitions.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_ROOT = str(Path(__file__).parents[1])
_PREFIX = __name__.removesuffix("assets.code")  # not empty if the packages are installed inside another one
_OURS = ("assets", "care_ops", "judges", "warehouse", "orchestration")

WITHOUT_EFFECT = {
    "assets.code": "names versions, makes no result",
    "assets.fit.made": "notes from which versions a result was made",
    "assets.hashing": "names versions of what comes in, makes no result",
    "assets.judge_keys": "names keys of scores; what a judge sees of an item is part of them",
    "assets.metadata": "tables in Dagster's UI",
    "assets.partitions": "names of partitions",
    "assets.sources": "items and recorded scores, which have versions of their own (`assets/versions.py`)",
    "assets.versions": "names versions of what comes in, makes no result",
    "assets.workspace": "folders, and settings that have versions of their own (`assets/versions.py`)",
}
"""Modules whose change changes no result, each with the reason."""

_DATA = (".sql", ".html", ".css", ".js", ".yaml")

_TYPING = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)*", re.M)
_LONG = r'"""(?:\\.|(?!""").)*"""'
_CODE = re.compile(
    rf"^ *r?{_LONG}\n|^ *(?:#[^\n]*)?\n| *#[^\n]*"
    rf"|({_LONG}|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[^\"'# \n]+|.)",
    re.M | re.S,
)
"""Docstrings, empty lines and comments; or else, as its group, code. A mark inside a string stays in the string."""

_IMPORT = re.compile(rf"^ *(?:from ({'|'.join(_OURS)})([\w.]*) import (\([^)]*\)|.*)|import ([\w.]*))", re.M)
_NAME = re.compile(r"(?<! as )\b\w+\b")


class _Module(NamedTuple):
    digest: str
    imports: frozenset[str]


def code_version(module: str, *packages: str) -> str:
    """Hash the code of an asset: its module and the modules that it imports.

    Parameters
    ----------
    module : str
        Module of the asset, as its ``__name__``.
    *packages : str
        Further packages, in addition to ``assets``, whose modules count.
    """
    counted = sorted(modules_of(module, *packages))
    return _digest("".join([f"{name} {read_module(name).digest}\n" for name in counted]).encode())


def modules_of(module: str, *packages: str) -> frozenset[str]:
    """Return the names of the modules whose code ``code_version`` hashes."""
    return _closure(module.removeprefix(_PREFIX), frozenset(packages) | {"assets"})


@cache
def _closure(module: str, packages: frozenset[str]) -> frozenset[str]:
    reached_modules, new = set[str](), {module}
    while new:
        reached_modules |= new
        reached = {name for one in new for name in read_module(one).imports if name not in WITHOUT_EFFECT}
        new = {name for name in reached - reached_modules if name.partition(".")[0] in packages}
    return frozenset(reached_modules)


@cache
def read_module(name: str) -> _Module:
    """Read a module's digest, with the templates and schemas in its folder, and the modules of ours that it imports."""
    path = _file(name)
    assert path is not None, name
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        text = file.read()
    if _PREFIX:
        text = text.replace(f"from {_PREFIX}", "from ")
    code = code_of(_TYPING.sub("", text))
    return _Module(_digest(code.encode() + _data_files(os.path.dirname(path))), _imports(code))  # noqa: PTH120


def code_of(text: str) -> str:
    """Remove docstrings, comments and empty lines from Python code."""
    return "".join(_CODE.findall(text))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@cache
def _file(name: str) -> str | None:
    """Return the file of a module or package; None if neither exists."""
    stem = f"{_ROOT}/{name.replace('.', '/')}"
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if os.path.isfile(path)), None)  # noqa: PTH113


@cache
def _data_files(folder: str) -> bytes:
    """List the files in a package's folder that are not Python, also in its subfolders that are not packages."""
    content = b""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__" and not os.path.exists(f"{entry.path}/__init__.py"):  # noqa: PTH110
            content += _data_files(entry.path)
        elif entry.name.endswith(_DATA):
            content += entry.name.encode() + Path(entry.path).read_bytes()
    return content


def _imports(code: str) -> frozenset[str]:
    """List the imported modules of this project, and the packages that hold them."""
    modules = set[str]()
    for package, inner, names, whole in _IMPORT.findall(code):
        module = f"{package}{inner}" or whole
        modules |= _with_parents(module)
        if names and _is_package(module):
            for name in _NAME.findall(names):
                modules |= _with_parents(f"{module}.{name}")
    return frozenset(modules)


@cache
def _is_package(name: str) -> bool:
    return (_file(name) or "").endswith("__init__.py")


@cache
def _with_parents(name: str) -> frozenset[str]:
    """Return a module of this project with its parent packages; empty if the module does not exist."""
    if not name.startswith(_OURS) or _file(name) is None:
        return frozenset()
    parts = name.split(".")
    return frozenset([".".join(parts[:k]) for k in range(1, len(parts) + 1)])
