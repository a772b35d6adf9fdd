"""Aggregators: many scores of an item to one.

``base`` holds the protocol that all of them share, ``registry`` the list of them.

Belongs here: from a fitted model to an answer with its weights. Belongs elsewhere: the models (``models``).
"""
