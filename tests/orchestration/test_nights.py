"""Tests that nightly runs start at their hour and runs on change at once, and that neither asks a judge twice."""

import sys
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from tests.support.endpoints import Vendor, number_of
from tests.support.servers import free_port, started, wait_until
from tests.support.workspaces import QUICK, make, query, write_items

pytestmark = pytest.mark.slow


HOST = """
from pathlib import Path

import dagster as dg

from orchestration.definitions import build_defs

HERE = Path(__file__).parent
defs = dg.Definitions.merge(*(build_defs(HERE / name, key_prefix=name) for name in ("night", "asked", "change")))
"""

ITEMS, ADDED = 20, 2

JUDGE = """\
engine: {{kind: openai, model: {name}, base_url: {url}/v1, template: quality, api_key_env: CARE_TEST_KEY}}
scale: [0, 9]
"""


def test_judges_are_asked_only_at_the_nightly_hour_or_on_change(tmp_path, monkeypatch):
    """A paid server counts questions, under `care ui` and under another project's daemon."""
    monkeypatch.setenv("CARE_TEST_KEY", "a key")
    at = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=3)
    nightly = f"nightly: {{at: '{at:%H:%M}'}}\n"
    settings = {"ui": nightly, "night": nightly, "asked": "", "change": "on_change: true\n"}
    (tmp_path / "host.py").write_text(HOST)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    times: list[tuple[str, datetime, int]] = []

    def behave(handler, body):
        times.append((body["model"], datetime.now(UTC), number_of(body)))
        handler.answer(str(number_of(body) % 9))

    with Vendor(behave) as vendor, ExitStack() as until_end:
        for name, more in settings.items():
            folder = make(tmp_path / name, ("length", "conciseness", "redundancy"), n=1, care=QUICK + more)
            (folder / "judges" / "paid.yaml").write_text(JUDGE.format(name=name, url=vendor.url))
            answers(folder, ITEMS)
        ui = [sys.executable, "-m", "orchestration.cli", "ui", "--workspace", str(tmp_path / "ui")]
        host = [sys.executable, "-m", "dagster", "dev", "-f", str(tmp_path / "host.py")]
        with dg.DagsterInstance.from_config(str(tmp_path / "home")):
            pass  # the processes of `dagster dev` must not create its tables at once
        for number, command in enumerate((ui, host)):
            log = tmp_path / f"{number}.log"
            words = [*command, "--port", str(free_port())]
            home = {"DAGSTER_HOME": str(tmp_path / "home")} if command is host else {}
            until_end.enter_context(started(words, log, **home))
        logs = [tmp_path / "0.log", tmp_path / "1.log"]

        def say() -> str:
            return "\n".join(log.read_text()[-3000:] for log in logs)

        wait_until(lambda: len(times) == ITEMS, say)
        before = datetime.now(UTC)
        assert before < at, "the machine is too slow for this test to say anything"
        for name in settings:
            answers(tmp_path / name, ITEMS + ADDED)
        wait_until(lambda: len(times) == 3 * (ITEMS + ADDED), say)
        wait_until(lambda: all(is_published(tmp_path / name) for name in ("ui", "night", "change")), say)
    counts = Counter(name for name, _, _ in times)
    assert counts == dict.fromkeys(("ui", "night", "change"), ITEMS + ADDED), "each once, and `asked` never"
    assert all(when >= at for name, when, _ in times if name != "change"), "before the hour"
    asked = Counter((name, number) for name, _, number in times)
    assert set(asked.values()) == {1}, "a question is paid for twice"
    assert not (tmp_path / "asked" / "data" / "care.duckdb").exists()


def answers(folder, n: int) -> None:
    """Write ``n`` items; each item is one question to a judge."""
    write_items(folder, n)
    rows = (folder / "one.csv").read_text().replace("What is the capital?,", "What is the capital?,It is NUMBER. ")
    parts = rows.split("NUMBER")
    (folder / "one.csv").write_text("".join(f"{part}{k}" for k, part in enumerate(parts[:-1])) + parts[-1])


def is_published(folder) -> bool:
    """Return whether a fit of all items can be read; wait for a writer of the database."""
    if not (folder / "data" / "care.duckdb").exists():
        return False
    counted = query(folder, "SELECT count(*) FROM latest_aggregates WHERE aggregator = 'avg'")
    return counted == [(ITEMS + ADDED,)]
