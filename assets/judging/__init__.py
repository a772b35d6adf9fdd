"""Judges score items: inference, its parts, and the slices of scores in the warehouse.

Belongs here: assets of the group ``judging``. Does not: how a judge is run (the package ``judges``).
"""
