"""The mathematics of CARE: arrays in, arrays out.

Belongs here: estimators, moments, certificates, metrics. Belongs elsewhere: files (but the shards that
``moments.sharded`` reads), Dagster, DuckDB, plots, clocks, global random state.
"""
