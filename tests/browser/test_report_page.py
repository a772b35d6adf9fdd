"""Tests of report pages in a browser: accessibility, scripts off, print and size.

The pages come from simulated data (``tests.support.report_pages``), not from runs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from assets.report.items import MOST_ROWS
from assets.report.page import write_index, write_page
from tests.support.dagster_ui import WAIT_MS
from tests.support.report_pages import MODES, VERDICT, report_data

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIZES = {"small": (60, 6), "judges": (400, 116), "items": (50_000, 24)}
"""Numbers of items and judges of each page."""

PAGES = ("index", "items-small", *(f"testset-{name}" for name in SIZES))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Write the report folder of a workspace."""
    folder = tmp_path_factory.mktemp("report")
    for name, (items, judges) in SIZES.items():
        write_page(report_data(items, judges), folder / f"testset-{name}.html", VERDICT)
    row = {"description": "Made for tests.", "made": "2026-11-22 03:00"}
    rows = [{**row, "name": name, "page": f"testset-{name}.html"} for name in SIZES]
    states = ("clear", "held back", "ambiguous")
    verdicts = [replace(VERDICT, state=state) for state in states]
    shown = [{**row, "verdict": verdict} for row, verdict in zip(rows, verdicts, strict=True)]
    write_index(folder, shown)
    return folder


@pytest.fixture
def opened(chromium, pages):
    """Return ``opened(page, **options)``, which opens a page of the folder in a context that the test closes."""
    contexts = []

    def open_(name, **options):
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.goto((pages / f"{name}.html").as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()


def unfold(page):
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")


LARGE = ("testset-judges", "testset-items")


def in_every_mode():
    """Return each page in each mode; large pages in two of the modes run with the slow tests."""
    for name in PAGES:
        for mode in MODES:
            slow = name in LARGE and mode != "light"
            yield pytest.param(name, mode, marks=[pytest.mark.slow] if slow else [], id=f"{name}-{mode}")


@pytest.mark.parametrize(("name", "mode"), list(in_every_mode()))
def test_axe_finds_nothing(opened, name, mode):
    page = opened(name, bypass_csp=True, **MODES[mode])  # axe is put into the page as a script
    if name == "testset-small":
        unfold(page)
    assert Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_drawn_without_javascript(opened, name):
    page = opened(name, java_script_enabled=False)
    figures = page.locator("svg")
    assert figures.count() == page.locator("svg[role=img] > title").count(), "each has a title"
    sizes = figures.evaluate_all("all => all.map(svg => [svg.getBoundingClientRect().width, svg.clientHeight])")
    assert all(width > 60 and height > 10 for width, height in sizes)
    if name.startswith("testset"):
        assert page.locator("#figure-correlation td").count() > 20


def test_a_single_report_file_is_complete(chromium, tmp_path):
    write_page(report_data(workspace=False), tmp_path / "report.html", VERDICT)
    (tmp_path / "items.html").unlink()
    context = chromium.new_context(offline=True)
    page = context.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.goto((tmp_path / "report.html").as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [(tmp_path / "report.html").as_uri()]
    assert errors == []
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_narrow_page_does_not_scroll_sideways_and_starts_with_the_verdict(opened, name):
    page = opened(name, **MODES["narrow"])
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    wide = page.locator(".scroll").evaluate_all("all => all.map(e => getComputedStyle(e).backgroundAttachment)")
    assert set(wide) <= {"local, local, scroll, scroll"}, "a shadow marks the edge beyond which a table goes on"
    if name.startswith("testset"):
        first, contents = page.locator("section").first, page.get_by_role("navigation", name="On this page")
        assert first.bounding_box()["y"] < 400, "what to know before trusting the page, without scrolling"
        assert first.bounding_box()["y"] < contents.bounding_box()["y"]


@pytest.mark.parametrize("name", SIZES)
def test_a_page_is_small_and_links_to_its_items(pages, opened, name):
    items = min(SIZES[name][0], MOST_ROWS)
    assert (pages / f"testset-{name}.html").stat().st_size <= 1_000_000
    page = opened(f"testset-{name}")
    page.locator("#items p a").click()
    expect(page.locator("tbody tr")).to_have_count(items, timeout=WAIT_MS)
    page.locator("nav a").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("a test set", timeout=WAIT_MS)
    page.locator("nav a").first.click()
    expect(page).to_have_title("CARE report", timeout=WAIT_MS)
