"""Registry of importers, keyed by the name of the evaluation tool."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from care_ops.errors import InputError, guard
from warehouse.importers import alpaca_eval, deepeval, inspect_ai, langfuse, lm_eval, phoenix, promptfoo, released
from warehouse.importers.collected import Collector, ImportedScores
from warehouse.sources.bounds import within_memory

IMPORTERS: dict[str, Callable[[Path, Collector], None]] = {
    "inspect_ai": inspect_ai.read,
    "lm_eval": lm_eval.read,
    "alpaca_eval": alpaca_eval.read,
    "promptfoo": promptfoo.read,
    "deepeval": deepeval.read,
    "phoenix": phoenix.read,
    "langfuse": langfuse.read,
    "care_release": released.read,
}


@lru_cache(maxsize=8)
def _read_once(kind: str, path: Path, files: tuple[tuple[str, int, int], ...]) -> ImportedScores:
    return read_import(kind, path)


def read_unchanged(kind: str, path: Path) -> ImportedScores:
    """Read the files of an evaluation tool; reuse the cached result if no file name, size or modification time changed.

    The cache saves time, because a workspace may be loaded every few seconds, and a folder of logs may be large.
    """
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    states = [(str(file), file.stat()) for file in files if file.is_file()]
    return _read_once(kind, path, tuple((name, state.st_size, state.st_mtime_ns) for name, state in states))


def read_import(kind: str, path: Path) -> ImportedScores:
    """Read a file, or a folder of files, that the evaluation tool ``kind`` wrote.

    Raises ``InputError`` if the tool is not in ``IMPORTERS``, or the files are not files of this tool.
    """
    importer = IMPORTERS.get(kind.replace("-", "_"))
    if importer is None:
        raise InputError(f"CARE has no importer for {kind!r}; choose one of {', '.join(IMPORTERS)}")
    collector = Collector(str(path), [path])
    remedy = f"give unmodified files from a version of {kind} that docs/data.md lists"
    with guard(collector.opened, remedy), within_memory(path):
        importer(path, collector)
        return collector.finished()
