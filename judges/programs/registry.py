"""Registry of program judges, keyed by name."""

import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from care_ops.errors import JudgeError
from judges.items import Item
from judges.programs import text

Function = Callable[[Item], float | None]

_PREFIX = __name__.removesuffix("judges.programs.registry")  # not empty if the five packages are part of another one


@dataclass(frozen=True)
class Program:
    """Registered program judge.

    Attributes
    ----------
    function : callable
        Function from an item to its score, or to None if the program abstains.
    scale : (low, high)
    family : str
        Declared family of the judge.
    criterion : str
        Criterion that the program judges, such as ``clarity``.
    revision : str
        Hash of the source of the program's file and of the helpers in ``text`` that all programs share.
    """

    name: str
    function: Function
    scale: tuple[float, float]
    family: str
    criterion: str
    revision: str

    @property
    def description(self) -> str:
        """Description of the program: the first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


_PROGRAMS: dict[str, Program] = {}


def program_judge(
    name: str, *, family: str, criterion: str, scale: tuple[float, float] = (0.0, 10.0)
) -> Callable[[Function], Function]:
    """Register a function ``Item -> score or None`` as a judge.

    Raises ``JudgeError`` if a program in another file has the same name.
    """

    def register(function: Function) -> Function:
        if name in _PROGRAMS and _PROGRAMS[name].function.__module__ != function.__module__:
            raise JudgeError(f"program judge {name!r} is defined in two files; rename one program")
        source = inspect.getsource(inspect.getmodule(function) or function) + inspect.getsource(text)
        revision = hashlib.sha256(source.replace(f"from {_PREFIX}judges", "from judges").encode()).hexdigest()
        _PROGRAMS[name] = Program(name, function, scale, family, criterion, revision)
        return function

    return register


def find(name: str) -> Program:
    """Return the registered program with the name ``name``.

    Raises ``JudgeError`` if there is no such program; the message lists all programs.
    """
    _load_built_in()
    if name not in _PROGRAMS:
        raise JudgeError(f"no program judge {name!r}; choose one of {', '.join(sorted(_PROGRAMS))}")
    return _PROGRAMS[name]


def names() -> list[str]:
    """Return the sorted names of all registered programs."""
    _load_built_in()
    return sorted(_PROGRAMS)


def _load_built_in() -> None:
    package = importlib.import_module(f"{_PREFIX}judges.programs")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in ("registry", "text"):
            importlib.import_module(f"{package.__name__}.{module.name}")
