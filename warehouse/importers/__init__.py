"""Importers of other evaluation tools' files; the tools need not be installed. ``registry.read_import`` calls them."""
