"""Seven nights of `care run`; and a daemon's night, which comes at its hour and at no other."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.endpoints import Vendor, number_of
from tests.support.servers import free_port, started, wait_until
from tests.support.workspaces import (
    JUDGES,
    QUICK,
    make,
    query,
    run,
    score_rows,
    write_items,
    write_judge,
    write_testset,
)

pytestmark = pytest.mark.slow

RESULTS = ("review", "evaluation", "intervals", "systems")
"""Assets that are made again both after labels and after a fit have changed."""

FIT = ("panel", "moments", "structure", "aggregates", *RESULTS, "factors", "report")

Ran = dict[str, set[str]]


@dataclass(frozen=True)
class PlannedNight:
    """What happens, and what must run because of it.

    Attributes
    ----------
    what : str
    happen : callable
        Changes the workspace in this folder.
    runs : dict asset -> partitions
        Exactly these are materialised; "" for an asset without partitions.
    fails : set of (asset, partition)
        Exactly these fail.
    """

    what: str
    happen: Callable[[Path], object]
    runs: Ran
    fails: frozenset[tuple[str, str]] = frozenset()


def two_testsets(folder: Path, care: str = QUICK) -> Path:
    """Make a workspace with two test sets and five judges."""
    make(folder, care=care)
    write_items(folder, 30, name="two")
    write_testset(folder, "two")
    return folder


def _slices(judges: tuple[str, ...], *testsets: str) -> set[str]:
    return {f"{judge}|{testset}" for judge in judges for testset in testsets}


def _fits(*testsets: str) -> Ran:
    return {**{asset: set(testsets) for asset in FIT}, "report_index": {""}}


def _nothing(folder: Path) -> None:
    """Give a file a newer date and the same content."""
    (folder / "one.csv").touch()


def _broken(folder: Path) -> None:
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: oracle}\n")


def _mended(folder: Path) -> None:
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: grade_level}\n")


def nights() -> Iterator[PlannedNight]:
    """The nights in order; each begins with the workspace that the one before has left."""
    both = ("one", "two")
    yield PlannedNight(
        "a fresh deployment",
        lambda folder: None,
        {
            "items": set(both),
            "gold": set(both),
            "judge_inference": set(JUDGES),
            "scores": _slices(JUDGES, *both),
            **_fits(*both),
        },
    )
    yield PlannedNight("nothing changed, or the same content again", _nothing, {})
    yield PlannedNight(
        "a judge comes",
        lambda folder: write_judge(folder, "readability"),
        {"judge_inference": {"readability"}, "scores": _slices(("readability",), *both), **_fits(*both)},
    )
    every = (*JUDGES, "readability")
    yield PlannedNight(
        "one test set changes",
        lambda folder: write_items(folder, edited=7),
        {
            "items": {"one"},
            "gold": {"one"},
            "judge_inference": set(every),
            "scores": _slices(every, "one"),
            **_fits("one"),
        },
    )
    yield PlannedNight(
        "a judge comes that is broken",
        _broken,
        {"panel": set(both), "report_index": {""}},
        frozenset({("judge_inference", "oracle")}),
    )
    yield PlannedNight(
        "and is mended",
        _mended,
        {"judge_inference": {"oracle"}, "scores": _slices(("oracle",), *both), **_fits(*both)},
    )
    yield PlannedNight("a judge leaves", lambda folder: (folder / "judges" / "length.yaml").unlink(), _fits(*both))


def test_seven_nights_run_exactly_what_they_must(tmp_path):
    folder = two_testsets(tmp_path / "ws")
    for night in nights():
        night.happen(folder)
        outcome = run(folder)
        ran: dict[str, set[str]] = {}
        for asset, partition in outcome.materialised:
            ran.setdefault(asset, set()).add(partition or "")
        assert ran == night.runs, night.what
        assert len(outcome.materialised) == len(set(outcome.materialised)), f"{night.what}: nothing is made twice"
        assert set(outcome.failures) == night.fails, night.what
        rows = score_rows(folder)
        assert len(rows) == len(set(rows)), f"{night.what}: nothing is scored twice"
        again = run(folder)
        assert again.materialised == [], f"{night.what}: and then it is quiet"


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


def test_judges_are_paid_at_the_hour_of_nightly_or_as_soon_as_files_change_and_else_never(tmp_path, monkeypatch):
    """By the count of the server that is paid: under `care ui`, and under a host's daemon beside other workspaces."""
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
    """Write ``n`` items, each of which is one question to a judge."""
    write_items(folder, n)
    rows = (folder / "one.csv").read_text().replace("What is the capital?,", "What is the capital?,It is NUMBER. ")
    parts = rows.split("NUMBER")
    (folder / "one.csv").write_text("".join(f"{part}{k}" for k, part in enumerate(parts[:-1])) + parts[-1])


def is_published(folder) -> bool:
    """Whether a fit of all items can be read; a writer of the database is waited for."""
    if not (folder / "data" / "care.duckdb").exists():
        return False
    counted = query(folder, "SELECT count(*) FROM latest_aggregates WHERE aggregator = 'avg'")
    return counted == [(ITEMS + ADDED,)]
