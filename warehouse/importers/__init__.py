"""Importers of files from other evaluation tools; the tools need not be installed."""
