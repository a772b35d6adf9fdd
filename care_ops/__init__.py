"""Numerical core, independent of Dagster, the clock and global random state; only ``moments.sharded`` reads files."""
