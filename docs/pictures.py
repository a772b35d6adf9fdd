"""Pictures for the documentation, taken by a headless Chromium from a workspace that has been run.

``make pictures`` runs it on the demo: the report in light and dark, and Dagster's UI: the asset graph, the dialog that
materialises a judge, and what the review of a fit found.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.support.dagster_ui import WAIT_MS, serving

OUT = Path(__file__).parent / "images"


def shoot_report(browser: Browser, page_file: Path, scheme: str) -> None:
    """The top of a page in one colour scheme."""
    page = browser.new_page(viewport={"width": 1120, "height": 1130}, color_scheme=scheme)  # type: ignore[arg-type]
    folder = page_file.absolute().parents[2]  # a picture must not say where the workspace lies on this machine
    page.set_content(page_file.read_text(encoding="utf-8").replace(str(folder), folder.name))
    page.screenshot(path=OUT / f"report-{scheme}.png")
    page.close()


def shoot_graph(browser: Browser, ui: str) -> None:
    """Dagster's asset graph with every group of a night open."""
    page = browser.new_page(viewport={"width": 1760, "height": 790})
    page.goto(f"{ui}/asset-groups")
    page.get_by_text("Materialize all").first.wait_for(timeout=WAIT_MS)
    page.locator(".CodeMirror").first.click()
    page.keyboard.type('not group:"experiments"')
    page.keyboard.press("Escape")  # the list of suggestions, which covers the graph
    page.keyboard.press("Enter")
    page.mouse.click(1_000, 600)  # out of the field, so that keys are the graph's
    page.wait_for_timeout(3_000)
    page.keyboard.press("Alt+Shift+E")
    page.wait_for_timeout(2_000)
    page.mouse.move(1_000, 350)
    page.mouse.wheel(0, -80)  # the opened groups are larger than what the view was fitted to
    page.wait_for_timeout(2_000)
    page.screenshot(path=OUT / "ui-graph.png")
    page.close()


def shoot_asset(browser: Browser, ui: str) -> None:
    """Choosing the judges to materialise, and the checks of a review."""
    page = browser.new_page(viewport={"width": 1280, "height": 760})
    page.goto(f"{ui}/assets/judge_inference")
    page.get_by_role("button", name="Materialize…").first.click(timeout=WAIT_MS)
    page.wait_for_timeout(3_000)
    page.get_by_role("button", name="All", exact=True).click()
    page.wait_for_timeout(1_000)
    page.screenshot(path=OUT / "ui-materialise.png")
    page.goto(f"{ui}/assets/review?view=checks")
    page.get_by_text("gold_leakage").first.click(timeout=WAIT_MS)
    page.wait_for_timeout(3_000)
    page.screenshot(path=OUT / "ui-checks.png")
    page.close()


def main() -> None:
    """Take every picture from the workspace named on the command line."""
    workspace = Path(sys.argv[1])
    OUT.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(workspace, Path(folder) / "ui.log") as ui,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme in ("light", "dark"):
            shoot_report(browser, workspace / "data" / "report" / "testset-demo.html", scheme)
        shoot_graph(browser, ui)
        shoot_asset(browser, ui)
        browser.close()


if __name__ == "__main__":
    main()
