"""The report: data, figures, pages.

Belongs here: everything a reader sees. Does not: computing what is shown.
"""
