"""HTML page for labelling items without CARE: a single file that makes no network request."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from assets.report.page import render
from care_ops.errors import InputError

_HEADINGS = {"prompt": "Question", "aspect": "What to judge", "reference": "Reference answer", "response": "Answer"}
_SIDES = {"response": "Left answer", "response_2": "Right answer"}


def returned(path: Path) -> Path:
    """Return the path of the CSV file in which the labelling page at ``path`` saves the labels."""
    return path.with_name(f"{path.stem}-labelled.csv")


def write_label_page(
    path: Path,
    rows: Sequence[tuple[str, str, str, Mapping[str, str]]],
    columns: Sequence[str],
    question: str,
    answers: Sequence[tuple[str, str, str]],
    scale: tuple[float, float] | None,
) -> None:
    """Write a page for labelling items; the page saves a CSV file with the columns in ``columns``.

    Each row contains an item's id, sampling method, sampling probability, and texts by field, in display order. Each
    answer contains a key to press, a label and a caption; if there are no answers, people type numbers on ``scale``.
    Raises ``InputError`` if the name of the file does not end in .html.
    """
    if path.suffix.lower() != ".html":
        raise InputError(f"{path}: the page is saved as HTML; use a name that ends in .html")
    shown = [(item, drawn, probability, _with_headings(texts)) for item, drawn, probability, texts in rows]
    given = {"name": returned(path).name, "columns": columns, "rows": shown, "scale": scale}
    content = json.dumps(given).replace("<", "\\u003c")  # an item's text must not end the script or begin a comment
    values = {"question": question, "answers": answers, "items": len(rows), "given": Markup(content)}
    render(path.parent, path.name, "label.html", **values)


def _with_headings(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    headings = _HEADINGS | (_SIDES if "response_2" in texts else {})
    return [(headings[name], text) for name, text in texts.items()]
