"""``python -m benchmarks``: run every benchmark of ``speed`` that has rivals, and print a table each."""

from __future__ import annotations

import importlib
import os
import pkgutil

from benchmarks import speed


def main() -> None:
    """Print each benchmark's rows."""
    print(f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'not set')}, one BLAS thread, CPU seconds, medians")
    for module in pkgutil.iter_modules(speed.__path__):
        loaded = importlib.import_module(f"benchmarks.speed.{module.name}")
        if not hasattr(loaded, "run"):
            continue
        print(f"\n{(loaded.__doc__ or '').splitlines()[0]}")
        rows = loaded.run()
        print(" | ".join(rows[0]))
        for row in rows:
            print(" | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))


if __name__ == "__main__":
    main()
