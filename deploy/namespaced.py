"""Builder of the published wheel, in which all packages of CARE are subpackages of ``care_eval``.

Other projects have packages with the same names, such as ``judges`` and ``assets``. ``make wheel`` therefore copies
``care_eval``, copies CARE's five other packages into it, rewrites their imports, and builds a wheel. Keys of scores and
code versions of fits stay the same, so the wheel and a git clone can use the same workspace.

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
    """Return a module's source with imports of CARE's packages changed to imports of ``care_eval``'s subpackages.

    Raises
    ------
    SyntaxError
        The source has a statement such as ``import judges``; the wheel has no package of that name.
    """
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(_ours(alias.name) for alias in node.names):
            raise SyntaxError(f"{where}, line {node.lineno}: cannot rewrite this `import`; use `from ... import ...`")
        if isinstance(node, ast.ImportFrom) and _ours(node.module or ""):
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line[: node.col_offset] + line[node.col_offset :].replace(
                "from ", f"from {NAME}.", 1
            )
    return "".join(lines)


def write(target: Path) -> None:
    """Write the wheel's sources and pyproject.toml to a folder, and delete the folder's previous contents."""
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
    text = text[: text.index("[tool.dg]")]
    for old, new in (
        ('care = "orchestration.', f'care = "{NAME}.orchestration.'),
        (
            'include = ["orchestration*", "assets*", "care_ops*", "judges*", "warehouse*", "care_eval*"',
            f'include = ["{NAME}*"',
        ),
    ):
        if old not in text:
            raise ValueError(f"pyproject.toml no longer contains {old!r}; update deploy/namespaced.py")
        text = text.replace(old, new)
    text = re.sub(r"^(warehouse|judges|assets|orchestration)( = \[\")", rf'"{NAME}.\1"\2', text, flags=re.MULTILINE)
    tomllib.loads(text)
    return text


def _ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def main() -> None:
    """Write the sources of the wheel to ``build/namespaced``, and build the wheel in ``dist``."""
    target = ROOT / "build" / "namespaced"
    write(target)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(ROOT / "dist")]
    subprocess.run([*command, str(target)], check=True)


if __name__ == "__main__":
    main()
