"""Tests of the services of compose.yaml as local processes, with runs of a workspace.

PostgreSQL is Debian's, and local values replace ports, hosts and folders of the containers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.deployed import COMPOSE, Deployment, postgres, postgres_binaries
from tests.support.servers import accepts, free_port, kill, wait_until
from tests.support.workspaces import QUICK, make, query

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
IN_CONTAINERS = {"0.0.0.0": "127.0.0.1", "code-location": "127.0.0.1"}


@pytest.fixture
def deployment(tmp_path):
    """Create a deployment without runs, with only PostgreSQL started."""
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("install Debian's package `postgresql` to run the tests of the deployment")
    workspace = make(tmp_path / "ws", judges=("length", "conciseness", "redundancy"), care=QUICK + "on_change: true\n")
    with postgres(binaries) as address:
        deployment = Deployment.of(workspace, tmp_path / "home", address)
        try:
            yield deployment
        finally:
            deployment.stop()


def answers(url: str, query: str | None = None) -> dict | None:
    """Return the JSON of a page, or None if no server answers."""
    body = None if query is None else json.dumps({"query": query}).encode()
    with suppress(OSError), urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=10) as answer:
        return json.load(answer)
    return None


def test_every_service_of_orchestration_starts_and_a_nightly_run_succeeds(deployment):
    code, page = free_port(), free_port()
    replaced = {**IN_CONTAINERS, "4000": str(code), "3000": str(page)}
    replaced |= {"/dagster/workspace.yaml": deployment.workspace_file(code)}
    assert deployment.start("migrate", replaced).wait(120) == 0, deployment.logs()
    deployment.start("code", replaced)
    check = [replaced.get(word, word) for word in COMPOSE["code"]["healthcheck"]["test"][1:]]
    healthy = [sys.executable, str(BIN / check[0]), *check[1:]]
    wait_until(lambda: subprocess.run(healthy, env=deployment.environment).returncode == 0, deployment.logs)
    theirs = {"CARE_WORKSPACE": str(deployment.home / "empty")}  # compose mounts it for the code server alone
    deployment.start("webserver", replaced, **theirs)
    wait_until(lambda: answers(f"http://127.0.0.1:{page}/server_info"), deployment.logs)
    daemon = deployment.start("daemon", replaced, **theirs)
    graphql, asked = f"http://127.0.0.1:{page}/graphql", "{runsOrError {... on Runs {results {id status jobName}}}}"

    def made() -> set[str]:
        stored = "{assetsOrError {... on AssetConnection {nodes {key {path} assetMaterializations(limit: 1) {runId}}}}}"
        nodes = answers(graphql, stored)["data"]["assetsOrError"]["nodes"]
        return {node["key"]["path"][-1] for node in nodes if node["assetMaterializations"]}

    wait_until(lambda: "report_index" in made(), deployment.logs)
    assert (deployment.workspace / "data" / "report" / "index.html").exists()

    def statuses() -> set[str]:
        return {run["status"] for run in answers(graphql, asked)["data"]["runsOrError"]["results"]}

    wait_until(lambda: statuses() == {"SUCCESS"}, deployment.logs)
    assert daemon.poll() is None
    assert query(deployment.workspace, "SELECT count(*) FROM scores") == [(120,)]
    assert query(deployment.workspace, "SELECT count(*) FROM published") == [(1,)]
    assert {"items", "judge_inference", "scores", "aggregates", "review", "report", "report_index"} <= made()
    runs = answers(graphql, asked)["data"]["runsOrError"]["results"]
    kept = {path.parents[1].name for path in Path(deployment.environment["CARE_COMPUTE_LOGS"]).glob("*/compute_logs/*")}
    assert {run["id"] for run in runs} <= kept, "what runs print lies where the deployment says"
    assert "nothing to do" in deployment.command("care", "run")
    history = json.loads(deployment.command("care", "history", "--json"))
    assert sum(nightly_run["failed"] for nightly_run in history) == 0


def test_the_composed_dask_scheduler_and_worker_start_and_compute(deployment):
    from distributed import Client

    port = free_port()
    there = {"tcp://dask-scheduler:8786": f"tcp://127.0.0.1:{port}"}
    deployment.start("dask-scheduler", there, "--port", str(port), "--host", "127.0.0.1", "--dashboard-address", ":0")
    wait_until(lambda: accepts(port), deployment.logs)
    deployment.start("dask-worker", there, "--dashboard-address", ":0")
    with Client(f"tcp://127.0.0.1:{port}", timeout=60) as client:
        client.wait_for_workers(1, timeout=120)
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["nthreads"] == int(COMPOSE["dask-worker"]["command"][-1])
        assert client.submit(sum, [1, 2, 3]).result(60) == 6


def test_the_composed_ray_head_starts_and_requires_the_token(deployment):
    port, client, token = free_port(), free_port(), "a" * 64
    with tempfile.TemporaryDirectory(prefix="care-ray-") as folder:
        more = ["--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={folder}", "--num-gpus=0", "--num-cpus=1"]
        environment = {"RAY_AUTH_MODE": COMPOSE["ray"]["environment"]["RAY_AUTH_MODE"], "RAY_AUTH_TOKEN": token}
        ray = deployment.start("ray", {"10001": str(client)}, *more, **environment)
        wait_until(lambda: accepts(client), deployment.logs)
        code = "from judges.ray_cluster import connect\nconnect()\nimport ray\nprint(ray.cluster_resources()['CPU'])"
        address = {"RAY_ADDRESS": f"ray://127.0.0.1:{client}", "RAY_AUTH_MODE": "token"}

        def come(token: str) -> subprocess.CompletedProcess[str]:
            env = {**os.environ, **address, "RAY_AUTH_TOKEN": token, "PYTHONPATH": deployment.environment["PYTHONPATH"]}
            return subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=300
            )

        came = come(token)
        assert came.stdout.split() == ["1.0"], came.stderr
        assert "RAY_AUTH_TOKEN to the content" in come("b" * 64).stderr
        kill(ray, 15)
        ray.wait(60)
