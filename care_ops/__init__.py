"""Numerical core of CARE: functions of arrays, without files (except shards), Dagster, clocks or global randomness."""
