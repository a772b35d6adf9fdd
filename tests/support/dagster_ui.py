"""Functions that operate Dagster's UI of a workspace in a browser."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, TimeoutError, expect

from tests.support.servers import dagster_webserver

WAIT_MS = 300_000


@contextmanager
def serving(workspace: Path, log: Path) -> Iterator[str]:
    """Run ``care ui`` on a free port, and yield its address."""
    with dagster_webserver(["orchestration.cli", "ui", "--workspace", str(workspace), "--port"], log) as address:
        yield address


def switch(page: Page, ui: str, sensor: str, *, on: bool) -> None:
    """Switch a sensor on or off, and wait until Dagster has stored it and no earlier tick is running.

    Checking the box is not enough, because the page shows it as off until the sensor's state is loaded.
    """
    deadline = time.monotonic() + WAIT_MS / 1000
    wanted = "RUNNING" if on else "STOPPED"
    page.goto(f"{ui}/automation")
    row = page.locator(f'a[href$="/sensors/{sensor}"]').locator("xpath=..")
    boxes = row.locator("input[type=checkbox]")  # one selects the row, one switches
    while _state(ui, sensor)[0] != wanted:
        assert time.monotonic() < deadline, f"{sensor} cannot be switched"
        expect(boxes).to_have_count(2, timeout=WAIT_MS)
        expect(boxes.last).to_be_enabled(timeout=WAIT_MS)
        if boxes.last.is_checked() != on:
            boxes.last.locator("xpath=..").click(timeout=WAIT_MS)
        until = time.monotonic() + 5
        while _state(ui, sensor)[0] != wanted and time.monotonic() < until:
            page.wait_for_timeout(250)
    while not on and _state(ui, sensor)[1] == "STARTED":
        assert time.monotonic() < deadline, f"a tick of {sensor} does not end"
        page.wait_for_timeout(500)


def _state(ui: str, sensor: str) -> tuple[str, str]:
    """Return RUNNING or STOPPED, and the status of the sensor's latest tick (empty before the first)."""
    state = "sensorState { status ticks(limit: 1) { status } }"
    query = f"{{ repositoriesOrError {{ ... on RepositoryConnection {{ nodes {{ sensors {{ name {state} }} }} }} }} }}"
    request = urllib.request.Request(
        f"{ui}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=WAIT_MS / 1000) as answer:
        nodes = json.load(answer)["data"]["repositoriesOrError"]["nodes"]
    found = {each["name"]: each["sensorState"] for node in nodes for each in node["sensors"]}[sensor]
    return found["status"], "".join(tick["status"] for tick in found["ticks"])


def see(page: Page, address: str, text: str) -> Locator:
    """Reload a page until it shows a text, because some parts of the UI do not update themselves."""
    deadline = time.monotonic() + WAIT_MS / 1000
    found = page.get_by_text(text, exact=True).first
    while True:
        page.goto(address)
        try:
            found.wait_for(timeout=8_000)
            return found
        except TimeoutError:
            assert time.monotonic() < deadline, f"{address} shows no {text!r}:\n{page.locator('body').inner_text()}"


def choose(page: Page, address: str, which: str, partition: str) -> Locator:
    """Choose partitions in the dialog that materialises a page's assets, and return the launch button.

    The page shows an asset, a group or a job. ``which`` is "Missing" or "All"; partitions with two dimensions have only
    "All", which is clicked in each dimension. The function waits until ``partition`` is chosen.
    """
    deadline = time.monotonic() + WAIT_MS / 1000
    patience_s = 10.0  # slow machines fill the dialog late with missing partitions; it may need a new page
    while True:
        page.goto(address)
        page.get_by_role("button", name=re.compile("Materialize( all)?…")).first.click(timeout=WAIT_MS)
        dialog = page.get_by_role("dialog").filter(has_text="Partition selection").last
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            buttons = dialog.get_by_role("button", name=which, exact=True)
            buttons.first.wait_for(timeout=WAIT_MS)
            for button in buttons.all():
                button.click(timeout=WAIT_MS)
            page.wait_for_timeout(1_000)
            if dialog.locator("span", has_text=partition).first.is_visible():
                return dialog.get_by_role("button", name="Launch").last
        message = f"{address}: {partition} is not in the dialog:\n{dialog.inner_text()}"
        assert time.monotonic() < deadline, message
        patience_s *= 2
