"""The mathematics of CARE: arrays in, arrays out; no files (but shards), no Dagster, clocks or global random state."""
