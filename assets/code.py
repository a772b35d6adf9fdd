"""Code versions of assets."""

import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]

_KINDS = frozenset({".py", ".sql", ".html", ".css", ".js", ".yaml"})


def code_version(*places: str) -> str:
    """Hash the code, templates and schemas of packages.

    Every byte of a file counts, including comments, except the prefix ``care_eval.`` that ``deploy/namespaced.py``
    adds to names.

    Parameters
    ----------
    *places : str
        Packages or files, relative to the folder that contains all packages, such as ``assets/fit``.
    """
    return hashlib.sha256("".join(map(_digest, places)).encode()).hexdigest()[:16]


@cache
def _digest(place: str) -> str:
    paths = [path for path in (_ROOT / place, *(_ROOT / place).rglob("*")) if path.suffix in _KINDS]
    digest = hashlib.sha256()
    for path in sorted(map(str, paths)):
        with open(path, "rb") as file:  # noqa: PTH123  (a third of the function calls, at every import)
            digest.update(path.removeprefix(str(_ROOT)).encode() + file.read().replace(b"care_eval.", b""))
    return digest.hexdigest()
