"""Engines, which produce a judge's scores: one file for each kind, and their common base classes (``base``)."""
