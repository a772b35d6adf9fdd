"""Numerical core of CARE, without Dagster, clock or global randomness; only ``moments.sharded`` reads files."""
