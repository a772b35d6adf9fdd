"""Prints what becomes of each file in ``tests/support/wild_files.py``: ``python -m benchmarks.soaks.wild_files``."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

from tests.support.wild_files import WILD_FILES, read


def main() -> None:
    """A line a file: its name, what is particular about it, and what is told or why it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        for file in WILD_FILES:
            print(f"{file.name}  ({file.what})")
            if file.needs_excel and importlib.util.find_spec("python_calamine") is None:
                print("    not tried: pip install '.[excel]'")
                continue
            outcome = read(file, Path(folder))
            if outcome.refusal is not None:
                print(f"    refused: {outcome.refusal}")
            for number, sentence in enumerate(outcome.told):
                print(f"    {'   ' if number else 'read'} {sentence}")


if __name__ == "__main__":
    main()
