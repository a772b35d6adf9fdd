"""Names of the report's files.

Belongs here: what must be known without drawing anything.
"""

from urllib.parse import quote


def page_name(testset: str) -> str:
    """File name of a test set's page."""
    return f"testset-{_safe(testset)}.html"


def labels_name(testset: str) -> str:
    """File name of the table of a test set's items that are most worth a label."""
    return f"to_label-{_safe(testset)}.csv"


def items_name(page: str) -> str:
    """File name of the page of all items beside a page: ``items-X.html`` of a test set, ``items.html`` of a table."""
    return "items" + page.removeprefix("testset").removeprefix("report")


def _safe(testset: str) -> str:
    return quote(testset, safe="").replace("%", "_")
