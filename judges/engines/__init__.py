"""Engines, which produce a judge's scores: one file for each kind of engine, and one protocol (``base``)."""
