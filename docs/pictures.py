"""Pictures for the documentation, taken from the demo by a headless Chromium: ``make pictures``."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

OUT = Path(__file__).parent / "images"


def shoot(page_file: Path, name: str, scheme: str, height: int) -> None:
    """Screenshot of the top of a page in one colour scheme."""
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1120, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(page_file.absolute().as_uri())
        page.wait_for_function("document.documentElement.dataset.drawn === 'yes'")
        page.wait_for_timeout(500)
        OUT.mkdir(exist_ok=True)
        page.screenshot(path=OUT / f"{name}.png")
        browser.close()


def main() -> None:
    """Light and dark pictures of the demo's page."""
    page = Path(sys.argv[1]) / "data" / "report" / "testset-demo.html"
    for scheme in ("light", "dark"):
        shoot(page, f"report-{scheme}", scheme, 1000)


if __name__ == "__main__":
    main()
