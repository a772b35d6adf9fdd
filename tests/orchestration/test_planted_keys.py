"""Keys of several forms at endpoints that repeat them: none is found anywhere afterwards, whole or in part."""

import base64
import re

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.support.endpoints import Vendor, echoing
from tests.support.workspaces import care, make

KEYS = {
    "KEY_OF_A": "sk-proj-Zq7vW2xT9bN4kLp3mR8aYc5D",
    "KEY_OF_B": "AIzaSyH3-kQ_9wLmXr71TbVzPn",
    "KEY_OF_C": "9f1c2b7e-41d8-4c3a-b6e0-7a5d93e1f204",
    "KEY_OF_D": "Ab+/9Qz=Xy7&Lk3 Mn",
}
TOKEN = "team.token.55821-QQ"
PUBLIC = "sk-proj-"


@pytest.fixture
def echo(monkeypatch):
    for name, value in {**KEYS, "TEAM_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, value)
    with Vendor(echoing) as server:
        yield server


def everything(folder):
    """Name and text of every file, also of what is packed within."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        yield path, path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            yield path, repr(pq.ParquetFile(path).read().to_pylist())
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as database:
                for (table,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    yield path, repr(database.execute(f'SELECT * FROM "{table}"').fetchall())


@pytest.mark.slow
def test_keys_are_nowhere_in_the_workspace_the_runs_or_the_output(echo, tmp_path, capfd):
    folder = make(tmp_path / "ws", judges=("length",), n=24)
    for letter, failing in zip("abcd", (1.0, 0.3, 1.0, 0.3), strict=True):
        (folder / "judges" / f"{letter}.yaml").write_text(
            f"engine: {{kind: openai, base_url: '{echo.url}', model: judge-1, template: quality, retries: 0, "
            f"api_key_env: KEY_OF_{letter.upper()}, headers: {{X-Token: '${{TEAM_TOKEN}}'}}}}\n"
            f"most_failing: {failing}\n"
        )
    said = care(folder, "run", code=1) + care(folder, "status") + care(folder, "judges", "test", "a", code=1)
    out, err = capfd.readouterr()
    assert len(echo.bodies) >= 60
    secrets = [
        form
        for secret in (*KEYS.values(), TOKEN)
        for form in (secret, secret.upper(), secret.lower(), base64.b64encode(secret.encode()).decode().rstrip("="))
    ]
    parts = {s[k : k + 9] for s in secrets for k in range(len(s) - 8) if PUBLIC not in s[k : k + 9].lower()}
    planted = re.compile("|".join(map(re.escape, sorted(parts))))
    found = [(path, match[0]) for path, text in everything(folder) if (match := planted.search(text))]
    assert found == []
    assert planted.search(said + out + err) is None
    assert "***" in "".join(text for path, text in everything(folder / "data" / "parts"))
