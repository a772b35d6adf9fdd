"""Tests that run the commands of README and of the pages about labels and nightly runs, in order."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from assets.report.names import page_name
from orchestration.cli.app import app
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.servers import free_port, wait_until
from tests.support.servers import started as start
from tests.support.workspaces import (
    JUDGES,
    add_column,
    begins_with,
    write_items,
    write_judge,
    write_table,
    write_testset,
)

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BIN = Path(sys.executable).parent

STANDS_FOR = {"TESTSET": "own"}
"""Values that a new user types in place of README's capitals."""

LEFT_OUT = {
    "pip install": "which the newcomer has done; tests/orchestration/test_installed.py does it from a wheel",
    "care judges test qwen": "loads the model, on a GPU",
}
"""Beginnings of commands that are not run, with the reasons."""


def shell_blocks(text: str) -> list[str]:
    """Return the fenced shell blocks of a page."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in fenced if language in ("", "sh", "shell", "bash")]


def commands() -> list[str]:
    """Return the lines of README's shell blocks and of the first blocks about rates and nightly runs."""
    blocks = shell_blocks(README.read_text())
    for page, heading in (("labels", "## Rates"), ("labels", "## A judge's report"), ("nights", "# Workspaces")):
        blocks.append(shell_blocks((ROOT / "docs" / f"{page}.md").read_text().partition(heading)[2])[0])
    lines = [line.partition("  #")[0].partition(" # ")[0].strip() for block in blocks for line in block.splitlines()]
    return [re.sub(r"\b[A-Z]{4,}\b", lambda word: STANDS_FOR[word[0]], line) for line in lines if line]


EXPERIMENTS = "care run --select group:experiments"
OF_A_MINUTE = """
from assets.experiments.registry import experiments
from care_ops.aggregators import care_svd

care_svd.EXACTLY = (1e-6, 300)

for key, size in {
    "regime_sufficient": {"seeds": 1, "items": 400},
    "regime_insufficient": {"seeds": 1, "strengths": [0.0, 1.0]},
    "graph_aware_views": {"seeds": 1, "items": [400]},
    "orthogonality": {"seeds": 1, "items": 400},
    "tensor_against_svd": {"seeds": 1},
    "theory_rates": {"seeds": 2, "items": [400, 800, 1600], "models": 10},
}.items():
    experiments()[key].small.update(size)
"""
"""Code that makes the experiments even smaller, and their fits less exact."""


def environment(programs: Path = BIN) -> dict[str, str]:
    """Return the environment with CARE's command on the path, and a browser that does nothing."""
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "BROWSER": "true"}


def bring_scores(folder: Path) -> None:
    """Write the user's scores and judges, the items' systems (new and old), and twenty labels."""
    rows = [(f"i{k}", f"judge{j}", (k * (j + 3)) % 11 + 5 * (k % 2)) for k in range(30) for j in range(4)]
    write_table(folder / "scores.csv", ("item_id", "judge", "score"), rows)
    write_table(folder / "judges.csv", ("judge", "family"), [("judge0", "one"), ("judge1", "one")])
    write_table(folder / "items.csv", ("item_id", "model"), [(f"i{k}", ("old", "new")[k % 2]) for k in range(30)])
    write_table(folder / "labels.csv", ("item_id", "label", "drawn"), [(f"i{k}", k % 2, "random") for k in range(20)])


def bring_a_testset(folder: Path) -> None:
    """Write the user's test set of two systems, beside a test set of the demo; reduce its resamples."""
    workspace = folder / "mine"
    for name in ("clear", "copies"):
        (workspace / "testsets" / f"{name}.yaml").unlink()
    for path in (workspace / "judges").glob("*.yaml"):
        if "length" not in path.read_text():
            path.unlink()
    for name in JUDGES:
        write_judge(workspace, name, testsets="[own]")
    settings = (workspace / "care.yaml").read_text()
    assert settings.count("resamples: 60\n") == 1
    settings = settings.replace("resamples: 60\n", "resamples: 20\n")
    (workspace / "care.yaml").write_text(f"{settings}labels: {{own: labels.csv}}\n")
    write_items(workspace, n=40, name="own")
    add_column(workspace / "own.csv", "model", "ab")
    labels = [(f"i{k}", k % 3 % 2, "random") for k in range(40)]
    write_table(workspace / "labels.csv", ("item_id", "label", "drawn"), labels)
    write_testset(workspace, "own", rest="scale: [0, 10]\nsystems: [model]\n")


def go_to_the_quickstart(folder: Path) -> None:
    """Copy the quickstart to a folder that commands may change, and change to this folder."""
    os.chdir(shutil.copytree(ROOT / "examples" / "quickstart", folder / "quickstart"))


BEFORE = {"cd examples/quickstart": go_to_the_quickstart, "care rate": lambda _: bring_scores(Path.cwd())}
AFTER = {"care init mine": lambda _: bring_a_testset(Path.cwd())}


def see_the_ui(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/server_info", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def see_the_daemon(folder: Path, since: float) -> bool:
    """Wait for a heartbeat of this daemon, not of the previous one."""
    with workspace_instance(load_workspace(folder / "mine")) as instance:
        return any(beat.timestamp > since for beat in instance.get_daemon_heartbeats().values())


def started_and_stopped(line: str, folder: Path) -> None:
    """Run a command that serves until it is interrupted."""
    port = free_port()
    started = time.time()
    at_work: Callable[[], bool] = lambda: see_the_daemon(folder, started)  # noqa: E731
    if line.startswith("care ui"):
        line, at_work = f"{line} --port {port}", lambda: see_the_ui(port)
    log = folder / "log.txt"
    with start(shlex.split(line), log, folder, **environment()) as process:
        wait_until(lambda: process.poll() is not None or at_work(), log.read_text, 180)
        assert process.poll() is None, f"{line} ended:\n{log.read_text()}"
        process.send_signal(signal.SIGINT)
        process.wait(120)


@pytest.mark.slow
def test_every_command_in_the_readme_works_for_a_new_user(tmp_path, monkeypatch):
    """Commands that end run in this process; the others run with an installed `care`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    monkeypatch.setenv("PATH", environment()["PATH"])
    ran: list[str] = []
    for line in commands():
        if line.startswith(tuple(LEFT_OUT)):
            continue
        for beginning, prepare in BEFORE.items():
            if line.startswith(beginning):
                prepare(tmp_path)
        if line.startswith("cd "):
            continue
        if line.startswith(("care ui", "care admin daemon")):
            started_and_stopped(line, Path.cwd())
        elif line.startswith(EXPERIMENTS):
            env = begins_with(tmp_path / "first", OF_A_MINUTE, environment())
            subprocess.run(shlex.split(line), env=env, check=True)
        else:
            done = CliRunner().invoke(app, shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line} ended with {done.exit_code}:\n{done.output}"
        for beginning, follow in AFTER.items():
            if line.startswith(beginning):
                follow(tmp_path)
        ran.append(line)
    assert len(ran) >= 13
    assert (tmp_path / "quickstart" / "scores-fit" / "report.html").is_file()
    assert (Path.cwd() / "mine" / "data" / "report" / page_name("own")).is_file()
    assert (Path.cwd() / "mine" / "data" / "report" / "experiments.html").is_file()


def test_every_exempted_command_is_still_documented():
    lines = commands()
    assert not any("#" in line for line in lines)
    assert "pip install '.[pipeline]'     # in the root of the clone" in README.read_text(), (
        "not in the example's folder"
    )
    for beginning in (*LEFT_OUT, *BEFORE, *AFTER, EXPERIMENTS):
        assert any(line.startswith(beginning) for line in lines), beginning
