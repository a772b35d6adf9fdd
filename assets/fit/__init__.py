"""Stages of a fit: panel, moments, structure of the precision matrix, and aggregators."""
