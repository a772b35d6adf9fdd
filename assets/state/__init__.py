"""The workspace as it stands: what is missing, the database made anew, what is deleted, the nightly summary.

Belongs here: comparing, rebuilding and deleting. Belongs elsewhere: making results, or deciding when
(``orchestration``).
"""
