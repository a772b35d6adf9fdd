"""A page on paper: printed by Chromium as a PDF and read back, no figure is cut by the end of a sheet or by its edge.

A figure is whole where its title and all its labels, to the last one of its axes, stand together on one sheet.
"""

from __future__ import annotations

import io
import unicodedata
from dataclasses import dataclass, replace
from typing import Any

import pypdf
import pytest
from playwright.sync_api import Page

from assets.report.page import write_page, write_trend
from tests.support.report_pages import VERDICT, report_data

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MARGINS = dict.fromkeys(("top", "right", "bottom", "left"), "1cm")

FIGURES = """() => [...document.querySelectorAll('figure')].map(figure => [
    (figure.querySelector('h3') ?? figure.closest('section').querySelector('h2')).textContent,
    [...figure.querySelectorAll('svg text')].map(label => label.textContent).join('')])"""
"""The title of each figure and its labels, as they follow one another in the drawing."""


@dataclass(frozen=True)
class Sheet:
    """One printed sheet: its words without spaces, its size, and where lines and words begin and end, in points."""

    words: str
    width: float
    height: float
    marks: list[tuple[float, float]]

    @property
    def beyond(self) -> list[tuple[float, float]]:
        """Marks that lie off the sheet."""
        return [(x, y) for x, y in self.marks if not (0 <= x <= self.width and 0 <= y <= self.height)]


def printed(page: Page) -> list[Sheet]:
    document = pypdf.PdfReader(io.BytesIO(page.pdf(format="A4", margin=MARGINS)))
    return [sheet_of(page) for page in document.pages]


def sheet_of(page: pypdf.PageObject) -> Sheet:
    marks: list[tuple[float, float]] = []

    def keep(x: float, y: float, at: list[float]) -> None:
        marks.append((x * at[0] + y * at[2] + at[4], x * at[1] + y * at[3] + at[5]))

    def line(operator: bytes, operands: list[Any], at: list[float], _: list[float]) -> None:
        if operator in (b"m", b"l"):
            keep(float(operands[0]), float(operands[1]), at)

    def word(text: str, at: list[float], within: list[float], *_: object) -> None:
        if text.strip():
            keep(within[4], within[5], at)

    words = page.extract_text(visitor_operand_before=line, visitor_text=word)
    return Sheet(unspaced(words), float(page.mediabox.width), float(page.mediabox.height), marks)


def unspaced(words: str) -> str:
    """Without spaces and ligatures, which a PDF has its own of."""
    return "".join(unicodedata.normalize("NFKC", words).split())


def cut(page: Page) -> list[str]:
    """Titles of the figures that do not stand on one sheet."""
    sheets = printed(page)
    figures = page.evaluate(FIGURES)
    assert figures
    return [
        title
        for title, labels in figures
        if not any(unspaced(title) in sheet.words and unspaced(labels) in sheet.words for sheet in sheets)
    ]


@pytest.fixture(scope="module")
def pages(tmp_path_factory, demo):
    """Pages by name: of a small panel, of 116 judges, of nights, and the demo's own."""
    folder = tmp_path_factory.mktemp("paper")
    for name, (items, judges) in {"small": (60, 6), "judges": (400, 116)}.items():
        data = report_data(items, judges)
        write_page(replace(data, title=name), folder / f"testset-{name}.html", VERDICT)
    edition = {"edition": "abc", "state": "published", "judges": 6, "order": 0.7, "why": "the first"}
    rows = [{**edition, "made at": f"2026-11-2{k}T03:00:00", "orders": {"care": 0.7 + k / 50}} for k in range(3)]
    write_trend(folder, {"small": rows}, {"small": []})
    return {
        "small": folder / "testset-small.html",
        "judges": folder / "testset-judges.html",
        "nights": folder / "trend.html",
        "demo": demo / "data" / "report" / "testset-demo.html",
    }


@pytest.mark.parametrize("name", ["small", "judges", "nights", "demo"])
def test_every_figure_stands_whole_on_one_sheet(chromium, pages, name):
    page = chromium.new_page()
    page.goto(pages[name].as_uri())
    assert cut(page) == []
    for number, sheet in enumerate(printed(page), 1):
        assert sheet.marks, f"sheet {number} is empty"
        assert sheet.beyond == [], f"sheet {number}"
    page.close()


def test_a_figure_that_is_cut_is_noticed(chromium, pages):
    """The same page where a figure may break and stands across the end of a sheet."""
    page = chromium.new_page()
    page.goto(pages["small"].as_uri())
    page.add_style_tag(content="figure { break-inside: auto !important } #figure-features { margin-top: 240mm }")
    page.add_style_tag(content="figure .drawing { max-height: none !important; height: 400mm !important }")
    assert cut(page)
    page.close()
