"""Dagster assets, with one folder per asset group, and the report pages."""
