"""Stages of a fit: the panel, its moments, the structure of its precision matrix, and the aggregators."""
