"""The UI that ``care ui`` serves answers a person's own browser, and no page of somebody else's through it."""

import os
import signal
import subprocess
import sys
import time

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from orchestration.webserver import own_pages
from tests.support.servers import free_port
from tests.support.workspaces import make


async def page(_request):
    return PlainTextResponse("fine")


async def socket_of_the_page(websocket: WebSocket):
    await websocket.accept()
    await websocket.close()


ROUTES = [Route("/graphql", page, methods=["GET", "POST"]), WebSocketRoute("/ws", socket_of_the_page)]
SOCKET = "ws://127.0.0.1:3000/ws"
CLIENT = TestClient(Starlette(routes=ROUTES, middleware=[Middleware(own_pages)]), base_url="http://127.0.0.1:3000")


@pytest.mark.parametrize(
    ("method", "address", "origin", "code"),
    [
        ("POST", "/graphql", None, 200),
        ("POST", "/graphql", "http://127.0.0.1:3000", 200),
        ("GET", "/graphql", None, 200),
        ("POST", "/graphql", "http://evil.example", 403),
        ("POST", "/graphql", "http://127.0.0.1:8000", 403),
        ("POST", "/graphql", "null", 403),
        ("GET", "/graphql?query=mutation{x}", None, 403),
        ("GET", "/graphql?a=1&Query=mutation{x}", None, 403),
    ],
)
def test_who_is_answered(method, address, origin, code):
    assert CLIENT.request(method, address, headers={"origin": origin} if origin else {}).status_code == code


def test_a_foreign_page_gets_no_socket():
    with CLIENT.websocket_connect(SOCKET, headers={"origin": "http://127.0.0.1:3000"}):
        pass
    with (
        pytest.raises(WebSocketDisconnect),
        CLIENT.websocket_connect(SOCKET, headers={"origin": "http://evil.example"}),
    ):
        pass


@pytest.mark.slow
def test_the_ui_refuses_foreign_hosts_and_origins_and_what_is_read_only_launches_nothing(tmp_path):
    folder = make(tmp_path / "ws", n=10)
    port = free_port()
    command = [sys.executable, "-m", "orchestration.cli", "ui", "--workspace", str(folder), "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--read-only"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(f"{address}/server_info", process)
        asked = {"query": "{ permissions { permission value } }"}
        permissions = httpx.post(f"{address}/graphql", json=asked, timeout=30).json()["data"]["permissions"]
        assert permissions
        assert httpx.get(address, timeout=30).headers["x-frame-options"] == "SAMEORIGIN"
        assert not any(entry["value"] for entry in permissions)
        for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            assert httpx.post(f"{address}/graphql", json=asked, headers=headers, timeout=30).status_code in (400, 403)
        assert httpx.get(f"{address}/graphql", params=asked, timeout=30).status_code == 403
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _wait_for(address: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None
        try:
            if httpx.get(address, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError("the UI does not answer")
