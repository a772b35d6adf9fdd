"""Engines, which produce a judge's scores: one file for each kind, and what all have in common (``base``)."""
