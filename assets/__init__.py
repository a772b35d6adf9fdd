"""Dagster assets (one folder per asset group), and report pages."""
