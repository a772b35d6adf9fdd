"""How a model's answer on 0 to 100 is read: passes, tokens and seconds an item by each way. ``make bench-reading``.

The model is the tests' tiny one, whose answers spread over all digits with a valid mass of 4e-5: no trained model gives
the bound on what may be left out so little to leave out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from judges.items import Item
from tests.support.reading_ways import compare, engine_of, table
from tests.support.tiny import build

ITEMS = 32


def main() -> None:
    """Print a row for each way."""
    from judges.engines.vllm import VllmBackend

    with tempfile.TemporaryDirectory() as root:
        model = build(Path(root) / "model", seed=0)
        items = [
            Item(f"i{k}", f"What is the capital of land {k}?", f"It is town {k}. " * (k % 5 + 1), aspect="meaning")
            for k in range(ITEMS)
        ]
        print(table(compare(VllmBackend(engine_of(model, "vllm", "expected")), model, items)))


if __name__ == "__main__":
    main()
