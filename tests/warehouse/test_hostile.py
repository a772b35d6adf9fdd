"""Tests of the fuzzer's findings in readers of files and importers, each as small as possible."""

from __future__ import annotations

import csv
import io
import json
import os
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from care_ops.errors import CareError, InputError
from tests.support.fuzz_targets import TARGETS, try_case
from tests.support.wild_files import workbook
from warehouse.importers.registry import read_import
from warehouse.sources.files import read_items, read_scores
from warehouse.sources.tables import read_input_table
from warehouse.spreadsheets import as_meant, csv_of, write_file
from warehouse.testsets import ReadingOptions

ROOT = Path(__file__).parents[2]


def refusal(source: object, read=read_scores) -> str:
    with pytest.raises(CareError) as refused:
        read(source)
    message = str(refused.value)
    assert len(message) <= 400, message
    assert message.isprintable(), message
    return message


def write(folder: Path, name: str, content: str | bytes) -> Path:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return folder / name


FOUND = [("file", 101), ("file", 24), ("frame", 24), ("importer", 0), ("program", 23), ("labels", 5), ("call", 3)]
FOUND += [("batch", case) for case in (1, 2, 9, 16, 132, 305)]
AGAIN = [("part", 45, 3507), ("declared", 45, 4533), ("declared", 45, 1421)]
"""Targets, seeds (0 for ``FOUND``) and numbers of cases that were findings in earlier releases."""


@pytest.mark.parametrize(("target", "seed", "case"), [*((target, 0, case) for target, case in FOUND), *AGAIN])
def test_earlier_findings_end_in_a_value_or_a_sentence(target, seed, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert try_case(target, seed, case, tmp_path) in ("fine", "refused")


def test_every_target_accepts_a_case_and_refuses_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for target in set(TARGETS) - {"command", "program", "answer", "query"}:
        ended = set()
        for case in range(60):
            (tmp_path / f"{target}{case}").mkdir()
            ended.add(try_case(target, 1, case, tmp_path / f"{target}{case}"))
            if len(ended) == 2:
                break
        assert ended == {"fine", "refused"}, target


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_any_json_is_a_log_or_is_refused(tmp_path, document):
    for kind in ("promptfoo", "deepeval", "alpaca_eval", "inspect_ai"):
        path = write(tmp_path, ".latest_run.json", json.dumps(document))
        refusal(path, lambda path, kind=kind: read_import(kind, path))


def test_one_cell_far_away_asks_for_no_memory(tmp_path):
    sound = workbook({"s": [["item_id", "a", "b"], ["x", 1, 2], ["y", 2, 3]]})
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sound)) as archive, zipfile.ZipFile(out, "w") as changed:
        for name in archive.namelist():
            changed.writestr(name, archive.read(name).replace(b"C3", b"XFD1048576"))
    assert read_scores(write(tmp_path, "sound.xlsx", sound)).scores.values.tolist() == [[1, 2], [2, 3]]
    assert "needs more than 4 GB or 300 s" in refusal(write(tmp_path, "stray.xlsx", out.getvalue()))


def test_an_arrow_table_whose_offsets_lead_out_of_it_is_refused():
    """Reading beyond the buffers would end the process."""
    table = pa.table({"item_id": ["x", "y"], "a": [1.0, 2.0], "b": [2.0, 1.0]})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    sound, offsets = sink.getvalue(), b"\0\0\0\0\1\0\0\0\2\0\0\0"
    assert sound.count(offsets) == 1
    spoilt = io.BytesIO(sound.replace(offsets, offsets[:8] + b"\0\0\0\x67"))
    assert "offsets" in refusal(pa.ipc.open_file(spoilt).read_all())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
def test_a_hexadecimal_text_is_no_number_and_a_formula_is_as_it_was_meant(encoding, tmp_path):
    options = ReadingOptions(encoding=encoding)

    def written(name: str, text: str) -> Path:
        return write(tmp_path, name, text.encode(encoding))

    assert "0x1f" in refusal(
        written("s.csv", "item_id,a,b\nx,0x1f,2\ny,3,4\n"), lambda path: read_scores(path, options=options)
    )
    named = written("t.csv", "item_id,a,b\n0x1f,1,2\n'=x,3,4\n")
    assert read_scores(named, options=options).scores.item_ids == ("0x1f", "=x")


def test_reading_takes_time_in_proportion_to_the_columns():
    def seconds(judges: int) -> float:
        values = {f"k{k}": np.arange(12) % (k % 7 + 2) for k in range(judges)}
        table = pa.table({"item_id": [f"i{k}" for k in range(12)], **values})
        began = time.process_time()
        assert len(read_scores(table).scores.judges) == judges
        return time.process_time() - began

    seconds(10)
    many, few = (min(seconds(judges) for _ in range(2)) for judges in (2400, 600))  # one may wait for the collector
    assert many < 8 * few


def test_objects_with_a_key_each_ask_for_no_square_of_cells(tmp_path):
    lines = "".join(json.dumps({"item_id": f"i{k}", f"k{k}": 1}) + "\n" for k in range(5000))
    assert "only a few keys; write a long table" in refusal(write(tmp_path, "s.jsonl", lines))


def test_a_small_file_of_many_equal_rows_is_refused_before_it_takes_memory(tmp_path):
    rows, path = 70_000_000, tmp_path / "scores.parquet"
    table = pa.table({"item_id": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["x"])})
    pq.write_table(table, path, compression="zstd", row_group_size=rows)
    assert path.stat().st_size < 200_000
    assert "unpack to" in refusal(path)


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("us", "Nowhere/Land"), pa.duration("s"), pa.date64()]
)
def test_dates_outside_the_calendar_are_refused(kind):
    table = pa.table({"item_id": ["x"], "response": ["y"], "when": pa.array([2**62], pa.int64()).view(kind)})
    refusal(table, read_items)


@pytest.fixture
def queried(tmp_path, monkeypatch):
    """Create a folder with a table and links to other folders, and forbidden files; HOME is above both."""
    folder = tmp_path / "home, of 'a' query"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    secret = write(tmp_path / "outside", "secret.csv", "item_id,a\nSECRET,1\n")
    for name in ("a.csv", "below/a.csv"):
        write(folder, name, "item_id,a,b\nx,1,2\ny,2,3\n")
    (folder / "link.csv").symlink_to(secret)
    (folder / "elsewhere").symlink_to(secret.parent)
    (tmp_path / "below").symlink_to(secret.parent)
    monkeypatch.chdir(secret.parent)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLANTED", "SECRET")
    return folder


ALLOWED = ["read_csv('below/*.csv')", "(WITH t AS (FROM 'FOLDER/a.csv') FROM t)"]
ALLOWED_TOO = ["'a.csv'", "'./below/../a.csv'", "read_csv('file://FOLDER/' || 'a.csv')"]
REFUSED = """
read_text('file://OUT/secret.csv')
read_text('~/outside/secret.csv')
read_text('link.csv')
read_text(['a.csv', 'elsewhere/secret.csv'])
read_blob('file:///proc/self/environ')
(SELECT getenv('PLANTED') AS item_id)
read_csv('http://127.0.0.1:9/a.csv')
query('FROM read_text(''OUT/secret.csv'')')
"""
REFUSED_TOO = """
'secret.csv'
read_text('file://localhostOUT/secret.csv')
glob('~/*')
glob('elsewhere/*')
read_csv('*.csv')
read_text('../below/secret.csv')
read_text(chr(47) || 'proc/PID/environ')
sniff_csv('OUT/secret.csv')
query
"""
"""Other ways to the same files; each query is a process."""


def fast_and_slow(fast: list[str], slow: list[str]) -> list:
    return [*fast, *(pytest.param(one, marks=pytest.mark.slow) for one in slow)]


@pytest.mark.parametrize("table", fast_and_slow(ALLOWED, ALLOWED_TOO))
def test_a_query_reads_the_files_in_its_own_folder_and_below(table, queried):
    table = table.replace("FOLDER", str(queried).replace("'", "''"))
    assert read_scores(write(queried, "q.sql", f"SELECT * FROM {table}")).scores.item_ids == ("x", "y")


@pytest.mark.parametrize("table", fast_and_slow(REFUSED.strip().splitlines(), REFUSED_TOO.strip().splitlines()))
def test_a_query_reads_no_other_file_however_it_is_named(table, queried):
    places = {"OUT": queried.parent / "outside", "FOLDER": str(queried).replace("'", "''"), "PID": os.getpid()}
    for name, place in places.items():
        table = table.replace(name, str(place))
    message = refusal(write(queried, "q.sql", f"SELECT * FROM {table}"), read_input_table)
    assert "the query fails" in message or "the table is empty" in message
    assert "SECRET" not in message


@pytest.mark.parametrize(
    "statement",
    fast_and_slow(
        [
            "SELECT 1; SELECT 2",
            "COPY (SELECT 1) TO 'out.csv'",
            "SET enable_external_access = true; FROM '/etc/hostname'",
        ],
        [
            *("SET threads = 1", "LOAD httpfs", "INSTALL httpfs", "ATTACH 'x.db'", "EXPORT DATABASE 'x'", "-- none"),
            "SET home_directory = '/'; SELECT * FROM '~/etc/hostname'",
        ],
    ),
)
def test_a_query_is_one_select_and_writes_nothing(statement, queried):
    before = sorted(queried.rglob("*"))
    assert "write one SELECT" in refusal(write(queried, "q.sql", statement))
    assert sorted(queried.rglob("*")) == sorted([*before, queried / "q.sql"])


def test_an_importer_names_the_file_that_is_at_fault(tmp_path):
    write(tmp_path, "a.json", json.dumps({"results": {"results": [{"testCase": "no mapping"}]}}))
    message = refusal(tmp_path, lambda path: read_import("promptfoo", path))
    assert "a.json" in message
    assert "promptfoo" in message


def test_half_a_surrogate_pair_is_replaced_and_the_rest_is_kept(tmp_path):
    answer = {"instruction": "a\ud800b", "output_1": "x", "output_2": "y", "annotator": "j", "preference": 1}
    imported = read_import("alpaca_eval", write(tmp_path, "annotations.json", json.dumps([answer])))
    assert imported.item_table().column("prompt").to_pylist() == ["a\ufffdb"]


def test_an_archive_that_unpacks_to_many_times_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("warehouse.sources.bounds._SMALL", 2**20)
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/a.json", b" " * (8 << 20))
    assert "unpack to" in refusal(tmp_path / "log.eval", lambda path: read_import("inspect_ai", path))


CELLS = ["=1+1", "+x", "-x", "@x", "\tx", "'=x", "-5", "+.5e3", "plain", "", "- a list\n- of two", "''"]


def test_no_cell_of_an_export_is_a_formula_and_all_come_back(tmp_path):
    table = pa.table({"item_id": [f"i{k}" for k in range(len(CELLS))], "response": CELLS, "n": [-1.5] * len(CELLS)})
    write_file(table, tmp_path / "items.csv")
    written = list(csv.DictReader(io.StringIO((tmp_path / "items.csv").read_text(), newline="")))
    for row, cell in zip(written, CELLS, strict=True):
        assert row["n"] == "-1.5"
        assert row["response"] == cell if cell in ("-5", "+.5e3", "plain", "", "''") else row["response"] == "'" + cell
    assert [record.response or "" for record in read_items(tmp_path / "items.csv")] == CELLS
    assert [as_meant(row["response"]) for row in written] == CELLS


def test_headings_are_cells_too():
    assert csv_of(["=x"], [["=y"]]) == b"'=x\n'=y\n"


def test_a_message_has_neither_escape_sequences_nor_more_than_four_hundred_characters(tmp_path):
    names = ",".join(f"\x1b[2J{k}" + "x" * 300 for k in range(20))
    message = refusal(write(tmp_path, "s.csv", f"{names}\n{','.join('1' * 20)}\n"))
    assert message.startswith(str(tmp_path))


def test_a_missing_extra_stays_what_it_is(tmp_path, monkeypatch):
    """A missing package is not an error of the file."""
    monkeypatch.setattr("warehouse.importers.registry.IMPORTERS", {"deepeval": lambda *_: __import__("no_such_module")})
    with pytest.raises(ModuleNotFoundError):
        read_import("deepeval", tmp_path)
    with pytest.raises(InputError, match="CARE has no import"):
        read_import("nothing", tmp_path)
