"""README's shell commands, read from README and run in order in an empty folder, as a newcomer would."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from assets.report.names import page_name
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import write_items

README = Path(__file__).parents[2] / "README.md"
BIN = Path(sys.executable).parent

STANDS_FOR = {"TESTSET": "own", "COMMIT": "0" * 40}
"""What a newcomer writes in the place of README's capitals."""

LEFT_OUT = {
    "make": "installs, which the newcomer has done; tests/orchestration/test_installed.py does it from a wheel",
    "care judges test qwen": "loads the model, on a GPU",
}
"""Commands by their beginning, and why they are not run."""


def commands() -> list[str]:
    """Every line of README's shell blocks, without its comment."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    blocks = [block for language, block in fenced if language in ("", "sh", "shell", "bash")]
    lines = [line.partition("  #")[0].partition(" # ")[0].strip() for block in blocks for line in block.splitlines()]
    return [re.sub(r"\b[A-Z]{4,}\b", lambda word: STANDS_FOR[word[0]], line) for line in lines if line]


def environment() -> dict[str, str]:
    """With the command on the path, and a browser that does nothing."""
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "BROWSER": "true"}


def bring_scores(folder: Path) -> None:
    """The newcomer's own scores; whose items they are, a new system's and an old one's; and labels of twenty."""
    rows = [f"i{k},judge{j},{(k * (j + 3)) % 11 + 5 * (k % 2)}" for k in range(30) for j in range(4)]
    (folder / "scores.csv").write_text("\n".join(["item_id,judge,score", *rows]) + "\n")
    systems = [f"i{k},{'new' if k % 2 else 'old'}" for k in range(30)]
    (folder / "items.csv").write_text("\n".join(["item_id,model", *systems]) + "\n")
    labels = [f"i{k},{k % 2}" for k in range(20)]
    (folder / "labels.csv").write_text("\n".join(["item_id,label", *labels]) + "\n")


def bring_a_testset(folder: Path) -> None:
    """The newcomer's own test set, whose answers are two systems', beside the demo; and experiments of a minute."""
    workspace = folder / "mine"
    write_items(workspace, n=40, name="own")
    lines = (workspace / "own.csv").read_text().splitlines()
    named = [f"{line},{'model' if k == 0 else 'ab'[k % 2]}" for k, line in enumerate(lines)]
    (workspace / "own.csv").write_text("\n".join(named) + "\n")
    (workspace / "testsets" / "own.yaml").write_text(
        "source:\n  kind: files\n  items: own.csv\n"
        "  columns: {prompt: question, response: answer, gold: label}\nscale: [0, 10]\nsystems: [model]\n"
    )
    with (workspace / "care.yaml").open("a") as settings:
        settings.write(
            "experiment_sizes:\n"
            "  aggregation_tables: {seeds: 1, resamples: 20}\n"
            "  paper_protocol: {seeds: 1}\n"
            "  regime_sufficient: {seeds: 1, items: 400}\n"
            "  regime_insufficient: {seeds: 1}\n"
            "  graph_aware_views: {seeds: 1, items: [400]}\n"
            "  orthogonality: {seeds: 1, items: 400}\n"
            "  tensor_against_svd: {seeds: 1}\n"
            "  observation_models: {seeds: 1, items: [400, 800]}\n"
            "  edges_within_states: {seeds: 1, items: 800}\n"
            "  theory_rates: {seeds: 2, items: [400, 800, 1600], models: 10}\n"
        )


def take_the_model_away(folder: Path) -> None:
    """It cannot be loaded without a GPU, and would be missed by every command from here on."""
    (folder / "mine" / "judges" / "qwen.yaml").unlink()


BEFORE = {"care fit scores.csv": bring_scores}
AFTER = {"care init mine": bring_a_testset, "care judges new qwen": take_the_model_away}


def see_the_ui(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/server_info", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def see_the_daemon(folder: Path, since: float) -> bool:
    """A sign of life that is this daemon's, not that of the one before."""
    with workspace_instance(load_workspace(folder / "mine")) as instance:
        return any(beat.timestamp > since for beat in instance.get_daemon_heartbeats().values())


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def started_and_stopped(line: str, folder: Path) -> None:
    """A command that serves until it is interrupted."""
    port = free_port()
    started = time.time()
    at_work: Callable[[], bool] = lambda: see_the_daemon(folder, started)  # noqa: E731
    if line.startswith("care ui"):
        line, at_work = f"{line} --port {port}", lambda: see_the_ui(port)
    with (folder / "log.txt").open("w+") as log:
        process = subprocess.Popen(
            shlex.split(line), cwd=folder, env=environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 180
            while not at_work():
                log.seek(0)
                assert process.poll() is None, f"{line} ended:\n{log.read()}"
                assert time.monotonic() < deadline, f"{line} shows no sign of life:\n{log.read()}"
                time.sleep(1)
            process.send_signal(signal.SIGINT)
            process.wait(120)
        finally:
            process.kill()  # where it has not ended, it must not outlive the test


@pytest.mark.slow
def test_every_command_of_readme_does_what_a_newcomer_expects(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", environment()["PATH"])
    ran: list[str] = []
    for line in commands():
        if line.startswith(tuple(LEFT_OUT)):
            continue
        for beginning, prepare in BEFORE.items():
            if line.startswith(beginning):
                prepare(tmp_path)
        if line.startswith(("care ui", "care daemon")):
            started_and_stopped(line, tmp_path)
        else:
            done = subprocess.run(
                shlex.split(line), cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{line} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr, line
        for beginning, follow in AFTER.items():
            if line.startswith(beginning):
                follow(tmp_path)
        ran.append(line)
    assert len(ran) >= 13
    assert (tmp_path / "out" / "report.html").is_file()
    assert (tmp_path / "mine" / "data" / "report" / page_name("own")).is_file()
    assert (tmp_path / "mine" / "data" / "report" / "experiments.html").is_file()


def test_readme_is_read_as_a_newcomer_reads_it():
    lines = commands()
    assert "care init mine" in lines
    qwen = "care judges new qwen --model Qwen/Qwen3-4B --revision 0000000000000000000000000000000000000000"
    assert f"{qwen} --template answer_rating --workspace mine" in lines
    assert "care history own --workspace mine" in lines
    assert not any("#" in line for line in lines)
    assert all(any(line.startswith(left) for line in lines) for left in (*LEFT_OUT, *BEFORE, *AFTER)), "none is stale"
