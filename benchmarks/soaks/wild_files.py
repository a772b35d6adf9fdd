"""Print how each file of ``tests/support/wild_files.py`` is read: ``python -m benchmarks.soaks.wild_files``."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

from tests.support.wild_files import WILD_FILES, read


def main() -> None:
    """Print each file's name, what is special about it, and how it was read or why it was refused."""
    with tempfile.TemporaryDirectory() as folder:
        for file in WILD_FILES:
            print(f"{file.name}  ({file.what})")
            if file.needs_excel and importlib.util.find_spec("python_calamine") is None:
                print("    not tried: pip install '.[excel]'")
                continue
            outcome = read(file, Path(folder))
            if outcome.refusal is not None:
                print(f"    refused: {outcome.refusal}")
            for number, sentence in enumerate(outcome.sentences):
                print(f"    {'   ' if number else 'read'} {sentence}")


if __name__ == "__main__":
    main()
