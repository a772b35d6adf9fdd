"""Where things are kept: test-set sources, Parquet parts, the DuckDB warehouse over them.

Belongs here: reading and writing. Does not: deciding what is stale (``orchestration``), estimating
(``care_ops``).
"""
