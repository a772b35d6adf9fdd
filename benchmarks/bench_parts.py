"""What small parts cost, and what merging them saves. ``python -m benchmarks.bench_parts [PARTS]``; CPU seconds.

The parts are those of a judge whose answers came in batches of 32 rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from warehouse.parts import PartStore

_ROWS = 32


def main() -> None:
    """Print a line for each step."""
    parts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        store = PartStore(Path(folder))
        for part in range(parts):
            ids = range(_ROWS * part, _ROWS * (part + 1))
            rows = [{"item_id": f"i{k}", "item_key": f"k{k}", "score": float(k % 11), "status": "ok"} for k in ids]
            store.write_scores("judge", "t", "K", "engine", rows)
        print(f"{parts} parts of {_ROWS} rows")
        before = [_timed("what is done", lambda: store.done("judge", "t", "K"))]
        before.append(_timed("all columns read", lambda: store.read_scores("judge", "t").num_rows))
        saved = _timed("merged", lambda: store.compact("judge", "t"))
        print(f"{saved} files less")
        after = [_timed("what is done", lambda: store.done("judge", "t", "K"))]
        after.append(_timed("all columns read", lambda: store.read_scores("judge", "t").num_rows))
        assert after == before


def _timed(what: str, act: Callable[[], object]) -> object:
    started = time.process_time()
    result = act()
    print(f"  {what}: {time.process_time() - started:.2f} CPU-s")
    return result


if __name__ == "__main__":
    main()
