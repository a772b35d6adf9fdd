"""Experiments of the paper; each table or figure has a module and a page of the report."""
