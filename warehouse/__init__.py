"""Storage: sources of test sets, Parquet parts, and the DuckDB warehouse that is built from the parts.

Belongs here: reading and writing. Belongs elsewhere: deciding what is stale (``orchestration``) and estimating
(``care_ops``).
"""
