"""Every command that the product and its documentation tell a person to type, found in the texts that print them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("assets", "care_eval", "care_ops", "judges", "orchestration", "warehouse")
HOLE = "FILLED_IN"
"""What stands where a text has a value that is not known before it is printed."""

_QUOTED = re.compile(r"`+(care(?: [^`]+)?)`+")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Printed:
    """A command as it is printed, and where; ``alone`` on a line that is to be copied, or within a sentence."""

    command: str
    where: str
    alone: bool = False


def printed_commands() -> list[Printed]:
    """All of them: in strings of the code that are no docstrings, in templates and data files, and in the documents."""
    found = [each for path in _files("*.py") for each in _of_code(path)]
    for pattern in ("*.html", "*.yaml", "*.js"):
        found += [each for path in _files(pattern) for each in _of_text(path, path.read_text())]
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        found += _of_document(path)
    return sorted(set(found), key=lambda each: (each.command, each.where))


def _files(pattern: str) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob(pattern))


def _of_text(path: Path, text: str) -> list[Printed]:
    """What stands between backticks, on one line or on two."""
    where = str(path.relative_to(ROOT))
    return [Printed(" ".join(command.split()), where) for command in _QUOTED.findall(text)]


def _of_document(path: Path) -> list[Printed]:
    text = path.read_text()
    where = str(path.relative_to(ROOT))
    shell = [block for language, block in _FENCED.findall(text) if language in ("", "sh", "shell", "bash")]
    lines = [re.split(r"\s#", line)[0].strip() for block in shell for line in block.splitlines()]
    typed = [Printed(line, where, alone=True) for line in lines if line.startswith("care ")]
    return typed + _of_text(path, _FENCED.sub("", text))


def _of_code(path: Path) -> list[Printed]:
    tree = ast.parse(path.read_text())
    where = str(path.relative_to(ROOT))
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found: list[Printed] = []
    inside: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in docstrings | inside:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
            text = re.sub(r"(?<=[\w\0])\0", " \0", text).replace("\0", HOLE)  # options that bring their own space
            inside |= {id(part) for part in ast.walk(node)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if re.match(r"care [a-z]", text) and "\n" not in text:
            found.append(Printed(text.strip(), where, alone=True))
        found += _of_text(path, text)
    return found
