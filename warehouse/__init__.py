"""Storage: sources of test sets, Parquet files of items and scores, and the DuckDB database built from these files."""

import os as _os
import sys as _sys

if _sys.platform != "win32":  # pyarrow has no jemalloc on Windows
    # pyarrow reads this variable once, at import. A fit of 24 million rows took 2.4 GiB with its default, mimalloc, and
    # 1.7 GiB and less time with jemalloc (benchmarks/results/bench.md). Child processes inherit the variable.
    _os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
