"""Which fit people read: the nightly review, and the editions that were published.

Belongs here: the asset ``review`` and what a person does with editions. Belongs elsewhere: making fits (``fit``).
"""
