"""Screenshots for the documentation, taken with a headless Chromium.

``make pictures`` takes the README's screenshots from the fit of ``examples/quickstart``, in light and dark colours,
and two screenshots of Dagster's asset graph from the demo.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.support.dagster_ui import WAIT_MS, serving

OUT = Path(__file__).parent / "images"


def fitted(folder: Path) -> Path:
    """Fit the quickstart example in a folder, and return the path of its report page."""
    tables = shutil.copytree(OUT.parents[1] / "examples" / "quickstart", folder / "quickstart")
    given = ["scores.csv", "--items", "items.csv", "--judges", "judges.csv"]
    subprocess.run([sys.executable, "-m", "orchestration.cli", "fit", *given], cwd=tables, check=True)
    return tables / "scores-fit" / "report.html"


def shoot_report(browser: Browser, page_file: Path, scheme: str) -> None:
    """Save a screenshot of the top of a report page in a light or dark colour scheme."""
    page = browser.new_page(viewport={"width": 1120, "height": 880}, color_scheme=scheme)  # type: ignore[arg-type]
    page.set_content(page_file.read_text(encoding="utf-8"))
    page.screenshot(path=OUT / f"report-{scheme}.png")
    page.close()


def shoot_graph(browser: Browser, ui: str, selection: str, name: str, height: int) -> None:
    """Save a screenshot of the selected part of Dagster's asset graph with all groups expanded."""
    page = browser.new_page(viewport={"width": 1760, "height": height})
    page.goto(f"{ui}/asset-groups")
    page.get_by_text("Materialize all").first.wait_for(timeout=WAIT_MS)
    page.locator(".CodeMirror").first.click()
    page.keyboard.type(selection)
    page.keyboard.press("Escape")  # the list of suggestions, which covers the graph
    page.keyboard.press("Enter")
    page.mouse.click(1_000, height - 190)  # out of the field, so that keys are the graph's
    page.wait_for_timeout(3_000)
    page.keyboard.press("Alt+Shift+E")
    page.wait_for_timeout(2_000)
    page.mouse.move(1_000, 350)
    page.mouse.wheel(0, -80)  # the opened groups are larger than what the view was fitted to
    page.wait_for_timeout(2_000)
    page.screenshot(path=OUT / name)
    page.close()


def main() -> None:
    """Take all screenshots; the asset graph is that of the workspace named on the command line."""
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
        report = fitted(Path(folder))
        for scheme in ("light", "dark"):
            shoot_report(browser, report, scheme)
        shoot_graph(browser, ui, 'not group:"experiments"', "ui-graph.png", 790)
        shoot_graph(browser, ui, '+key:"ledger"', "ui-experiments.png", 1380)
        browser.close()


if __name__ == "__main__":
    main()
