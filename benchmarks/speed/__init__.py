"""Measurements of time and memory, compared with earlier commits."""
