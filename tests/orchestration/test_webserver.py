"""Tests that the UI of ``care ui`` answers the user's browser and refuses other sites."""

import base64
import json
import socket
from urllib.parse import quote

import httpx
import pytest

from tests.support.servers import dagster_webserver
from tests.support.workspaces import make

CHANGE = 'mutation{setConcurrencyLimit(concurrencyKey:"x",limit:3)}'
"""Change of the instance that needs no workspace."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    words = ["orchestration.webserver", "--empty-workspace", "-h", "127.0.0.1", "-p"]
    with dagster_webserver(words, home / "log", DAGSTER_HOME=str(home)) as address:
        yield int(address.rpartition(":")[2])


def _raw(port: int, method: str, target: str, headers: list[tuple[str, str]], body: str = "") -> int:
    """Send a request byte for byte, and return the status code."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {text}" for name, text in headers)]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        return int(connection.recv(64).split()[1])


def _is_changed(port: int) -> bool:
    asked = {"query": "{instance{concurrencyLimits{concurrencyKey}}}"}
    answer = httpx.post(f"http://127.0.0.1:{port}/graphql", json=asked, timeout=30).json()
    return bool(answer["data"]["instance"]["concurrencyLimits"])


JSON = ("Content-Type", "application/json")
ANY = ("Accept", "image/avif,*/*")
FOREIGN = ("Sec-Fetch-Site", "cross-site")
UPGRADE = [
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Protocol", "graphql-ws"),
    ("Sec-WebSocket-Key", base64.b64encode(bytes(16)).decode()),
]
QUERY = quote(CHANGE)


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", f"/graphql?query={QUERY}", [ANY]),
        ("GET", f"/graphql?%71uery={QUERY}", [ANY]),
        ("GET", f"/graphql?%71uery={QUERY}", [ANY, FOREIGN]),
        ("GET", f"/%67raphql?%71uery={QUERY}", [ANY]),
        ("GET", f"/graphql?a=1&query={QUERY}", [("Accept", "text/html")]),
        ("HEAD", f"/graphql?%71uery={QUERY}", [ANY]),
        ("OPTIONS", "/graphql", [("Origin", "http://evil.example")]),
        ("POST", f"/graphql?query={QUERY}", []),
        ("POST", f"/graphql?query={QUERY}", [("Content-Type", "text/plain")]),
        ("POST", f"/graphql?query={QUERY}", [("Content-Type", "application/x-www-form-urlencoded")]),
        ("POST", "/graphql", [("Content-Type", "application/graphql")]),
        ("POST", "/graphql", [("Content-Type", "text/plain; application/json")]),
        ("POST", "/graphql", [("Content-Type", "text/plain"), JSON]),
        ("POST", "/graphql", [JSON, FOREIGN]),
        ("POST", "/graphql", [JSON, ("Sec-Fetch-Site", "same-site")]),
        ("POST", "/graphql", [JSON, ("Sec-Fetch-Site", "same-origin"), FOREIGN]),
        ("POST", "/graphql", [JSON, ("Origin", "http://evil.example")]),
        ("POST", "/graphql", [JSON, ("Origin", "http://127.0.0.1:1")]),
        ("POST", "/graphql", [JSON, ("Origin", "null")]),
        ("POST", "/graphql", [JSON, ("Host", "evil.example")]),
        ("POST", "/report_asset_materialization/items", [("Content-Type", "text/plain")]),
        ("GET", "/graphql", [*UPGRADE, ("Origin", "http://evil.example")]),
        ("GET", "/graphql", [*UPGRADE, FOREIGN]),
        ("GET", "/server_info", [FOREIGN]),
    ],
)
def test_requests_of_foreign_pages_are_rejected(server, method, target, headers):
    if not any(name == "Host" for name, _ in headers):
        headers = [("Host", f"127.0.0.1:{server}"), *headers]
    body = CHANGE if ("Content-Type", "application/graphql") in headers else json.dumps({"query": CHANGE})
    assert _raw(server, method, target, headers, body if method == "POST" else "") in (400, 403)
    assert not _is_changed(server)


def test_a_request_with_two_hosts_is_rejected(server):
    both = [("Host", f"127.0.0.1:{server}"), ("Host", "evil.example"), JSON]
    assert _raw(server, "POST", "/graphql", both, json.dumps({"query": CHANGE})) in (400, 403)
    assert not _is_changed(server)


def test_requests_of_the_servers_own_pages_are_answered(server):
    own = [("Host", f"127.0.0.1:{server}"), ("Origin", f"http://127.0.0.1:{server}"), ("Sec-Fetch-Site", "same-origin")]
    asked = json.dumps({"query": CHANGE})
    assert _raw(server, "POST", "/graphql", [*own, ("Content-Type", "application/json; charset=utf-8")], asked) == 200
    assert _is_changed(server)
    undone = json.dumps({"query": CHANGE.replace("set", "delete").replace(",limit:3", "")})
    assert _raw(server, "POST", "/graphql", [own[0], JSON], undone) == 200  # as a program sends it
    assert not _is_changed(server)
    assert _raw(server, "GET", "/graphql", [*own, *UPGRADE]) == 101
    assert _raw(server, "GET", "/graphql", [own[0], ("Accept", "text/html"), ("Sec-Fetch-Site", "none")]) == 200
    # a link in a mail
    assert _raw(server, "GET", "/runs", [own[0], FOREIGN, ("Sec-Fetch-Dest", "document")]) == 200
    assert httpx.get(f"http://127.0.0.1:{server}/", timeout=30).headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.slow
def test_read_only_care_ui_permits_no_change_and_rejects_foreign_requests(tmp_path):
    folder = make(tmp_path / "ws", n=10)
    words = ["orchestration.cli", "ui", "--workspace", str(folder), "--read-only", "--port"]
    with dagster_webserver(words, tmp_path / "log", DAGSTER_HOME=str(tmp_path)) as ui:
        address = f"{ui}/graphql"
        asked = {"query": "{ permissions { permission value } }"}
        permissions = httpx.post(address, json=asked, timeout=30).json()["data"]["permissions"]
        assert permissions
        assert not any(entry["value"] for entry in permissions)
        assert httpx.get(address, params=asked, timeout=30).status_code == 403
        assert httpx.post(address, json=asked, headers={"host": "evil.example"}, timeout=30).status_code == 400
