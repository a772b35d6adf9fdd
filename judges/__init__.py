"""The judges: their specifications, the engines and programs that score, and the pool that runs them.

Belongs here: turning an item into a score. Belongs elsewhere: storing scores (``warehouse``; the pool hands each
finished batch to a sink that its caller supplies) and measuring what a judge is worth (``care_ops``).
"""
