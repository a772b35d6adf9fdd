"""The wheel that is published: the same sources as one package, ``care_eval``.

The index has packages called ``judges`` and ``assets``, and projects have their own. ``make wheel`` writes the five
packages into a copy of the sixth, ``care_eval``, with every import of ours turned into one of ``care_eval``'s, and
builds a wheel of that. Scores keep their keys and fits their code versions: a workspace is the same to both.

    from care_eval.orchestration.definitions import build_defs
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "care_eval"
PACKAGES = ("care_ops", "judges", "warehouse", "assets", "orchestration")


def rewritten(text: str, where: str) -> str:
    """A module's text with imports of our packages turned into imports of ``care_eval``'s.

    Raises
    ------
    SyntaxError
        ``import judges`` and the like, which bind a name that would no longer be there.
    """
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(_ours(alias.name) for alias in node.names):
            raise SyntaxError(f"{where}, line {node.lineno}: write `from ... import ...`, which can be rewritten")
        if isinstance(node, ast.ImportFrom) and _ours(node.module or ""):
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line[: node.col_offset] + line[node.col_offset :].replace(
                "from ", f"from {NAME}.", 1
            )
    return "".join(lines)


def write(target: Path) -> None:
    """The project of the namespaced distribution, in an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / NAME, target / NAME, ignore=shutil.ignore_patterns("__pycache__"))
    for package in PACKAGES:
        shutil.copytree(ROOT / package, target / NAME / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (target / NAME).rglob("*.py"):
        path.write_text(rewritten(path.read_text(encoding="utf-8"), str(path)), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", target)
    shutil.copy(ROOT / "README.md", target)
    (target / "pyproject.toml").write_text(_project((ROOT / "pyproject.toml").read_text(encoding="utf-8")))


def _project(text: str) -> str:
    """Our pyproject.toml up to what tools read, for the one package."""
    text = text[: text.index("[tool.dg]")]
    for old, new in (
        ('care = "orchestration.', f'care = "{NAME}.orchestration.'),
        (
            "include = ["
            + ", ".join(f'"{p}*"' for p in ("orchestration", "assets", "care_ops", "judges", "warehouse", NAME)),
            f'include = ["{NAME}*"',
        ),
    ):
        if old not in text:
            raise ValueError(f"pyproject.toml no longer holds {old!r}; bring deploy/namespaced.py up to date")
        text = text.replace(old, new)
    text = re.sub(r"^(warehouse|judges|assets|orchestration)( = \[\")", rf'"{NAME}.\1"\2', text, flags=re.MULTILINE)
    tomllib.loads(text)
    return text


def _ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def main() -> None:
    """Write the project and build its wheel into ``dist``."""
    target = ROOT / "build" / "namespaced"
    write(target)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(ROOT / "dist")]
    subprocess.run([*command, str(target)], check=True)


if __name__ == "__main__":
    main()
