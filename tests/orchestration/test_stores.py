"""Tests of workspaces with data in an S3 store: the same results, also if connections are cut."""

import http.client
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from care_ops.errors import WarehouseError
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.locks import PATIENCE, exclusive_lock
from orchestration.runner import run_stale
from orchestration.stores import read_workspace
from orchestration.workspace import load_workspace
from tests.support.servers import LocalServer, QuietHandler, accepts, free_port, started, wait_until
from tests.support.workspaces import QUICK, care, make, query, score_rows
from warehouse.remote.copy import StoreCopy
from warehouse.remote.objects import Objects

BUCKET = "bucket"
SECRET = "a-key-that-is-written-nowhere"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
ESTIMATES = "SELECT aggregator, item_id, round(estimate, 9) FROM latest_aggregates ORDER BY ALL"
JUDGES = ("length", "conciseness", "thoroughness")
pytestmark = pytest.mark.slow


def environment(port: int) -> dict[str, str]:
    """Return the environment variables of a store at a port of this machine."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


@contextmanager
def s3_server(log: Path, variables: dict[str, str] | None = None) -> Generator[int]:
    """Start an S3 server with an empty bucket in another process, and yield its port."""
    port = free_port()
    with started([sys.executable, "-m", "moto.server", "-p", str(port)], log, **(variables or {})):
        wait_until(lambda: accepts(port), log.read_text)
        _make_bucket(port)
        yield port


def _make_bucket(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", f"/{BUCKET}")
    connection.getresponse().read()
    connection.close()


class CuttingProxy(LocalServer):
    """Passes requests on to a port of this machine, and cuts those that ``cut(method, path)`` names in their middle.

    Attributes
    ----------
    cut : callable
        Whether to cut a request; by default none.
    count : int
        How many requests were cut.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.cut: Callable[[str, str], bool] = lambda method, path: False
        self.count = 0
        super().__init__(_Passing)

    @property
    def port(self) -> int:
        return self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that is cut off cuts its other connections too."""


class _Passing(QuietHandler, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CuttingProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        is_cut = self.server.cut(self.command, self.path)
        self.server.count += is_cut
        if is_cut and body:  # half of what is sent arrives
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders()
            upstream.send(body[: len(body) // 2])
            upstream.close()
            self._hang_up()
            return
        upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("content-length") if self.command == "HEAD" else len(content)
        self.send_header("content-length", str(length or 0))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if is_cut else content)
        if is_cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - as the library calls them


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> int:
    """Yield the port of an S3 server that runs until the end of this test process."""
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as port:
        yield port


@pytest.fixture
def proxy(server, monkeypatch) -> CuttingProxy:
    """Yield a proxy to the server, which this process then uses."""
    with CuttingProxy(server) as proxy:
        for name, value in environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def address(request) -> str:
    """Return a store address of this test."""
    return f"s3://{BUCKET}/{request.node.name.replace('[', '/').replace(']', '')}"


@pytest.fixture
def workspace(tmp_path, address, proxy) -> Callable[[str], Path]:
    """Return ``workspace(name)``: a folder with care.yaml, judges and sources, for a machine of this name."""
    return lambda name: make(tmp_path / name, JUDGES, care=f"data: {address}\n{QUICK}")


def objects_of(address: str) -> dict[str, bytes]:
    objects = Objects(address)
    contents = {key: objects.get(key) for key in objects.list()}
    return {key: content[0] for key, content in contents.items() if content is not None}


def kept_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a data folder that a store has."""
    data = folder / "data"
    every = (path for name in ("parts", "fits", "report", "experiments") for path in (data / name).rglob("*"))
    return {path.relative_to(data).as_posix(): path.read_bytes() for path in every if path.is_file()}


def without_ids(names) -> list[str]:
    """Return file names without time-dependent ids and without bills, which may differ."""
    return sorted(name.partition("fit_version=")[0] for name in names if not name.startswith("parts/bills/"))


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory) -> Path:
    """Run the same workspace with its data in a folder."""
    folder = make(tmp_path_factory.mktemp("disk") / "ws", JUDGES)
    assert "materialised" in care(folder, "run")
    return folder


def test_a_run_writes_to_the_store_and_another_machine_has_nothing_to_do(workspace, address, on_disk):
    first = workspace("first")
    care(first, "run")
    stored = objects_of(address)
    assert stored == kept_files(first), "the store and the folder have the same files, byte for byte"
    everything = [path.read_bytes() for path in first.rglob("*") if path.is_file()] + list(stored.values())
    assert not [content for content in everything if SECRET.encode() in content]
    expected = kept_files(on_disk)
    assert without_ids(stored) == without_ids(expected)
    items = "parts/items/testset=one/items.parquet"
    assert stored[items] == expected[items]
    moments = "fits/testset=one/moments.arrays"
    assert stored[moments] == expected[moments]
    assert query(first, ESTIMATES) == query(on_disk, ESTIMATES)
    second = workspace("second")
    assert "nothing to do" in care(second, "run")
    assert score_rows(second) == score_rows(first), "no judge was asked"
    assert query(second, ESTIMATES) == query(first, ESTIMATES)
    assert objects_of(address) == stored == kept_files(second)
    third = workspace("third")
    assert "40 / 40" in care(third, "status")
    assert "the first" in care(third, "fits", "list", "one")
    assert (third / "data" / "report" / "index.html").exists(), "a command that only looks fetches too"
    assert "no process writes to it" in " ".join(care(third, "doctor").split())
    file = third.with_name("mine.tar")
    care(third, "admin", "backup", str(file))
    restored = third.with_name("restored")
    restored.mkdir()
    subprocess.run(["tar", "-xf", str(file), "-C", str(restored)], check=True)
    assert "contain different files" in " ".join(care(restored, "status", code=2).split())


def test_a_lost_connection_while_writing_fails_one_command(workspace, address, proxy, on_disk):
    here = workspace("here")
    for named in ("/parts/scores/", "/fit_version%3D", "/report/testset-"):
        proxy.cut = lambda method, path, named=named: method in ("PUT", "POST") and named in path
        before = proxy.count
        output = care(here, "run", code=1)
        assert proxy.count > before
        assert "then run the same command again to continue" in " ".join(output.split())
        assert "Traceback" not in output
        assert not [name for name in objects_of(address) if named.replace("%3D", "=") in f"/{name}"]
    proxy.cut = lambda method, path: False
    assert "materialised" in care(here, "run")
    must_be_as_undisturbed(here, address, on_disk)
    assert "nothing to do" in care(here, "run")


def must_be_as_undisturbed(here, address, on_disk):
    assert objects_of(address) == kept_files(here)
    assert without_ids(kept_files(here)) == without_ids(kept_files(on_disk))
    assert sorted(score_rows(here)) == sorted(score_rows(on_disk)), "each item was asked about once"
    assert query(here, ESTIMATES) == query(on_disk, ESTIMATES)


def test_the_next_command_completes_a_killed_write_to_the_store(workspace, address, proxy, on_disk):
    here = workspace("here")
    for point in (3, 20, 20):
        process = subprocess.Popen([sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(here)])
        written = itertools.count(1)

        def kill(method: str, path: str, process=process, written=written, point=point) -> bool:
            if method != "PUT" or next(written) != point:
                return False
            process.kill()
            return True

        proxy.cut = kill
        assert process.wait() == -signal.SIGKILL
    proxy.cut = lambda method, path: False
    assert "materialised" in care(here, "run")
    must_be_as_undisturbed(here, address, on_disk)


def test_a_lost_connection_while_reading_fails_one_command(workspace, address, proxy):
    first = workspace("first")
    care(first, "run")
    second = workspace("second")
    proxy.cut = lambda method, path: method == "GET" and "/parts/scores/" in path
    assert "could not read parts/scores/" in care(second, "run", code=1)
    assert not list((second / "data" / "parts" / "scores").rglob("*.parquet"))
    proxy.cut = lambda method, path: False
    assert "nothing to do" in care(second, "run")
    assert kept_files(second) == kept_files(first)


def test_forget_and_gc_delete_in_the_store(workspace, address):
    here, there = workspace("here"), workspace("there")
    care(here, "run")
    care(there, "run")
    care(here, "admin", "forget", "i3", "--testset", "one")
    stored = objects_of(address)
    assert stored == kept_files(here) | {"forgotten.jsonl": (here / "data" / "forgotten.jsonl").read_bytes()}
    assert not [name for name in stored if name.endswith(".html")]
    assert "materialised" in care(there, "run")
    assert "i3" not in {row[0] for row in query(there, "SELECT item_id FROM items")}
    assert not any(b'"i3"' in content for content in objects_of(address).values())
    (there / "judges" / "length.yaml").unlink()
    output = care(there, "admin", "gc", "--yes", "--days", "0")
    assert "no longer in the workspace" in " ".join(output.split())
    assert not [name for name in objects_of(address) if "judge=length" in name]


def test_a_fit_published_on_another_machine_is_in_the_local_database(workspace, monkeypatch):
    here, there = workspace("here"), workspace("there")
    care(here, "run")
    for folder in (here, there):
        (folder / "judges" / "redundancy.yaml").write_text("engine: {kind: program, program: redundancy}\n")
    assert "materialised" in care(here, "run")
    assert "nothing to do" in care(there, "run")
    assert sorted(score_rows(there)) == sorted(score_rows(here)), "nobody was asked twice"
    later = query(here, ESTIMATES)
    assert query(there, ESTIMATES) == later
    care(there, "fits", "rollback", "one", "--why", "the first was better")
    earlier = query(there, ESTIMATES)
    assert earlier != later

    def killed(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("assets.state.rebuild.rebuild_warehouse", killed)
    with pytest.raises(KeyboardInterrupt):
        read_workspace(here)
    assert query(here, ESTIMATES) == later, "the files have come, and the database is still behind"
    monkeypatch.undo()
    assert "pinned" in care(here, "fits", "list", "one")
    assert query(here, ESTIMATES) == earlier
    rebuilt = (here / "data" / "care.duckdb").stat().st_mtime_ns
    care(here, "fits", "list", "one")
    assert (here / "data" / "care.duckdb").stat().st_mtime_ns == rebuilt, "and it is not made again"


def test_an_unreachable_store_is_one_message(tmp_path, server, monkeypatch):
    monkeypatch.setattr("warehouse.remote.objects._RETRIES", 1)
    here = make(tmp_path / "here", JUDGES, care=f"data: s3://{BUCKET}/a\n{QUICK}")
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    assert "the store cannot be reached, or the connection was cut" in one_sentence(care(here, "run", code=1))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server}")
    (here / "care.yaml").write_text(f"data: s3://no-such-bucket/a\n{QUICK}")
    assert "the bucket does not exist; create it" in one_sentence(care(here, "status", code=1))
    with s3_server(tmp_path / "log", {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "1"}) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        (here / "care.yaml").write_text(f"data: s3://{BUCKET}/a\n{QUICK}")
        assert "the store refuses the credentials of this process" in one_sentence(care(here, "admin", "gc", code=1))


def test_requests_to_a_silent_store_time_out(tmp_path, monkeypatch):
    monkeypatch.setattr("warehouse.remote.objects._RETRIES", 0)
    monkeypatch.setattr("warehouse.remote.objects._READ_TIMEOUT_S", 1)
    here = make(tmp_path / "here", JUDGES, care=f"data: s3://{BUCKET}/a\n{QUICK}")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name, value in environment(silent.getsockname()[1]).items():
            monkeypatch.setenv(name, value)
        began = time.monotonic()
        assert "the store cannot be reached" in one_sentence(care(here, "status", code=1))
        assert time.monotonic() - began < 30


def one_sentence(output: str) -> str:
    """Return a command's output if it is one sentence with a next step."""
    text = " ".join(output.split())
    assert text.startswith("error: s3://")
    assert "Traceback" not in text
    assert text.endswith("then run the same command again to continue"), text
    return text


def test_only_one_machine_works_at_a_time(workspace, address, monkeypatch):
    here, there = workspace("here"), workspace("there")
    monkeypatch.setenv(PATIENCE, "0")
    with exclusive_lock(load_workspace(here), "care run"):
        output = care(there, "admin", "gc", code=1)
        assert "`care run` on " in output
        assert f"is using {address}" in " ".join(output.split())
    assert "nothing to delete" in care(there, "admin", "gc")


def test_only_one_of_eight_machines_gets_the_lease(tmp_path, address, proxy):
    start, inside, most = threading.Barrier(8), [], []

    def work(number: int) -> None:
        copy = StoreCopy(tmp_path / str(number), address)
        start.wait()
        with suppress(WarehouseError), copy.writing(f"machine {number}", print, 0.0, lambda: None):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.5)
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most
    assert max(most) == 1


def test_runs_that_share_the_workspace_write_through(workspace, address, monkeypatch):
    here = workspace("here")
    loaded = load_workspace(here)
    monkeypatch.setattr("orchestration.runner.build_defs", lambda root, _: build_defs(root))
    with workspace_instance(loaded) as instance:
        outcome = run_stale(loaded, instance)
    assert not outcome.failures
    assert outcome.materialised
    assert objects_of(address) == kept_files(here)
