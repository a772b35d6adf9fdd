"""Code versions of assets."""

import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]

_KINDS = frozenset({".py", ".sql", ".html", ".css", ".js", ".yaml"})


@cache
def code_version(*places: str) -> str:
    """Hash the code, templates and schemas of packages.

    Every byte counts, also of comments. The hash therefore covers more than the asset runs, and never less.

    Parameters
    ----------
    *places : str
        Packages or single files, relative to the folder of all packages, such as ``assets/fit``.
    """
    digest = hashlib.sha256()
    for place in places:
        paths = [path for path in (_ROOT / place, *(_ROOT / place).rglob("*")) if path.suffix in _KINDS]
        for path in sorted(paths):
            digest.update(path.relative_to(_ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
