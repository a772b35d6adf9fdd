"""The paper's experiments: one file a table or figure, each a page of the report.

Belongs here: protocols and what they found. Belongs elsewhere: estimators, generators (``care_ops``).
"""
