"""Two workspaces beside a host's own assets in one Dagster: a person clicks, and each gets what is its own."""

import sys
import time
from pathlib import Path

import dagster as dg
import pytest
import yaml
from playwright.sync_api import Page, expect

from assets.mount import Mount
from tests.support.dagster_ui import WAIT_MS, answering, choose, started
from tests.support.servers import free_port
from tests.support.workspaces import make, query

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOST = """
from pathlib import Path

import dagster as dg

from orchestration.definitions import build_defs


@dg.asset(group_name="shop", kinds={"python"}, description="Orders of the shop.")
def orders() -> None: ...


HERE = Path(__file__).parent
defs = dg.Definitions.merge(
    dg.Definitions([orders], executor=dg.multiprocess_executor, resources={"workspace": "theirs"}),
    build_defs(HERE / "a", key_prefix="team_a", watch=True),
    build_defs(HERE / "b", key_prefix=["org", "team_b"], watch=True),
)
"""
JUDGES = ("length", "conciseness", "redundancy")
ITEMS = {"a": 60, "b": 50}
MOUNTS = {"a": Mount(("team_a",)), "b": Mount(("org", "team_b"))}


@pytest.fixture
def place(tmp_path) -> Path:
    """A host's code location with two workspaces, and a Dagster of its own."""
    (tmp_path / "host.py").write_text(HOST)
    location = {"python_file": {"relative_path": "host.py", "location_name": "host"}}
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [location]}))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    (tmp_path / "pictures").mkdir()
    for name, n in ITEMS.items():
        make(tmp_path / name, JUDGES, n=n)
    return tmp_path


def test_two_workspaces_beside_a_host_are_materialised_by_clicking(chromium, place):
    page = chromium.new_page(viewport={"width": 1600, "height": 1000}, color_scheme="light")
    port, tools, log, home = free_port(), Path(sys.executable).parent, place / "ui.log", place / "home"
    target = ["-w", str(place / "workspace.yaml")]
    web = [str(tools / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(port), *target]
    with started(web, log, home) as process:
        ui = answering(process, port, log)
        daemon = [str(tools / "dagster-daemon"), "run", *target]
        with started(daemon, place / "daemon.log", home), dg.DagsterInstance.from_config(str(home)) as instance:
            looks_apart(page, ui, place)
            materialised(page, ui, instance)
            ended_well(page, ui, instance, place)
    page.close()
    assert "Warning" not in log.read_text(), "what a host prints while it loads CARE"
    for name, n in ITEMS.items():
        assert query(place / name, "SELECT count(*) FROM items") == [(n,)]
        assert query(place / name, "SELECT judge, count(*) FROM slices GROUP BY ALL ORDER BY ALL") == [
            (judge, 1) for judge in sorted(JUDGES)
        ]
        assert query(place / name, "SELECT count(*) FROM latest_aggregates WHERE aggregator = 'avg'") == [(n,)]
        assert (place / name / "data" / "report" / "testset-one.html").is_file()


def looks_apart(page: Page, ui: str, place: Path) -> None:
    """The graph draws a box for each group of each workspace, and one for the host's own."""
    page.goto(f"{ui}/asset-groups")
    for group in ("shop", *(mount.name(group) for mount in MOUNTS.values() for group in ("fit", "judging", "report"))):
        page.get_by_text(group, exact=True).first.wait_for(timeout=WAIT_MS)
    page.screenshot(path=place / "pictures" / "graph.png")


def materialised(page: Page, ui: str, instance: dg.DagsterInstance) -> None:
    """Inputs, judges, their scores and a fit with its page, each by a click a workspace, before either has answered.

    The next is clicked once Dagster has the former of both.
    """
    location, slices = f"{ui}/locations/host", {f"{judge}|one" for judge in JUDGES}
    for kind, name, which, partition, last, made in (
        ("asset-groups", "inputs", "Missing", "one", "gold", {"one"}),
        ("assets", "judge_inference", "Missing", "length", "judge_inference", {*JUDGES}),
        ("assets", "scores", "All", "length", "scores", slices),
        ("jobs", "refit", "Missing", "one", "report", {"one"}),
    ):
        for mount in MOUNTS.values():
            of_asset = f"{ui}/assets/{'/'.join(mount.prefix)}/{name}"
            address = of_asset if kind == "assets" else f"{location}/{kind}/{mount.name(name)}"
            launch = choose(page, address, which, partition)
            launch.click()
            launch.wait_for(state="detached", timeout=WAIT_MS)
        deadline = time.monotonic() + WAIT_MS / 1000
        while made != set.intersection(*(came(instance, mount, last) for mount in MOUNTS.values())):
            assert time.monotonic() < deadline, f"{last} does not come"
            page.wait_for_timeout(500)


def came(instance: dg.DagsterInstance, mount: Mount, asset: str) -> set[str]:
    return set(instance.get_materialized_partitions(mount.key(asset)))


def ended_well(page: Page, ui: str, instance: dg.DagsterInstance, place: Path) -> None:
    """Every run that was clicked has succeeded, as the page of runs says."""
    page.goto(f"{ui}/runs")
    rows = page.get_by_text("Manually launched")
    expect(rows).to_have_count(4 * len(MOUNTS), timeout=WAIT_MS)
    expect(page.get_by_text("Success", exact=True)).to_have_count(4 * len(MOUNTS), timeout=WAIT_MS)
    page.screenshot(path=place / "pictures" / "runs.png")
    runs = [record.dagster_run for record in instance.get_run_records()]
    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
