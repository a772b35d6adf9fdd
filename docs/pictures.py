"""Pictures for the documentation, taken by a headless Chromium from a workspace that has been run.

``make pictures`` runs it on the demo: the report in light and dark, and the asset graph in Dagster's UI.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

OUT = Path(__file__).parent / "images"
PORT = 3977


def shoot_report(browser: Browser, page_file: Path, scheme: str) -> None:
    """The top of a page in one colour scheme."""
    page = browser.new_page(viewport={"width": 1120, "height": 1130}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(page_file.absolute().as_uri())
    page.wait_for_function("document.documentElement.dataset.drawn === 'yes'")
    page.wait_for_timeout(500)
    page.screenshot(path=OUT / f"report-{scheme}.png")
    page.close()


def shoot_graph(browser: Browser, workspace: Path) -> None:
    """Dagster's asset graph with every group open."""
    command = [sys.executable, "-m", "orchestration.cli", "ui", "--workspace", str(workspace), "--port", str(PORT)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/server_info", timeout=2)
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.3)
        page = browser.new_page(viewport={"width": 1500, "height": 620})
        page.goto(f"http://127.0.0.1:{PORT}/asset-groups")
        page.get_by_text("Materialize all").first.wait_for(timeout=60_000)
        page.wait_for_timeout(3_000)
        page.keyboard.press("Alt+Shift+E")
        page.wait_for_timeout(3_000)
        page.screenshot(path=OUT / "ui-graph.png")
        page.close()
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


def main() -> None:
    """Take every picture from the workspace named on the command line."""
    workspace = Path(sys.argv[1])
    OUT.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme in ("light", "dark"):
            shoot_report(browser, workspace / "data" / "report" / "testset-demo.html", scheme)
        shoot_graph(browser, workspace)
        browser.close()


if __name__ == "__main__":
    main()
