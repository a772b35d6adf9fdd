"""Tests that API keys appear in no file, page or log after a run.

Keys are in the environment, in judges' files and in a file that a program reads. Endpoints repeat them completely, in
part and encoded: in answers, errors, model names, and responses without JSON.
"""

import base64
import re
import sqlite3
import zlib
from contextlib import closing, suppress

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.endpoints import Vendor, echoing
from tests.support.workspaces import care, make

KEYS = {
    "KEY_OF_A": "sk-proj-Zq7vW2xT9bN4kLp3mR8aYc5D",
    "KEY_OF_B": "AIzaSyH3-kQ_9wLmXr71TbVzPn",
    "KEY_OF_C": "9f1c2b7e-41d8-4c3a-b6e0-7a5d93e1f204",
    "KEY_OF_D": "Ab+/9Qz=Xy7&Lk3 Mn",
    "TEAM_TOKEN": "team.token.55821-QQ",
    "PROGRAMS_API_KEY": "gsk_5tRw8Yh2NcVb6Mj4Kf0PqLz",
}
WRITTEN_OUT, IN_ADDRESS, HOOK = "xai-7Hk2Pw9Rt4Sv6Bn1Md3G", "hf_JqXz5Lw8Ty2Uc7Re4VbN", "T04QK7ZP2/B09XW3RM5/yH6jN8dF1s"
PUBLIC = "sk-proj-"

PROGRAM = """
from pathlib import Path

def program_judge(query, response):
    raise RuntimeError("cannot log in with " + Path({!r}).read_text() + " as " + Path({!r}).read_text()[4:16])
"""


@pytest.fixture
def echo(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with Vendor(echoing) as server:
        yield server


@pytest.fixture
def hook(monkeypatch):
    """Start a webhook with a secret address, which accepts nothing."""
    with Vendor(lambda handler, _: handler.refuse(f"{handler.path} is not there", 404)) as server:
        monkeypatch.setenv("HOOK", f"{server.url}/{HOOK}")
        yield server


def everything(folder):
    """Yield name and text of every file, and of the members of archives."""
    contents = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    for path, content in contents.items():  # whoever opens a database merges the files beside it
        yield path, content.decode("latin-1")
        if path.suffix == ".parquet":
            yield path, repr(pq.ParquetFile(path).read().to_pylist())
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as database:
                for (table,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    yield path, repr(database.execute(f'SELECT * FROM "{table}"').fetchall())
        if content.startswith(b"SQLite format 3"):
            with closing(sqlite3.connect(path)) as database:
                for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    for cell in (cell for row in database.execute(f'SELECT * FROM "{table}"') for cell in row):
                        yield path, cell if isinstance(cell, str) else _unpacked(cell).decode("latin-1")


def _unpacked(cell: object) -> bytes:
    """Return a database value, unpacked if Dagster has compressed it."""
    if not isinstance(cell, bytes):
        return repr(cell).encode()
    with suppress(zlib.error):
        return zlib.decompress(cell)
    return cell


def forms(secret: str) -> set[str]:
    """Return the forms in which a secret may be sent or repeated."""
    whole = secret.encode()
    packed = {base64.b64encode(b"u:" * k + whole).decode().rstrip("=")[-(-8 * k // 3) :] for k in (0, 1, 2)}
    return {secret, secret.upper(), secret.lower(), whole.hex(), *packed}


def planted() -> re.Pattern[str]:
    """Return all substrings of nine characters of all forms of all keys."""
    each = {form for secret in (*KEYS.values(), WRITTEN_OUT, IN_ADDRESS, HOOK) for form in forms(secret)}
    parts = {form[k : k + 9] for form in each for k in range(len(form) - 8)}
    return re.compile("|".join(re.escape(part) for part in sorted(parts) if PUBLIC not in part.lower()))


def test_the_search_for_keys_finds_planted_keys(tmp_path):
    """The search must find plain and compressed keys; otherwise it proves nothing."""
    pq.write_table(pa.table({"raw": ["x " + KEYS["KEY_OF_C"][3:14]]}), tmp_path / "a.parquet")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE t AS SELECT ? AS body", (zlib.compress(f"x{WRITTEN_OUT} {'y' * 99}".encode()),))
        database.commit()
    (tmp_path / "a.log").write_bytes(b"\xff" + base64.b64encode(b"user:" + KEYS["KEY_OF_A"].encode()))
    found = {path.name for path, text in everything(tmp_path) if planted().search(text)}
    assert found == {"a.parquet", "a.db", "a.log"}


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_again")
def test_api_keys_are_not_in_files_runs_or_output(echo, hook, tmp_path, capfd):
    folder = make(tmp_path / "ws", judges=("length", "conciseness"), n=24)
    (folder / "care.yaml").write_text(
        "fit: {resamples: 0}\nreview: {hold: false}\nalerts: {webhook: '${HOOK}', file: alerts.jsonl}\n"
    )
    of_all = f"kind: openai, model: judge-1, template: quality, retries: 0, base_url: '{echo.url}"
    for letter, failing in zip("abcd", (1.0, 0.3, 1.0, 0.3), strict=True):
        (folder / "judges" / f"{letter}.yaml").write_text(
            f"engine: {{{of_all}', api_key_env: KEY_OF_{letter.upper()}, headers: {{X-Token: '${{TEAM_TOKEN}}'}}}}\n"
            f"most_failing: {failing}\n"
        )
    own = (folder / "judges" / "e.yaml", folder / "judges" / "g.yaml")  # where somebody has written a key, it stands
    own[0].write_text(f"engine: {{{of_all}', api_key_env: null, headers: {{Authorization: 'Bearer {WRITTEN_OUT}'}}}}\n")
    own[1].write_text(f"engine: {{{of_all}?api_key={IN_ADDRESS}', api_key_env: null}}\n")
    secret = tmp_path / "secret.txt"
    secret.write_text(KEYS["PROGRAMS_API_KEY"])
    (folder / "leaky.py").write_text(PROGRAM.format(str(secret), str(secret)))
    (folder / "judges" / "f.yaml").write_text(
        "engine: {kind: program, file: leaky.py, unsafe: true}\nmost_failing: 1.0\n"
    )
    printed = [care(folder, "run", "-v", code=1), care(folder, "status"), care(folder, "doctor")]
    printed += [care(folder, "judges", "test", judge, code=1) for judge in ("a", "e", "f", "g")]
    printed += list(capfd.readouterr())
    assert len(echo.bodies) >= 90
    assert hook.bodies, "no alert was sent"
    assert planted().search("".join(printed)) is None
    found = [(path, match[0]) for path, text in everything(folder) if (match := planted().search(text))]
    assert [(path, match) for path, match in found if path not in own] == []
    assert "***" in "".join(text for path, text in everything(folder / "data" / "parts"))
    assert "cannot log in with ***" in "".join(text for path, text in everything(folder / "data" / "parts"))
    assert "judge" in (folder / "alerts.jsonl").read_text()
