"""Tests of a cluster node that dies during judging: no score is lost or stored twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import pytest

from judges.items import Item
from judges.pool import Pool, PoolConfig
from tests.judges.placement import STUB, judge, loads_in
from tests.support.judging import run_judge
from tests.support.servers import accepts, free_port, started, wait_until

RAY = Path(sys.executable).with_name("ray")
ITEMS = [Item(f"i{k}", f"question {k}", f"answer {k}") for k in range(400)]


@pytest.fixture
def two_nodes(tmp_path, monkeypatch):
    """Start a head with one GPU and a node with two by ``ray start``; return the node's process."""
    port = free_port()
    stub = {"VLLM_STUB_LOG": str(tmp_path / "loads"), "VLLM_STUB_LOAD_S": "0.1", "VLLM_STUB_SCORE_S": "0.2"}
    stub["RAY_AUTH_MODE"] = "disabled"
    stub["PYTHONPATH"] = os.pathsep.join([str(STUB), str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    with ExitStack() as until_end:
        # A folder with a name that is short enough for Ray's sockets.
        folder = until_end.enter_context(tempfile.TemporaryDirectory(prefix="care-ray-", ignore_cleanup_errors=True))

        def start(*options: str) -> subprocess.Popen[bytes]:
            log = tmp_path / f"log {options[0][2:6]}"
            command = [str(RAY), "start", "--block", "--num-cpus=2", "--node-ip-address=127.0.0.1", *options]
            return until_end.enter_context(started(command, log, **stub, RAY_health_check_period_ms="500"))

        start("--head", f"--port={port}", f"--temp-dir={folder}", "--num-gpus=1")
        wait_until(lambda: accepts(port), lambda: "the head of the cluster did not start", 120)
        for name, value in {**stub, "RAY_ADDRESS": f"127.0.0.1:{port}"}.items():
            monkeypatch.setenv(name, value)
        yield start(f"--address=127.0.0.1:{port}", "--num-gpus=2")


def _score_until_a_node_dies(folder: Path, node: int) -> tuple[list[int], dict[str, list[str]], float]:
    """Run two judges, one of which loses a node; return counts, stored scores and remaining GPUs.

    It runs in another process, because a process keeps the token mode of its first cluster.
    """
    import ray

    from judges.ray_cluster import connect

    stored: dict[str, list[str]] = {"wide": [], "other": []}
    part = threading.Event()

    def run(name: str, pool: Pool) -> int:
        def sink(batch, _):
            stored[name].extend(score.item_id for score in batch)
            if len(stored["wide"]) >= len(ITEMS) / 4:
                part.set()

        return run_judge(pool, judge(name, folder), ITEMS, sink)

    connect()
    wait_until(lambda: ray.cluster_resources().get("GPU", 0) >= 3, lambda: str(ray.cluster_resources()), 120)
    with Pool(PoolConfig(actors=2)) as pool, ThreadPoolExecutor(2) as threads:
        running = [threads.submit(run, name, pool) for name in stored]
        assert part.wait(300)
        os.killpg(node, signal.SIGKILL)
        counts = [future.result(timeout=300) for future in running]
    return counts, stored, ray.cluster_resources()["GPU"]


@pytest.mark.slow
def test_a_node_that_is_killed_loses_nothing_and_doubles_nothing(two_nodes, tmp_path):
    """Real raylets are used; one is killed while it scores."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        counts, stored, gpus = process.submit(_score_until_a_node_dies, tmp_path, two_nodes.pid).result()
    assert gpus == 1
    assert counts == [len(ITEMS)] * 2
    for name, items in stored.items():
        assert set(Counter(items).values()) == {1}, name
        assert len(items) == len(ITEMS)
    assert len(loads_in(tmp_path / "loads")) >= 3
