"""From scores to estimates: the panel, its moments, its structure, and every aggregator.

Belongs here: assets of the group ``fit``. Belongs elsewhere: the mathematics (``care_ops``), whether a fit is published
(``publication``).
"""
