"""Tests of a file that is written, damaged and read: changed content is never accepted."""

import logging
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from care_ops.errors import WarehouseError
from warehouse.artifacts import FitFolder
from warehouse.database import Warehouse
from warehouse.fits import FitStore, FitVersion, FitVersionInputs, Publication
from warehouse.items import ItemRecord
from warehouse.parts import Attempts, PartStore
from warehouse.storage import (
    DamagedError,
    delete_folder,
    is_settled,
    leftovers,
    noted,
    notes_below,
    notes_in,
    quarantine,
    read_document,
    read_lines,
    read_table,
    readable_lines,
    replacing,
    scan_table,
    write_bytes,
    write_document,
    write_lines,
    write_table,
)

TABLE = pa.table({"name": ["a", "b", "c"], "value": [1.5, None, 2.5]}).replace_schema_metadata({"fit": '{"weight": 7}'})
DOCUMENT = {"b": [1, 2.5, None], "a": {"nested": "text"}}
FORMATS = {
    "table": (lambda path: write_table(path, TABLE), read_table),
    "document": (lambda path: write_document(path, DOCUMENT), read_document),
    "lines": (lambda path: write_lines(path, [DOCUMENT, {"c": 1}]), read_lines),
}


def as_plain(value):
    """Return a value that can be compared with ``==``."""
    if isinstance(value, pa.Table):
        return value.to_pydict(), value.schema.metadata
    return value


@pytest.fixture(params=FORMATS)
def written(request, tmp_path):
    """Write a file of each format, and return it with its reader."""
    write, read = FORMATS[request.param]
    path = tmp_path / "file"
    write(path)
    return path, read


def test_what_was_written_is_read(tmp_path):
    for name, (write, read) in FORMATS.items():
        write(tmp_path / name)
        assert as_plain(read(tmp_path / name)) is not None
    assert read_table(tmp_path / "table").equals(TABLE, check_metadata=True)
    assert read_document(tmp_path / "document") == DOCUMENT
    assert list(read_document(tmp_path / "document")) == list(DOCUMENT)  # in the order of writing
    assert read_lines(tmp_path / "lines") == [DOCUMENT, {"c": 1}]


def test_a_flipped_bit_is_found_or_changes_nothing(written):
    """One bit of each byte is flipped; the reader must never return other content."""
    path, read = written
    content, wanted = path.read_bytes(), as_plain(read(path))
    chance, found = random.Random(7), 0
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :])
        try:
            assert as_plain(read(path)) == wanted, f"byte {at}"
        except DamagedError:
            found += 1
    assert found > len(content) / 3


def test_no_truncated_file_is_read(written):
    path, read = written
    content = path.read_bytes()
    whole_lines = {i + 1 for i, byte in enumerate(content) if byte == ord("\n")} if read is read_lines else set()
    for length in range(len(content) - (read in (read_lines, read_document))):
        path.write_bytes(content[:length])
        if length not in whole_lines and length + 1 not in whole_lines:
            with pytest.raises(DamagedError):
                read(path)


def test_a_missing_file_is_no_damaged_file(written):
    path, read = written
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(path)
    path.mkdir()
    with pytest.raises(DamagedError, match="folder in place of the file"):
        read(path)


def test_what_the_system_refuses_is_not_damage(written, monkeypatch):
    path, read = written
    path.unlink()
    path.symlink_to(path)  # a loop, which root may not read either
    with pytest.raises(WarehouseError, match="cannot be read") as caught:
        read(path)
    assert not isinstance(caught.value, DamagedError)


def test_a_table_of_another_schema(tmp_path):
    path = tmp_path / "part"
    write_table(path, pa.table({"name": ["a"]}))
    schema = pa.schema([("name", pa.string()), ("value", pa.float64())])
    with pytest.raises(DamagedError, match="no column value"):
        read_table(path, schema)
    with pytest.raises(DamagedError):
        read_table(path, pa.schema([("name", pa.float64())]))


def test_a_quarantined_file_is_kept_with_a_reason(tmp_path, caplog):
    path = tmp_path / "below" / "file.json"
    write_bytes(path, b"{")
    with caplog.at_level(logging.WARNING):
        first = quarantine(path, "it is damaged")
    write_bytes(path, b"[")
    second = quarantine(path, "again")
    assert not path.exists()
    assert (first.read_bytes(), second.read_bytes()) == (b"{", b"[")
    assert "it is damaged. CARE quarantined it as " in caplog.text
    notes = notes_in(path.parent)
    assert [noted(note) for note in notes] == [first, second]
    assert [note.read_text() for note in notes] == ["it is damaged\n", "again\n"]
    assert list(notes_below(tmp_path)) == notes
    assert quarantine(path, "gone").parent == first.parent  # another process was faster
    assert notes_in(path.parent) == notes


def test_a_folder_in_the_way_is_set_aside_and_kept(tmp_path):
    path = tmp_path / "page.html"
    path.mkdir()
    (path / "somebody's").write_text("text")
    write_bytes(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert (noted(notes_in(tmp_path)[0]) / "somebody's").read_text() == "text"


def test_of_a_damaged_log_the_whole_lines_are_kept(tmp_path):
    path = tmp_path / "log"
    write_lines(path, [{"n": number} for number in range(3)])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b'"n": 1', b'"n": 7') + b"\xff\xfe\n" + lines[2])
    with path.open("a") as file:
        file.write('{"n": ' + 100_000 * "[" + "\n")
    with pytest.raises(DamagedError, match="the file is damaged"):
        read_lines(path)
    assert readable_lines(path) == [{"n": 0}, {"n": 2}]


def test_an_unfinished_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def fail_halfway() -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(b"ne")
            assert leftovers(tmp_path) == [(temporary, os.getpid())]
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        fail_halfway()
    with pytest.raises(ValueError, match="no content"), replacing(tmp_path / "other"):
        raise ValueError("no content")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_name_is_on_the_disk_before_a_write_ends(tmp_path, monkeypatch):
    synced, sync, replace = [], os.fsync, type(tmp_path).replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())), sync(fd))[1]
    )
    monkeypatch.setattr(type(tmp_path), "replace", lambda *paths: (synced.append("named"), replace(*paths))[1])
    write_bytes(tmp_path / "file", b"new")
    assert synced[1:] == ["named", str(tmp_path)]
    assert synced[0].startswith(str(tmp_path / ".file"))


@pytest.fixture
def parts(tmp_path):
    """Write two batches of one judge's scores."""
    store = PartStore(tmp_path / "parts")
    for item in ("a", "b"):
        row = {"item_id": item, "item_key": f"key of {item}", "score": 1.0, "status": "ok"}
        store.write_scores("judge", "one", "v1", "none", [row])
    return store


def test_a_damaged_score_part_is_set_aside_and_the_others_are_read(parts):
    damaged = sorted(parts.scores_folder("judge", "one").glob("*.parquet"))[0]
    damaged.write_bytes(b"PAR1")
    assert parts.read_scores("judge", "one").num_rows == 1
    assert len(parts.done("judge", "one", "v1")) == 1
    assert not damaged.exists()
    with pytest.raises(DamagedError, match=r"`care doctor --repair`.*requests only the scores that are still missing"):
        parts.must_not_pay_twice("judge", "one")
    for note in notes_in(damaged.parent):
        note.unlink()
    parts.must_not_pay_twice("judge", "one")


def test_the_versions_of_items_do_not_depend_on_the_order_of_columns(tmp_path):
    store = PartStore(tmp_path)
    one, other = ({"a": 1, "b": "x"}, {"b": "x", "a": 1})
    versions = [
        store.write_items("t", [ItemRecord("i", "p", "r", gold=1.0, metadata=fields)]) for fields in (one, other)
    ]
    assert versions[0] == versions[1]
    changed = store.write_items("t", [ItemRecord("i", "p", "r", gold=1.0, metadata={"a": 2, "b": "x"})])
    assert changed[0] == versions[0][0]
    assert changed[1] != versions[0][1]


def test_parts_that_were_merged_are_as_old_as_the_newest_of_them(parts):
    """The time when scores were written decides about their deletion."""
    files = sorted(parts.scores_folder("judge", "one").glob("*.parquet"))
    for place, file in enumerate(files):
        os.utime(file, ns=(10**18 + place, 10**18 + place))
    assert parts.compact("judge", "one") == 1
    (large,) = parts.scores_folder("judge", "one").glob("*.parquet")
    assert large.stat().st_mtime_ns == 10**18 + 1


def test_scores_have_the_time_of_writing(tmp_path):
    before = datetime.now(UTC) - timedelta(seconds=1)
    row = {"item_id": "a", "item_key": "k", "score": 1.0, "status": "ok"}
    path = PartStore(tmp_path).write_scores("judge", "one", "v1", "none", [row])
    (written,) = pq.read_table(path).column("created_at").to_pylist()
    assert before < written < datetime.now(UTC) + timedelta(seconds=1)


def test_a_part_of_another_tool_is_set_aside(parts):
    path = parts.scores_folder("judge", "one") / "foreign.parquet"
    write_table(path, pa.table({"item_id": ["c"], "rating": [3]}))
    assert parts.read_scores("judge", "one").num_rows == 2
    assert "the file has no column created_at, engine, item_key, judge_key" in notes_in(path.parent)[0].read_text()


def test_damaged_items_are_quarantined(tmp_path):
    store = PartStore(tmp_path)
    write_bytes(store.items_file("one"), b"")
    with pytest.raises(DamagedError, match=r"quarantined it as .* to read the items from their source again"):
        store.read_items("one")
    with pytest.raises(WarehouseError, match="has no items yet"):
        store.read_items("one")


def test_arrays_are_read_as_they_were_written(tmp_path):
    folder = FitFolder(tmp_path, "one")
    arrays = {
        "number": np.asarray(7),
        "counts": np.arange(6).reshape(2, 3),
        "edges": np.array([np.nan, -0.0, np.inf, 1e-310]),
        "none": np.zeros((0, 0, 0)),
        "turned": np.arange(12.0).reshape(3, 4).T,
    }
    folder.write_arrays("moments", arrays)
    read = folder.read_arrays("moments")
    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in read.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in arrays.items()
    }


def test_a_stage_reports_damaged_input(tmp_path):
    folder = FitFolder(tmp_path, "one")
    for name, read in (("panel.parquet", folder.read_panel), ("moments.arrays", lambda: folder.read_arrays("moments"))):
        write_bytes(folder.path / name, b"nonsense")
        with pytest.raises(DamagedError, match="`care run` builds it again"):
            read()
        with pytest.raises(WarehouseError, match="does not exist; `care run` builds it"):
            read()
    write_bytes(folder.path / "fit.json", b"{}x")
    assert folder.find(Publication, "fit") is None
    assert folder.find(Publication, "fit") is None


def test_damaged_fit_versions_are_left_out_and_the_log_continues(tmp_path):
    store = FitStore(tmp_path)
    for name in ("first", "second"):
        store.write_fit_version(FitVersion(name, "one", {"avg": f"fit of {name}"}, FitVersionInputs(), made_at=name))
        store.publish(Publication("one", name, "review"))
    write_bytes(tmp_path / "testset=one" / "fit_version=first.json", b"{")
    assert [version.fit_version for version in store.fit_versions("one")] == ["second"]
    assert store.has_fit_version("one", "second", [])
    assert not store.has_fit_version("one", "second", ["fit of second"])
    assert not store.has_fit_version("one", "first", []), "it is damaged"
    log = tmp_path / "testset=one" / "publications.jsonl"
    log.write_bytes(b"#" + log.read_bytes())
    assert [publication.fit_version for publication in store.publications("one")] == ["second"]
    assert [publication.fit_version for publication in store.publications("one")] == ["second"], (
        "the rest is the log now"
    )
    assert len(notes_in(log.parent)) == 2


@pytest.mark.parametrize("how", ["truncated", "flipped", "emptied", "a folder"])
def test_a_damaged_database_is_unusable_until_it_is_rebuilt(tmp_path, how):
    warehouse = Warehouse(tmp_path / "care.duckdb")
    with warehouse.writer() as connection:
        connection.execute("INSERT INTO testsets SELECT 'one', repeat('x', 100000), 1, 2, 3, 'hash', 'hash', NULL")
    warehouse.check()
    content = bytearray(warehouse.path.read_bytes())
    warehouse.path.unlink()
    if how == "a folder":
        warehouse.path.mkdir()
    elif how == "flipped":
        for at in range(5000, len(content), 997):
            content[at] ^= 0xFF
        warehouse.path.write_bytes(content)
    else:
        warehouse.path.write_bytes(content[: len(content) // 2 if how == "truncated" else 0])
    if warehouse.usable():  # what is damaged lies where nobody has looked yet
        with pytest.raises(DamagedError, match="`care run` rebuilds it"):
            warehouse.check()
    assert not warehouse.usable()
    warehouse.remove()
    with warehouse.writer():
        pass
    assert warehouse.usable()


def test_a_full_disk_is_not_a_damaged_database(tmp_path):
    import duckdb

    warehouse = Warehouse(tmp_path / "care.duckdb")
    with warehouse.writer():
        pass
    with (
        pytest.raises(WarehouseError, match="no space is left on the disk; free some space") as caught,
        warehouse.writer(),
    ):
        raise duckdb.IOException('IO Error: Could not write file "care.duckdb": No space left on device')
    assert not isinstance(caught.value, DamagedError)
    assert warehouse.usable()


def test_an_item_whose_score_is_damaged_is_not_done(tmp_path):
    """Each column is damaged in turn, because checksums are of pages, and pages of columns."""
    store = PartStore(tmp_path / "parts")
    rows = [{"item_id": f"i{k}", "item_key": f"key {k}", "score": k / 7, "status": "ok", "raw": "x"} for k in range(50)]
    path = store.write_scores("judge", "one", "v1", "none", rows)
    content = path.read_bytes()
    assert len(store.done("judge", "one", "v1")) == 50
    group = pq.ParquetFile(path).metadata.row_group(0)
    scores = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "score")
    last = (scores.dictionary_page_offset or scores.data_page_offset) + scores.total_compressed_size - 1
    path.write_bytes(content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :])
    assert store.done("judge", "one", "v1") == set()


def test_a_folder_is_deleted_with_all_that_is_in_it_and_may_be_gone_already(tmp_path):
    folder = tmp_path / "of one judge"
    write_bytes(folder / "below" / "file", b"content")
    delete_folder(folder)
    assert not folder.exists()
    delete_folder(folder)
    assert list(tmp_path.iterdir()) == []


def test_attempts_add_up_until_an_answer(tmp_path):
    def reopened(key: str = "k") -> Attempts:
        return Attempts(tmp_path, key)

    reopened().record(failed=(), answered={"a"})
    assert list(tmp_path.iterdir()) == [], "an answer without an earlier failure has nothing to store"
    reopened().record(failed={"a", "b"}, answered={"c"})
    reopened().record(failed={"a"}, answered={"c"})
    assert (reopened().spent(1), reopened().spent(2), reopened().spent(3)) == ({"a", "b"}, {"a"}, set())
    assert reopened("another").spent(1) == set()
    reopened().record(failed=(), answered={"a", "c"})
    assert reopened().spent(1) == {"b"}
    reopened().record(failed={"a"}, answered=())
    assert (reopened().spent(1), reopened().spent(2)) == ({"a", "b"}, set()), "the count began again at zero"


def test_a_file_is_settled_when_it_is_older_than_two_seconds(monkeypatch):
    written, changed = 10**18, 10**18 + 5
    for age, settled in ((0, False), (2 * 10**9, False), (2 * 10**9 + 1, True)):
        monkeypatch.setattr("time.time_ns", lambda age=age: changed + age)
        assert is_settled([3, written, changed]) == is_settled([3, changed, written]) == settled


def test_damage_in_a_column_that_is_not_asked_for_does_not_matter(tmp_path):
    path, rows = tmp_path / "x.parquet", pa.table({"a": np.arange(500), "b": np.arange(500) * 7})
    write_table(path, rows)
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    content = bytearray(path.read_bytes())
    for place in range(column.data_page_offset + 40, column.data_page_offset + 200):
        content[place] ^= 255
    path.write_bytes(content)
    only_a = pa.schema([rows.schema.field("a")])
    assert read_table(path, only_a).equals(rows.select(["a"]))
    assert [(first, part.equals(rows.select(["a"]))) for first, part in scan_table(path, only_a)] == [(0, True)]
    for read in (lambda: read_table(path), lambda: list(scan_table(path, rows.schema))):
        with pytest.raises(DamagedError):
            read()


@pytest.mark.parametrize(
    "content", [b"\xff", b"[]", b"{}", b'{"judge_key": "k"}', b'{"judge_key": "k", "failed": {"i": null}}']
)
def test_a_damaged_count_of_attempts_starts_again_at_zero(tmp_path, content):
    (tmp_path / "attempts.json").write_bytes(content)
    attempts = Attempts(tmp_path, "k")
    attempts.record(failed={"i"}, answered=())
    assert attempts.spent(1) == Attempts(tmp_path, "k").spent(1) == {"i"}
