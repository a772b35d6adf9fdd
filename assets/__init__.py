"""What exists: one file a stage of the way of one score, each thin (read, call one function, write,
report metadata); and the report's figures and pages.

Belongs here: asset definitions. Does not: when they run (``orchestration``), the mathematics
(``care_ops``).
"""
