"""What is remembered of many small parts: it saves reading them, and never says more or less than they do."""

import pytest

from warehouse import parts as parts_module
from warehouse.parts import PartStore, read_scores_part
from warehouse.storage import notes_in

PARTS = 20


def write(store, k, status="ok", key="K"):
    row = {"item_id": f"i{k}", "item_key": f"key{k}", "score": 1.0 if status == "ok" else None, "status": status}
    return store.write_scores("judge", "one", key, "engine", [row])


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with more parts than are read one by one; a file counts as written at once."""
    monkeypatch.setattr("warehouse.storage._SETTLED_S", 0.0)
    store = PartStore(tmp_path)
    for k in range(PARTS):
        write(store, k)
    return store


@pytest.fixture
def opened(monkeypatch):
    """Names of the parts that are opened."""
    names = []

    def read(path, schema):
        names.append(path.name)
        return read_scores_part(path, schema)

    monkeypatch.setattr(parts_module, "read_scores_part", read)
    return names


def done(store, again=()):
    return store.done("judge", "one", "K", again)


def keys(numbers):
    return {f"key{k}" for k in numbers}


def manifest_of(store):
    return store.scores_folder("judge", "one") / "manifest"


def part_of(store, k):
    """Name of the part of an item."""
    return next(
        path.name
        for path in store.scores_folder("judge", "one").glob("*.parquet")
        if read_scores_part(path).column("item_key").to_pylist() == [f"key{k}"]
    )


def test_parts_that_have_not_changed_are_opened_once(store, opened):
    assert done(store) == keys(range(PARTS))
    assert len(opened) == PARTS
    assert done(store) == keys(range(PARTS))
    assert len(opened) == PARTS


def test_what_comes_changes_or_goes_is_seen(store, opened):
    done(store)
    opened.clear()
    new, changed = write(store, 90), write(store, 3, status="timeout")
    (store.scores_folder("judge", "one") / part_of(store, 5)).unlink()
    assert done(store, ["timeout"]) == keys([*range(PARTS), 90]) - keys([3, 5])
    assert sorted(opened) == sorted([new.name, changed.name])
    assert done(store) == keys([*range(PARTS), 90]) - keys([5]), "a status is not forgotten"
    assert len(opened) == 2


def test_rows_under_another_key_do_not_count(store):
    write(store, 91, key="another")
    for _ in ("read", "remembered"):
        assert done(store) == keys(range(PARTS))


def test_a_part_that_is_damaged_is_not_remembered(store):
    done(store)
    part = store.scores_folder("judge", "one") / part_of(store, 5)
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    for _ in ("found", "set aside"):
        assert done(store) == keys(range(PARTS)) - keys([5])


@pytest.mark.parametrize("how", ["flipped", "truncated", "emptied"])
def test_a_damaged_manifest_is_made_anew_without_a_note(store, opened, how):
    done(store)
    manifest = manifest_of(store)
    content = manifest.read_bytes()
    damaged = {"flipped": content[:200] + bytes([content[200] ^ 255]) + content[201:], "truncated": content[:300]}
    manifest.write_bytes(damaged.get(how, b""))
    opened.clear()
    assert done(store) == keys(range(PARTS))
    assert len(opened) == PARTS
    assert not notes_in(manifest.parent), "a note would hold up a judge that costs money"
    assert done(store) == keys(range(PARTS))
    assert len(opened) == PARTS, "it was kept again"


def test_a_part_that_was_written_just_now_is_read_again(store, opened, monkeypatch):
    """A second write within one tick of the clock would have the same times."""
    monkeypatch.setattr("warehouse.storage._SETTLED_S", 1000.0)
    for _ in range(2):
        assert done(store) == keys(range(PARTS))
    assert len(opened) == 2 * PARTS


def test_a_folder_that_cannot_be_written_is_read_all_the_same(store, opened, monkeypatch):
    def refuse(*_arguments):
        raise PermissionError(13, "no")

    monkeypatch.setattr("warehouse.manifest.write_table", refuse)
    for _ in range(2):
        assert done(store) == keys(range(PARTS))
    assert len(opened) == 2 * PARTS


def test_few_parts_have_no_manifest(tmp_path):
    store = PartStore(tmp_path)
    for k in range(3):
        write(store, k)
    assert done(store) == keys(range(3))
    assert not manifest_of(store).exists()
