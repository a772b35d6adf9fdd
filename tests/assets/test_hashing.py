"""Tests of cached file hashes, which are valid only while the file does not change."""

import os

import pytest

from assets.hashing import FileHashes
from assets.judge_keys import effective_spec, judge_key, recorded_table
from assets.versions import source_version
from care_ops.errors import InputError
from judges.engines.recorded import fingerprints
from orchestration.workspace import load_workspace
from tests.support.workspaces import make, write_table, write_testset


@pytest.fixture
def settled(monkeypatch):
    """Make newly written files count as unchanged for a while."""
    monkeypatch.setattr("warehouse.storage._SETTLED_S", 0.0)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    return path


def test_only_a_changed_file_is_read_again(file, settled):
    hashes, kept = FileHashes(file.with_name("hashes.json")), []

    def read() -> str:
        kept.append(file.read_text())
        return kept[-1]

    def again(about: str = "text") -> str:
        """Read the file with a new cache, as the next process does."""
        hashes.save()
        return FileHashes(file.with_name("hashes.json")).of(file, about, read)

    assert [hashes.of(file, "text", read), again(), again("other settings")] == ["one"] * 3
    assert kept == ["one"] * 2
    times = file.stat()
    file.write_text("two")
    assert again() == "two"
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert again() == "two"
    assert kept == ["one", "one", "two", "two"], "of the same size and time of modification, and still changed"
    file.write_text("one")
    assert again() == "one"
    assert len(kept) == 4, "it has the bytes that were read before"


def test_a_file_written_a_moment_ago_is_not_cached(file):
    """The file may change again within the same clock tick of the file system."""
    hashes, times_read = FileHashes(file.with_name("hashes.json")), []
    for _ in range(2):
        hashes.of(file, "text", lambda: times_read.append(file))
    assert times_read == [file] * 2


def test_a_damaged_cache_is_rebuilt_without_deleted_files(file, settled):
    kept = file.with_name("hashes.json")
    kept.write_text("nonsense")
    hashes = FileHashes(kept)
    assert hashes.of(file, "text", file.read_text) == "one"
    hashes.save()
    assert "file" in kept.read_text()
    other = file.with_name("other")
    other.write_text("2")
    hashes.of(other, "text", other.read_text)
    file.unlink()
    hashes.save()
    assert str(other) in kept.read_text()
    assert f'"{file}"' not in kept.read_text()


def test_an_error_is_raised_and_not_cached(file, settled):
    hashes = FileHashes(file.with_name("hashes.json"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            hashes.of(file, "text", lambda: 1 // 0)
    assert hashes.of(file.with_name("none"), "text", lambda: "computed") == "computed"


@pytest.fixture
def recorded(tmp_path):
    """Create a workspace with recorded scores of two judges."""
    folder = make(tmp_path / "ws", judges=("length",))
    rows = [(f"i{k}", judge, k % 7) for judge in ("a", "b") for k in range(40)]
    write_table(folder / "scores.csv", ("item_id", "judge", "score"), rows)
    write_testset(folder, source="scores: {path: scores.csv}\n")
    (folder / "data").mkdir()
    return folder


def must_not_be_read(*_: object) -> None:
    raise AssertionError("it has not changed")


def test_unchanged_recordings_and_sources_are_not_read_and_keys_stay(recorded, settled, monkeypatch):
    first = load_workspace(recorded)
    keys = {judge: judge_key(first, judge, "one") for judge in first.judges}
    table = recorded_table(first, "a", "one")
    for judge, revision in fingerprints(table.scores, table.responses).items():
        assert keys[judge] == effective_spec(first, judge, "one").key(revision), "as without a memory"
    version = source_version(first, "one")
    first.file_hashes.save()
    with monkeypatch.context() as patch:
        patch.setattr("assets.judge_keys.recorded_scores", must_not_be_read)
        patch.setattr("warehouse.testsets.hash_of_file", must_not_be_read)
        second = load_workspace(recorded)
        assert {judge: judge_key(second, judge, "one") for judge in second.judges} == keys
        assert source_version(second, "one") == version
    scores = recorded / "scores.csv"
    scores.write_text(scores.read_text().replace("i3,b,3", "i3,b,4"))
    third = load_workspace(recorded)
    hashed = []
    monkeypatch.setattr(
        "judges.engines.recorded.fingerprints",
        lambda scores, texts: hashed.append(scores.judges) or fingerprints(scores, texts),
    )
    changed = {judge for judge in third.judges if judge_key(third, judge, "one") != keys[judge]}
    assert changed == {"b"}
    assert hashed == [("b",)], "the key of a judge whose bytes have not changed is copied"


def test_items_with_stored_scores_are_not_read_again(recorded, settled, monkeypatch):
    first = load_workspace(recorded)
    judge_key(first, "a", "one")
    first.file_hashes.save()
    monkeypatch.setattr("assets.sources.read_source", must_not_be_read)
    second = load_workspace(recorded)
    assert judge_key(second, "a", "one") == judge_key(first, "a", "one")
    assert recorded_table(second, "a", "one").scores.shape == (40, 2)


def test_a_missing_source_is_reported_although_its_hash_is_cached(recorded, settled):
    workspace = load_workspace(recorded)
    source_version(workspace, "one")
    (recorded / "one.csv").unlink()
    with pytest.raises(InputError, match="no such file"):
        workspace.testset("one").fingerprint(recorded)
    assert source_version(workspace, "one") == source_version(load_workspace(recorded), "one")
