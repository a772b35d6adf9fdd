"""What is computed from a fit for people to read: evaluation, factors, intervals, systems.

Belongs here: assets of the group ``results``. Belongs elsewhere: pages (``report``).
"""
