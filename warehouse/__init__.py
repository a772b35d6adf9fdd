"""Storage: sources of test sets, Parquet parts, and the DuckDB warehouse that is built from the parts."""

import os as _os
import sys as _sys

if _sys.platform != "win32":  # where pyarrow has no jemalloc
    # pyarrow reads this once, when it is imported. Of its own choice, mimalloc, a fit of 24 million rows took 2.4 GiB,
    # and with jemalloc 1.7, and less time (benchmarks/results/bench.md). Child processes inherit it.
    _os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
