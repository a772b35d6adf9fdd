"""Names of the report's files.

Belongs here: what must be known without drawing anything.
"""

from urllib.parse import quote


def page_name(testset: str) -> str:
    """File name of a test set's page."""
    return "testset-" + quote(testset, safe="").replace("%", "_") + ".html"
