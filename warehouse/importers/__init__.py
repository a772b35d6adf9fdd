"""Importers of files from other evaluation tools, which need not be installed."""
