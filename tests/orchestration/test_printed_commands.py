"""Tests that every command in code and documents exists; ``test_typed_commands.py`` runs them."""

import ast
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer.main

from orchestration.cli.app import app

CARE = typer.main.get_command(app)
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("printed commands")  # all commands are parsed once
PACKAGES = ("assets", "care_eval", "care_ops", "judges", "orchestration", "warehouse")
HOLE = "FILLED_IN"
"""Placeholder for a value that is known only when a text is printed."""

_QUOTED = re.compile(r"`+(care(?: [^`]+)?)`+")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

NO_COMMANDS = {
    "care": "the name of the program, or of the aggregator",
    "care without labels": "the name of a hypothesis of the aggregator care",
}

ONLY_NAMED = {
    "care fits accept": "the advice of a check; the verdict has the whole command",
    "care admin backup": "who holds the lock",
    "care fits diff": "as care fits accept",
    "care fit --items": "the help of an option",
    "care admin forget": "the error has named the items",
    "care import": "an error names the command for finished logs",
    "care judges report": "a reason of the verdict, which has no labels yet",
    "care judges retest": "who holds the lock",
    "care fits promote": "the advice of a check: pin the fit",
    "care fits rollback": "who holds the lock",
}
"""Commands that code names without all arguments, with the reason why nobody copies them."""


@dataclass(frozen=True)
class Printed:
    """Command in a text, and its place; ``is_line`` if it is a line to copy, not a part of a sentence."""

    command: str
    where: str
    is_line: bool = False


@cache
def printed_commands() -> list[Printed]:
    """Return all commands in strings of the code, templates, data files and documents, except docstrings."""
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
    """Yield the commands between backticks, on one line or on two."""
    where = str(path.relative_to(ROOT))
    return [Printed(" ".join(command.split()), where) for command in _QUOTED.findall(text)]


def _of_document(path: Path) -> list[Printed]:
    text = path.read_text()
    where = str(path.relative_to(ROOT))
    shell = [block for language, block in _FENCED.findall(text) if language in ("", "sh", "shell", "bash")]
    lines = [re.split(r"\s#", line)[0].strip() for block in shell for line in block.splitlines()]
    typed = [Printed(line, where, is_line=True) for line in lines if line.startswith("care ")]
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
            found.append(Printed(text.strip(), where, is_line=True))
        found += _of_text(path, text)
    return found


@cache
def by_command() -> dict[str, set[Printed]]:
    """Return each command and its places."""
    found: dict[str, set[Printed]] = defaultdict(set)
    for each in printed_commands():
        if each.command not in NO_COMMANDS:
            found[each.command].add(each)
    return found


def what_is_wrong(command: str) -> str | None:
    """Return why a command cannot be typed, or None."""
    here, words = CARE, shlex.split(command)[1:]
    while hasattr(here, "commands"):
        if not words or words[0].startswith("-"):
            break
        name = words.pop(0)
        if name not in here.commands:
            return f"there is no command {name!r}"
        here = here.commands[name]
    options = {opt: each for each in here.params for opt in (*each.opts, *each.secondary_opts) if opt.startswith("-")}
    arguments, given = [each for each in here.params if each.param_type_name == "argument"], set()
    values = 0
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            continue
        if word == HOLE:  # a value, or an option with its value
            values += 1
        elif word.startswith("-"):
            if word not in options:
                return f"{here.name} has no option {word}"
            given.add(options[word].name)
            wanted = 0 if options[word].is_flag else options[word].nargs
            if len(words) < wanted:
                return f"lacks the value of {word}"
            del words[:wanted]
        else:
            values += 1
    needed = [each.name for each in arguments if each.required]
    lacking = needed[values:] + [
        e.name for e in here.params if e.required and e not in arguments and e.name not in given
    ]
    if lacking:
        return f"lacks {', '.join(lacking)}"
    most = sum(each.nargs for each in arguments) if all(each.nargs > 0 for each in arguments) else values
    return f"{values} values, and takes {most}" if values - command.split().count(HOLE) > most else None


def only_named(each: Printed) -> bool:
    """Return whether a sentence only names a command or an option, without asking to type it."""
    if each.where.endswith(".md"):
        return not each.is_line
    return each.command in ONLY_NAMED


def test_every_printed_command_can_be_copied_and_run():
    wrong = {command: why for command in by_command() if (why := what_is_wrong(command))}
    missing = {command for command, why in wrong.items() if not why.startswith("lacks ")}
    assert not missing, {command: (wrong[command], by_command()[command]) for command in missing}
    unfinished = [
        (each.command, wrong[each.command], each.where)
        for c in wrong
        for each in by_command()[c]
        if not only_named(each)
    ]
    assert not unfinished, unfinished
    assert ONLY_NAMED.keys() <= wrong.keys(), "none is stale"
    assert set(NO_COMMANDS) <= {each.command for each in printed_commands()}, "none is stale"


def test_commands_are_found_where_they_are_printed():
    files = {command: {each.where for each in found} for command, found in by_command().items()}
    assert "assets/report/verdicts.py" in files[f"care label {HOLE} {HOLE}"]
    assert "README.md" in files["care init mine"]
    assert "assets/state/repair.py" in files["care doctor --repair"], "a string in two parts"
    assert len(files) > 100
    assert what_is_wrong("care labels one") == "there is no command 'labels'"
    assert what_is_wrong("care judges tset one") == "there is no command 'tset'"
    assert what_is_wrong("care run --worksapce x") == "run has no option --worksapce"
    assert what_is_wrong("care fits accept") == "lacks testset"
