"""The next judges' models are fetched in the background, here from a server that answers as the hub does."""

import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("huggingface_hub", reason="install the extra huggingface to ask the hub")

from judges.fetching import fetching_ahead
from judges.ray_cluster import RayConfig
from judges.spec import JudgeSpec, LocalModel, ProgramEngine

SHA = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights" * 100,
    "pytorch_model.bin": b"x",
    "original/a.json": b"{}",
}


class Hub(BaseHTTPRequestHandler):
    """One repository, some/open."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        name = path.partition(f"/some/open/resolve/{SHA}/")[2]
        if name:
            if self.command == "GET":
                self.server.sent.append(name)
            self.answer(FILES[name], {"etag": f'"{len(FILES[name])}"', "x-repo-commit": SHA})
        elif path == f"/api/models/some/open/tree/{SHA}":
            tree = [{"type": "file", "path": path, "size": len(FILES[path]), "oid": "0"} for path in FILES]
            self.answer(json.dumps(tree).encode(), {"content-type": "application/json"})
        else:
            self.answer(b"{}", {"x-error-code": "RepoNotFound"}, 404)

    def do_HEAD(self):
        self.do_GET()

    def answer(self, content, headers, code=200):
        self.send_response(code)
        for header, value in {**headers, "content-length": str(len(content))}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.sent = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        f"http://127.0.0.1:{server.server_address[1]}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
    )
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield server
    server.shutdown()
    server.server_close()


def judge(name: str, model: str) -> JudgeSpec:
    return JudgeSpec(name=name, engine=LocalModel(kind="vllm", model=model, revision=SHA, template="quality"))


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_an_engine_loads_is_fetched_once_and_only_for_judges_that_have_work(hub, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="judges.fetching")
    program = JudgeSpec(name="length", engine=ProgramEngine(program="length"))
    judges = [program, judge("done", "some/other"), judge("missing", "some/typo"), judge("open", "some/open")]
    asked = []

    def has_work(spec):
        asked.append(spec.name)
        return spec.name != "done"

    with fetching_ahead(judges, has_work):
        wait_for(lambda: "some/open is here" in caplog.text)
    assert asked == ["done", "missing", "open"]
    assert "'missing': its model was not fetched ahead (the hub knows no repository" in caplog.text
    kept = {path.name for path in (tmp_path / "cache").glob("models--some--open/snapshots/*/**/*")}
    assert kept == {"config.json", "model.safetensors"}
    before = [name for name in hub.sent if name == "model.safetensors"]
    caplog.clear()
    with fetching_ahead([judge("open", "some/open")], lambda _: True):
        wait_for(lambda: "some/open is here" in caplog.text)
    assert [name for name in hub.sent if name == "model.safetensors"] == before


def test_nothing_is_fetched_ahead_for_a_cluster_or_a_folder(hub, tmp_path, monkeypatch):
    def has_work(spec):
        raise AssertionError(spec.name)

    with fetching_ahead([judge("folder", str(tmp_path))], has_work):
        pass
    with fetching_ahead([judge("open", "some/open")], has_work, RayConfig("127.0.0.1:1")):
        pass
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with fetching_ahead([judge("open", "some/open")], has_work):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "fetching models"]
    assert hub.sent == []
