"""Aggregators: many scores of an item to one.

``base`` holds the protocol that all of them share, ``registry`` the list of them.
"""
