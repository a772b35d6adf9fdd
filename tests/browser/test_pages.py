"""What a person sees: the report's pages and Dagster's UI, in a real browser."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def luminance(colour: str) -> float:
    red, green, blue = (int(part) for part in colour.strip("rgba()").split(",")[:3])
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_draws_in_both_schemes_without_the_network(chromium, demo, scheme):
    context = chromium.new_context(color_scheme=scheme, offline=True)
    page = context.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((demo / "data" / "report" / "index.html").as_uri())
    page.get_by_role("link", name="demo").click()
    page.wait_for_function("document.documentElement.dataset.drawn === 'yes'")
    figures = page.locator(".figure")
    assert figures.count() == 6
    for k in range(figures.count()):
        assert figures.nth(k).locator("svg.main-svg").first.bounding_box()["height"] > 100
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert errors == []
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    text = page.evaluate("getComputedStyle(document.body).color")
    tick = page.locator("#figure-gold .xtick text").first.evaluate("e => getComputedStyle(e).fill")
    assert (luminance(body) > 0.5) == (scheme == "light")
    for ink in (text, tick):
        assert abs(luminance(body) - luminance(ink)) > 0.5, "readable in both schemes"
    assert "Quality is ambiguous on this panel" in page.locator("main").inner_text()
    page.get_by_text("Inputs, settings and code of this page").click()
    assert '"panel"' in page.locator("details[open] pre").inner_text()
    context.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def ui(demo, tmp_path):
    port = free_port()
    log = (tmp_path / "ui.log").open("w")
    command = [sys.executable, "-m", "orchestration.cli", "ui", "--workspace", str(demo), "--port", str(port)]
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, (tmp_path / "ui.log").read_text()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=2)
            break
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < deadline
            time.sleep(0.3)
    yield f"http://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGINT)
    process.wait(60)


def test_the_ui_shows_the_graph_the_runs_and_a_fits_plot(chromium, ui):
    page = chromium.new_page(viewport={"width": 1500, "height": 950})
    page.goto(f"{ui}/locations/orchestration.definitions/asset-groups/fit")
    for asset in ("panel", "moments", "structure", "aggregates"):
        page.get_by_text(asset, exact=True).first.wait_for(timeout=30_000)
    page.goto(f"{ui}/runs")
    page.get_by_text("Success").first.wait_for(timeout=30_000)
    page.goto(f"{ui}/assets/aggregates?view=partitions&partition=demo")
    page.get_by_text("[Show Markdown]").first.click(timeout=30_000)
    image = page.locator('img[src^="data:image/svg"]').first
    image.wait_for(timeout=30_000)
    assert image.evaluate("e => e.complete && e.naturalWidth") > 300
    assert page.get_by_text("care_tensor").first.is_visible()
    page.close()
