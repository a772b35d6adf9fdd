"""Judges score items: inference, its parts, and the slices of scores in the warehouse.

Belongs here: assets of the group ``judging``. Belongs elsewhere: how a judge is run (the package ``judges``).
"""
