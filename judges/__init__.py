"""Judges: specifications, scoring engines, built-in programs, and the pool that runs judges."""
