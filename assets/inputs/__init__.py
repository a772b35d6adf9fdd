"""What comes in: sources, specifications and settings, and the items of each test set.

Belongs here: assets of the group ``inputs``. Belongs elsewhere: scores (``judging``).
"""
