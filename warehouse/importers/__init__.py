"""Reads the files that other evaluation tools write, without those tools.

``registry.read_import`` is the way in; tables of a user's own making are read by ``sources``.
"""
