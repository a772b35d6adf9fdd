"""Fixtures for tests in a browser: Chromium, and a workspace of twelve programs after a run."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.support.workspaces import make_programs


@pytest.fixture(scope="module")
def chromium():
    """Yield a browser, closed after each module, because its event loop runs in this thread."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("install Debian's package `chromium` to run the tests in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def demo(made_once) -> Path:
    def run(folder: Path) -> None:
        words = ["run", "--workspace", str(make_programs(folder / "demo"))]
        subprocess.run([sys.executable, "-m", "orchestration.cli", *words], check=True, capture_output=True)

    return made_once("demo", run) / "demo"
