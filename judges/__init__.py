"""Who scores: specifications, engines, programs and the pool that runs them.

Belongs here: turning an item into a score. Does not: where scores are kept (``warehouse``; the pool hands
each finished batch to a sink it is given), or what they are worth (``care_ops``).
"""
