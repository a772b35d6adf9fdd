"""Fixtures for tests in a browser: Chromium, and a workspace of twelve programs after a run."""

import shutil

import pytest
from playwright.sync_api import sync_playwright


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
