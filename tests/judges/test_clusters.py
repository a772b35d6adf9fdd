"""Tests of clusters that do not answer or require a token: each gives a message of one sentence, without long waits."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from care_ops.errors import JudgeError
from judges.ray_cluster import RayConfig, connect
from tests.support.servers import accepts, free_port, wait_until

CONNECT = "from judges.ray_cluster import connect\nprint('connecting', flush=True)\nconnect()\n"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("127.0.0.1:1", "no server answers there .*start the cluster with `ray start --head`, or unset RAY_ADDRESS"),
        ("ray://127.0.0.1:1", "no server answers there"),
        ("[::1]:1", "no server answers there"),
        ("somewhere", "set it to host:port"),
    ],
)
def test_a_dead_address_of_ray_is_reported(monkeypatch, address, sentence):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(JudgeError, match=sentence) as caught:
        connect()
    assert f"RAY_ADDRESS is {address}" in str(caught.value)


def test_a_dead_address_of_care_yaml_is_reported_and_the_environment_overrides_it(monkeypatch):
    config = RayConfig("127.0.0.1:1")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(
        JudgeError, match=r"^ray.address in care.yaml is 127.0.0.1:1: no server .*, or unset ray.address"
    ):
        connect(config)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:2")
    with pytest.raises(JudgeError, match=r"^RAY_ADDRESS is 127.0.0.1:2: no server"):
        connect(config)


@pytest.mark.parametrize(("failures", "connected"), [(2, True), (3, False)])
@pytest.mark.parametrize("is_cluster", [True, False])
def test_ray_that_takes_no_client_is_asked_again(monkeypatch, caplog, is_cluster, failures, connected):
    busy_cluster = ConnectionAbortedError("Initialization failure from server:\n")
    failing = [busy_cluster if is_cluster else RuntimeError("Failed to start GCS.\nIts log is elsewhere.")] * failures
    ended = []

    def busy(**options):
        if failing:
            raise failing.pop()

    monkeypatch.setattr("ray.init", busy)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("ray.shutdown", lambda: ended.append(len(caplog.records)))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    reason = "Initialization failure from server" if is_cluster else "Failed to start GCS. Its log is elsewhere."
    with socket.create_server(("127.0.0.1", 0)) as cluster:
        if is_cluster:
            monkeypatch.setenv("RAY_ADDRESS", f"ray://127.0.0.1:{cluster.getsockname()[1]}")
        with nullcontext() if connected else pytest.raises(JudgeError, match=reason):
            connect()
    assert not failing
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [reason in warning for warning in warnings] == [True, True]
    assert len(ended) == 2, "nothing stays of what has failed"


@contextmanager
def silent_address():
    """Return an address that neither accepts nor refuses connections, as that of a machine without power."""
    with ExitStack() as sockets:
        server = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # the system completes a connection or two by itself
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_silent_address_of_ray_is_given_up_after_a_time(monkeypatch):
    with silent_address() as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        monkeypatch.setattr("judges.ray_cluster._ANSWER_TIMEOUT_S", 0.5)
        with pytest.raises(JudgeError, match=r"no server answers there \(timed out\)"):
            connect()


def test_a_process_that_waits_for_ray_ends_by_a_signal():
    with silent_address() as address:
        environment = {**os.environ, "RAY_ADDRESS": address}
        # A child inherits which signals its parent blocks or ignores, and other tests of this process may do either.
        fresh = (
            "import signal\n"
            "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})\n"
            "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        )
        process = subprocess.Popen([sys.executable, "-c", fresh + CONNECT], env=environment, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"connecting\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM


@pytest.fixture
def until_end():
    """Yield an exit stack for cleaning up after the test."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.slow
def test_a_missing_token_of_a_cluster_is_explained(tmp_path, until_end):
    """The cluster starts as Ray 2.60 starts it; the client's home folder has no token."""
    ray = Path(sys.executable).with_name("ray")
    token = tmp_path / "token"
    token.write_text("a" * 64)
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    head = {**clean, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    # A folder of its own, with a name short enough for Ray's sockets: there it writes where the cluster is.
    folder = until_end.enter_context(tempfile.TemporaryDirectory(prefix="care-ray-"))
    options = ["--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={folder}"]
    with (tmp_path / "log").open("w") as log:
        cluster = subprocess.Popen([ray, "start", *options], env=head, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: accepts(port), (tmp_path / "log").read_text, 120)
        for more in ({}, {"RAY_AUTH_MODE": "token"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "b" * 64}):
            done = subprocess.run(
                [sys.executable, "-c", CONNECT],
                env={**clean, "HOME": str(tmp_path / "home"), "RAY_ADDRESS": f"127.0.0.1:{port}", **more},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            last = done.stderr.strip().splitlines()[-1]
            assert "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the content" in last, (more, done.stderr)
    finally:
        cluster.terminate()  # which ends the processes that it has started, too
        cluster.wait(60)


def test_an_embedded_ray_joins_no_other_cluster_of_this_machine(monkeypatch):
    """Without an address, Ray would join one, or wait for a killed cluster whose address remains."""
    asked: list[str] = []
    monkeypatch.setattr("ray.init", lambda address, **_: asked.append(address))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    connect()
    for address in ("auto", ""):  # compose passes an empty address if none is set
        monkeypatch.setenv("RAY_ADDRESS", address)
        connect()
    assert asked == ["local", "auto", "local"]
