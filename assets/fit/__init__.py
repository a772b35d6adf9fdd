"""Fits: the panel, its moments, its structure, and every aggregator."""
