"""Importers of other evaluation tools' files, which need none of these tools; ``registry.read_import`` reads them."""
