"""Dagster assets in a folder for each asset group, with a module for each asset and the pages of the report."""
