"""The report: data, figures, pages.

Belongs here: everything a reader sees. Belongs elsewhere: computing what is shown.
"""
