"""Dagster assets, in a folder for each asset group, and the pages of the report."""
