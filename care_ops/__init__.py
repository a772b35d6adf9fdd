"""Numerical core of CARE: functions of arrays that use no Dagster, clock, global randomness or files except shards."""
