"""Reads the files that other evaluation tools write, without those tools.

``registry.read_import`` is the way in. Belongs here: a module for each tool, and what they share (``collected``).
Belongs elsewhere: tables of a user's own making (``sources``), where a workspace lies.
"""
