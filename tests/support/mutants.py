"""Mutants: code with one small change, drawn by a seed, and whether tests detect it.

``benchmarks/soaks/mutants.py`` selects the tests for each mutant and writes the report.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]

STRATA: Mapping[str, tuple[str, ...]] = {
    "structure": ("care_ops/structure",),
    "moments": ("care_ops/moments",),
    "models": ("care_ops/models",),
    "aggregators": ("care_ops/aggregators",),
    "verdict": ("care_ops/results/verdict.py", "care_ops/results/decide.py", "care_ops/results/reasons.py"),
    "writer": ("warehouse/parts.py", "warehouse/storage.py"),
}

_COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}

_OPERATED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

_PAIRS = ("min max", "any all", "minimum maximum", "argmin argmax", "zeros ones", "floor ceil", "nanmin nanmax")

_CALLED = {a: b for pair in _PAIRS for a, b in (pair.split(), pair.split()[::-1])}

_LEFT_OUT = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutant:
    """Change of a file: ``after`` replaces ``before``, the bytes from ``start`` to ``end``.

    ``lines`` are the first and last line of its statement or condition, and ``within`` the first and last line of its
    function.
    """

    stratum: str
    file: str
    function: str
    lines: tuple[int, int]
    within: tuple[int, int]
    start: int
    end: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """Return a name that does not depend on line numbers."""
        return f"{self.file} {self.function}: `{_short(self.before)}` becomes `{_short(self.after)}`"

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


def candidates_of(stratum: str) -> Iterator[Mutant]:
    """Yield every mutant of a stratum."""
    for place in STRATA[stratum]:
        for path in sorted((ROOT / place).glob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]:
            yield from mutants_of(path.read_bytes(), stratum, str(path.relative_to(ROOT)))


def draw(candidates: Mapping[str, Sequence[Mutant]], count: int, seed: int) -> list[Mutant]:
    """Draw equally many mutants from each stratum, in turn."""
    drawn = list[list[Mutant]]()
    for place, (stratum, every) in enumerate(candidates.items()):
        share = count // len(candidates) + (place < count % len(candidates))
        drawn.append(random.Random(f"{seed}/{stratum}").sample(every, min(share, len(every))))
    return [mutant for turn in zip_longest(*drawn) for mutant in turn if mutant is not None]


def mutants_of(source: bytes, stratum: str = "", file: str = "") -> Iterator[Mutant]:
    """Yield every mutant of a module, in source order."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def changes(node: ast.AST, names: tuple[str, ...], lines: tuple[int, int], within: tuple[int, int]) -> Iterator:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names, within = (*names, node.name), (node.lineno, node.end_lineno or node.lineno)
        if isinstance(node, (ast.expr, ast.stmt)) and node.end_lineno:
            lines = lines_of(node) if isinstance(node, ast.stmt) or lines == (0, 0) else lines
            for part, after in variants(node, in_function=within != (0, 0)):
                start = starts[part.lineno - 1] + part.col_offset
                end = starts[part.end_lineno - 1] + part.end_col_offset
                before = source[start:end].decode()
                yield Mutant(stratum, file, ".".join(names) or "module", lines, within, start, end, before, after)
        for child in kept_children(node):
            yield from changes(child, names, lines, within)

    yield from changes(ast.parse(source), (), (0, 0), (0, 0))


def lines_of(node: ast.AST) -> tuple[int, int]:
    """Return the lines of a statement, or of the condition of a compound statement."""
    last = getattr(node, "test", getattr(node, "iter", node)) if hasattr(node, "body") else node
    return node.lineno, node.lineno if last is node and hasattr(node, "body") else last.end_lineno  # type: ignore[attr-defined]


def kept_children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node that may be changed."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment", "bases", "ctx", "op", "ops"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, _LEFT_OUT) and not is_no_code(child):
                yield child


def is_no_code(node: ast.AST) -> bool:
    """Return whether a statement is a docstring, logging, or only for type checkers."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.Constant) or ast.unparse(node).startswith(("_log.", "warnings."))


def variants(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, str]]:
    """Yield possible mistakes at a node, as pairs of the replaced part and its new text."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in _COMPARED:
            for other in _COMPARED[type(op)]:
                yield node, f"({ast.unparse(ast.Compare(left, [other()], right))})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATED and in_function and not has_text(node):
            yield node, f"({ast.unparse(ast.BinOp(left, _OPERATED[type(op)](), right))})"
        case ast.BoolOp(op=op, values=values):
            yield node, f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.Constant(value=float() as value):
            yield node, repr(2 * value or 1.0)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _CALLED:
            called = ast.unparse(node.func)
            yield node.func, called.removesuffix(name) + _CALLED[name]
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield node, "return None"
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if in_function:
            yield node, "pass"
        case ast.Continue() | ast.Break():
            yield node, "break" if isinstance(node, ast.Continue) else "continue"
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield node.test, f"(not ({ast.unparse(node.test)}))"


def has_text(node: ast.AST) -> bool:
    """Return whether an expression builds a string."""
    return any(isinstance(part, ast.JoinedStr) or _is_text(part) for part in ast.walk(node))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def ending_of(mutant: Mutant, tree: Path, tests: Sequence[str], limit_s: float) -> str:
    """Test a mutant in a copy of the code, restore it, and return ``killed``, ``did not end`` or ``survived``."""
    path = tree / mutant.file
    sound = path.read_bytes()
    path.write_bytes(sound[: mutant.start] + mutant.after.encode() + sound[mutant.end :])
    _forget_compiled(path)
    try:
        return _run(tests, tree, limit_s)
    finally:
        path.write_bytes(sound)
        _forget_compiled(path)


def _run(tests: Sequence[str], tree: Path, limit_s: float) -> str:
    """Run tests in a forked process that imports CARE's code from the copy."""
    process = os.fork()
    if process == 0:
        _test(tests, tree)
    until, ended, status = time.monotonic() + limit_s, 0, 0
    while not ended and time.monotonic() < until:
        time.sleep(0.05)
        ended, status = os.waitpid(process, os.WNOHANG)
    with suppress(ProcessLookupError):  # with all processes that it has started
        os.killpg(process, signal.SIGKILL)
    if not ended:
        os.waitpid(process, 0)
        return "did not end"
    return "survived" if os.waitstatus_to_exitcode(status) in (0, pytest.ExitCode.NO_TESTS_COLLECTED) else "killed"


def _test(tests: Sequence[str], tree: Path) -> NoReturn:
    code = 1
    try:
        os.setsid()
        for descriptor in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        os.chdir(tree)
        sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("benchmarks", "tests")]:
            del sys.modules[name]
        options = ["-x", "-q", "-m", "not slow", "-p", "no:xdist", "--hypothesis-seed=0", f"--rootdir={tree}"]
        code = int(pytest.main([*options, *tests]))
    finally:
        os._exit(code)


def _forget_compiled(path: Path) -> None:
    """Delete compiled files, because Python recognises a changed file only by its seconds and its size."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:60]} ... {line[-25:]}"
