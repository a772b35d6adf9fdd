"""The first screen of a page: twelve questions of a first-time reader, each answered without scrolling, and few words.

A page whose answers are rivals, as a person meets it on a desk (1280 by 800) and the first of it on a telephone.
"""

import dataclasses
import re

import pytest

from assets.report.page import write_page
from tests.support.report_pages import VERDICT, report_data

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DESK, TELEPHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
MOST_WORDS = 60

QUESTIONS = {
    "What is this page about?": ("h1", "a test set"),
    "How many items, by how many judges?": ("h1 + p", "60 items, 6 judges"),
    "When was it made?": ("h1 + p", "2026-11-22 03:00"),
    "Do people read this fit?": ("h1 + p", "published"),
    "Can I use the numbers?": (".verdict .pill", "Don't use yet"),
    "Why not?": (".verdict h2", "rank the answers differently"),
    "What do I do now?": (".verdict h2 + p", "Fill in the column"),
    "What do I type?": (".verdict pre", "care fit scores.csv --out out --labels out/to_label.csv"),
    "How far do the answers part?": (".first figure p", "of 60 differ by more than 25 places of 100"),
    "Which items settle it?": (".first svg", "label these first"),
    "Whom does the answer trust most?": (".first .ranks li", "judge with a rather long name"),
    "Which judges are of one family?": (".first h3", "Family family"),
}
"""Each question, the part of the page that answers it, and what that says."""

WORDS_BEFORE = """() => {
    const graphic = document.querySelector("main svg")
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT)
    const words = []
    while (walker.nextNode()) {
        const node = walker.currentNode
        if (graphic.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING) break
        if (node.parentElement.checkVisibility()) words.push(...node.textContent.split(/\\s+/).filter(Boolean))
    }
    return words
}"""
"""The words that are shown before the first graphic."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    data = report_data()
    care = data.aggregates["care"]
    doubted = dataclasses.replace(
        care, details={**care.details, "concerns": ["two groups"], "differing_feature": "words"}
    )
    path = tmp_path_factory.mktemp("first") / "testset-one.html"
    write_page(dataclasses.replace(data, aggregates={**data.aggregates, "care": doubted}), path, VERDICT)
    return path.as_uri()


def test_questions_are_answered_on_the_first_screen_and_few_words_stand_before_the_first_graphic(chromium, address):
    page = chromium.new_page(viewport=DESK)
    page.goto(address)
    for question, (place, says) in QUESTIONS.items():
        found = page.locator(place).first
        assert says.lower() in " ".join(found.text_content().split()).lower(), question
        box = found.bounding_box()
        assert 0 <= box["y"] <= DESK["height"] - box["height"], f"{question} {box}"
    words = page.evaluate(WORDS_BEFORE)
    assert 0 < len(words) <= MOST_WORDS, words
    assert not re.search(r"\b(factor|rival|edition|eigengap|PSI)\b", " ".join(words)), "numbers and terms come later"
    page.close()


def test_a_telephone_shows_what_to_do_before_anything_else(chromium, address):
    page = chromium.new_page(viewport=TELEPHONE)
    page.goto(address)
    for place in (".verdict .pill", ".verdict h2", ".verdict h2 + p", ".verdict pre"):
        box = page.locator(place).first.bounding_box()
        assert box["y"] + box["height"] <= TELEPHONE["height"], place
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= TELEPHONE["width"], place
    page.close()
