"""Run a benchmark on one BLAS thread, or list all benchmarks: ``python -m benchmarks [NAME [OPTIONS]]``."""

from __future__ import annotations

import ast
import importlib.util
import os
import runpy
import sys
from pathlib import Path

BENCHMARKS = {
    "scale": "benchmarks.speed.fit_scale",
    "nights": "benchmarks.speed.recorded_nights",
    "real": "benchmarks.studies.real",
    "position": "benchmarks.studies.position",
    "panels": "benchmarks.studies.panels",
    "rates": "benchmarks.studies.rates",
}


def describe(module: str) -> str:
    """Return the first line of a module's docstring, without importing it."""
    found = importlib.util.find_spec(module)
    path = Path(found.origin or "") if found is not None else Path()
    path = path.with_name("__main__.py") if path.name == "__init__.py" else path
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]


def main() -> None:
    """Run the benchmark that the first argument names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in BENCHMARKS:
        for known, module in BENCHMARKS.items():
            print(f"{known:10} {describe(module)}")
        sys.exit(f"benchmarks: there is no benchmark {name!r}; choose a name from the list above" if name else 0)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.argv = [f"benchmarks {name}", *sys.argv[2:]]
    runpy.run_module(BENCHMARKS[name], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
