"""Tests of a folder that is a local copy of a store; here, another folder is the store, without a server."""

import ast
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from care_ops.errors import InputError, WarehouseError
from orchestration.locks import exclusive_lock
from orchestration.workspace import load_workspace
from warehouse.remote import copy as copies
from warehouse.remote.address import usable_address
from warehouse.remote.copy import BEHIND, StoreCopy, copy_of
from warehouse.remote.objects import Objects
from warehouse.storage import (
    DamagedError,
    delete,
    delete_folder,
    notes_in,
    read_document,
    read_sound,
    records,
    write_bytes,
    write_document,
)


@pytest.fixture
def store(tmp_path) -> Path:
    """Return the folder that is the store."""
    return tmp_path / "store"


@pytest.fixture
def machine(tmp_path, store):
    """Return ``machine(name)``: the local copy of a machine of this name."""
    return lambda name="one": copy_of(tmp_path / name, store.as_uri())


def at_work(copy: StoreCopy, caught_up=lambda: None, **more):
    """Hold the store's lease for a local copy."""
    return copy.writing("`care test`", more.pop("report", print), more.pop("patience", 10.0), caught_up)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files of a store, or those files of a data folder that the store has."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if not name.startswith(("store/", "lease.json"))}


@pytest.mark.parametrize("address", ["s3://bucket", "s3://bucket/a/b", "gs://bucket/a", "az://box", "file:///a/b"])
def test_addresses_of_stores_are_taken(address):
    assert usable_address(address) == usable_address(f"{address}/") == address


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "ftp://host/a",
            r"is unknown; give a local path, or a URL with one of the schemes s3://, gs://, az://, file://",
        ),
        ("s3:///a", "has no bucket"),
        ("file://host/a", "has no folder"),
        ("s3://bucket/a//b", "empty or relative folder"),
        ("s3://bucket/a/../b", "empty or relative folder"),
        ("s3://key:hidden@bucket/a", "credentials in environment variables"),
        ("s3://bucket/a?key=hidden", "credentials in environment variables"),
        ("s3://bucket/a#hidden", "credentials in environment variables"),
    ],
)
def test_other_addresses_are_refused_and_credentials_are_not_repeated(address, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        usable_address(address)
    assert "hidden" not in str(caught.value)


def test_what_is_written_and_deleted_reaches_the_store(machine, store):
    here = machine()
    with at_work(here):
        write_document(here.folder / "parts" / "fits" / "a%20b" / "fit_version=1.json", {"a": 1})
        write_bytes(here.folder / "report" / "index.html", b"page")
        write_bytes(here.folder / "report" / "old.html", b"old")
        write_bytes(here.folder / "hashes.json", b"made again anywhere")
        delete(here.folder / "report" / "old.html")
        assert json.loads((store / copies.LEASE).read_bytes())["who"] == "`care test`"
    assert not (store / copies.LEASE).exists(), "the lease was given back"
    assert files_of(store).keys() == {"parts/fits/a%20b/fit_version=1.json", "report/index.html"}
    assert files_of(store).items() <= files_of(here.folder).items()
    with at_work(here):
        delete_folder(here.folder / "parts" / "fits")
    assert files_of(store).keys() == {"report/index.html"}


def test_another_machine_fetches_what_came_and_loses_what_went(machine, monkeypatch):
    here, there = machine("one"), machine("two")
    with at_work(here):
        write_bytes(here.folder / "parts" / "a", b"first")
        write_bytes(here.folder / "parts" / "b", b"stays")
    with at_work(there):
        assert files_of(there.folder) == {"parts/a": b"first", "parts/b": b"stays"}
        write_bytes(there.folder / "parts" / "a", b"other")
        delete(there.folder / "parts" / "b")
    with at_work(here):
        assert files_of(here.folder) == files_of(there.folder) == {"parts/a": b"other"}
    monkeypatch.delattr(Objects, "fetch")  # nothing is fetched twice
    with at_work(here):
        pass
    assert files_of(here.folder) == {"parts/a": b"other"}


def test_a_fetch_that_is_cut_leaves_word_that_the_database_is_behind(machine, monkeypatch):
    here, there = machine("one"), machine("two")
    with at_work(here):
        write_bytes(here.folder / "report" / "a", b"no row comes from a page")
    there.fetch(lambda: None)
    assert there.fact(BEHIND) is None
    with at_work(here):
        write_bytes(here.folder / "parts" / "a", b"first")
        write_bytes(here.folder / "report" / "b", b"fetched after the part")
    fetch = Objects.fetch

    def cut(self: Objects, key: str, target: Path) -> str:
        if key == "report/b":
            raise WarehouseError("the connection was cut")
        return fetch(self, key, target)

    monkeypatch.setattr(Objects, "fetch", cut)
    with pytest.raises(WarehouseError, match="cut"):
        there.fetch(lambda: None)
    monkeypatch.undo()
    assert files_of(there.folder).keys() == {"parts/a", "report/a"}
    there.fetch(lambda: None)
    assert files_of(there.folder).keys() == {"parts/a", "report/a", "report/b"}
    assert there.fact(BEHIND)
    there.keep(BEHIND, None)
    there.fetch(lambda: None)
    assert there.fact(BEHIND) is None


def test_a_command_that_only_looks_fetches_and_takes_no_lease(machine, store):
    here, there = machine("one"), machine("two")
    with at_work(here):
        write_bytes(here.folder / "report" / "a", b"first")
        fetched = []
        for copy in (there, here):
            copy.fetch(lambda copy=copy: fetched.append(copy))
        assert fetched == [there], "the other machine writes, and is ahead of everybody"
        assert files_of(there.folder) == {"report/a": b"first"}
        with pytest.raises(WarehouseError, match="this command does not hold the lease on it"):
            write_bytes(there.folder / "report" / "a", b"second")
    assert files_of(there.folder) == {"report/a": b"first"}, "the old file stays, and no temporary one"


@pytest.mark.parametrize("step", ["upload", "rename", "note"])
def test_a_write_that_is_killed_at_any_step_is_repaired_by_the_next_command(machine, monkeypatch, step, store):
    here = machine()
    file = here.folder / "parts" / "a"
    with at_work(here):
        write_bytes(file, b"before")

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patched:
        where = {"upload": (here.objects, "put"), "rename": (Path, "replace"), "note": (here, "keep")}[step]
        with at_work(here):
            patched.setattr(*where, kill)
            with pytest.raises(Killed):
                write_bytes(file, b"after.")  # as long as before: sizes are equal
            patched.undo()
    with at_work(here):
        expected = b"before" if step == "upload" else b"after."
        assert file.read_bytes() == (store / "parts" / "a").read_bytes() == expected


def test_a_file_that_was_deleted_elsewhere_does_not_come_back_after_a_kill(machine, monkeypatch):
    """The process was killed after the rename, and then another machine removed the item."""
    here, there = machine("one"), machine("two")
    keep = here.keep
    with at_work(here), monkeypatch.context() as patched:
        patched.setattr(here, "keep", lambda name, value: keep(name, "") if not value else None)
        write_bytes(here.folder / "parts" / "a", b"to be forgotten")
    with at_work(there):
        delete(there.folder / "parts" / "a")
    with at_work(here):
        assert files_of(here.folder) == {}


def test_a_file_that_is_damaged_here_comes_back_from_the_store(machine):
    here = machine()
    path = here.folder / "parts" / "fits" / "fit_version=1.json"
    with at_work(here):
        write_document(path, {"a": 1})
    path.write_text("{}}")
    with at_work(here), pytest.raises(DamagedError, match="quarantined"):
        read_sound(path, read_document, "")
    assert notes_in(path.parent)
    with at_work(here):
        assert read_document(path) == {"a": 1}


def test_a_folder_with_files_is_copied_to_an_empty_store_only(tmp_path, machine, store):
    (tmp_path / "one" / "report").mkdir(parents=True)
    (tmp_path / "one" / "report" / "a").write_bytes(b"from before")
    here = machine("one")
    with at_work(here):
        pass
    assert files_of(store) == {"report/a": b"from before"}
    (tmp_path / "two" / "report").mkdir(parents=True)
    (tmp_path / "two" / "report" / "b").write_bytes(b"of its own")
    with pytest.raises(InputError, match=r"and .* contain different files"), at_work(machine("two")):
        pass
    elsewhere = StoreCopy(here.folder, (tmp_path / "elsewhere").as_uri())
    with pytest.raises(InputError, match=r"is a copy of .*Move the folder away"), at_work(elsewhere):
        pass


DELETES_BY_ITSELF = {
    ("warehouse/storage.py", "replacing"),
    ("warehouse/storage.py", "delete"),
    ("warehouse/storage.py", "delete_folder"),
    ("warehouse/storage.py", "quarantine"),
    ("warehouse/remote/copy.py", "_compare"),
    ("warehouse/remote/copy.py", "keep"),
    ("warehouse/database.py", "remove"),
    ("warehouse/database.py", "replace_by"),
    ("warehouse/parts.py", "sweep"),
    ("assets/judging/journal.py", "stored"),
    ("assets/judging/journal.py", "recover"),
    ("assets/state/backup.py", "unpack"),
    ("assets/state/retention.py", "sweep"),
    ("assets/state/repair.py", "_dagster"),
}
"""Functions that delete or rename files unknown to a store, or that notify the store themselves."""


def test_what_is_kept_is_deleted_through_storage():
    """Otherwise the store would restore a deleted file."""
    root = Path(__file__).parents[2]
    others = set()
    for path in (path for package in ("warehouse", "assets") for path in (root / package).rglob("*.py")):
        for function in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)):
            named = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            if named & {"unlink", "rmtree", "rename"}:
                others.add((path.relative_to(root).as_posix(), function.name))
    assert others - DELETES_BY_ITSELF == set(), "use `delete` of warehouse.storage"
    assert others == DELETES_BY_ITSELF, "the list has functions that delete nothing any more"


def test_a_folder_that_was_written_without_its_store_is_no_copy_any_more(tmp_path, store, monkeypatch):
    """CARE cannot know which of its files the store lacks."""
    settings = tmp_path / "care.yaml"
    settings.write_text(f"data: {store.as_uri()}\n")
    with exclusive_lock(load_workspace(tmp_path)):
        write_bytes(tmp_path / "data" / "report" / "a", b"stored")
    settings.write_text("data: data\n")
    monkeypatch.delitem(records, tmp_path / "data")  # as in the process of another command
    with exclusive_lock(load_workspace(tmp_path)):
        write_bytes(tmp_path / "data" / "report" / "a", b"on disk")
    settings.write_text(f"data: {store.as_uri()}\n")
    with pytest.raises(InputError, match="contain different files"), exclusive_lock(load_workspace(tmp_path)):
        pass


def test_two_machines_do_not_write_at_once(machine):
    here, there = machine("one"), machine("two")
    reasons = []
    with at_work(here):
        with pytest.raises(WarehouseError, match="`care test` is using file:"), at_work(there, patience=0.0):
            pass
        began = threading.Event()
        waits = threading.Thread(target=_hold, args=(there, reasons.append, began))
        waits.start()
        while not reasons:
            time.sleep(0.01)
        assert not began.is_set()
    assert began.wait(30)
    waits.join()
    assert reasons == [f"waiting for `care test`, which is using {here.address}"]


def _hold(copy: StoreCopy, report, began: threading.Event) -> None:
    with at_work(copy, report=report):
        began.set()


def test_a_lease_that_nobody_renews_is_taken_over_and_its_holder_writes_no_more(machine, monkeypatch):
    here, there = machine("one"), machine("two")
    with at_work(here):
        monkeypatch.setattr(copies, "VALID_S", 0.5)
        with at_work(there):
            write_bytes(there.folder / "report" / "a", b"there")
        with pytest.raises(WarehouseError, match="this process has lost the lease"):
            write_bytes(here.folder / "report" / "a", b"here")


def test_a_machine_takes_over_its_own_lease_at_once(machine, store):
    here = machine()
    here._take_lease("`care run` that was killed", print, None)
    assert (store / copies.LEASE).exists()
    with at_work(here, patience=0.0):
        write_bytes(here.folder / "report" / "a", b"here")


def test_processes_of_one_machine_share_the_lease(machine, store):
    here = machine()
    also_here = StoreCopy(here.folder, here.address)
    fetched = []
    with at_work(here, lambda: fetched.append(here)):
        with at_work(also_here, lambda: fetched.append(also_here)):
            pass
        assert (store / copies.LEASE).exists(), "the first is still at work"
        write_bytes(here.folder / "report" / "a", b"here")
    assert fetched == [here], "who joins has nothing to fetch"
    assert not (store / copies.LEASE).exists()


def test_a_renewed_lease_stays(machine, monkeypatch):
    monkeypatch.setattr(copies, "VALID_S", 1.5)
    monkeypatch.setattr(copies, "_RENEWED_EVERY_S", 0.05)
    here, there = machine("one"), machine("two")
    with at_work(here):
        with pytest.raises(WarehouseError, match="is using"), at_work(there, patience=2.5):
            pass
        write_bytes(here.folder / "report" / "a", b"here")


def write_until_refused(copy: StoreCopy) -> None:
    """Write until an error, for at most a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        write_bytes(copy.folder / "report" / "a", b"here")


def test_a_holder_whose_lease_was_taken_over_notices_at_its_next_renewal(machine, monkeypatch):
    monkeypatch.setattr(copies, "_RENEWED_EVERY_S", 0.05)
    here = machine()
    claim = json.dumps({"machine": "another", "who": "`care run`"}).encode()
    with at_work(here):
        here.objects.put(copies.LEASE, claim)
        with pytest.raises(WarehouseError, match="this process has lost the lease"):
            write_until_refused(here)
    assert here.lease()[0]["who"] == "`care run`", "the lease of another machine is not overwritten"


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(InputError, match=r"needs obstore; run pip install '\.\[stores\]'"):
        Objects("s3://bucket").list()


def test_nothing_of_a_store_is_imported_where_none_is_named(tmp_path):
    (tmp_path / "care.yaml").write_text("data: elsewhere\n")
    code = (
        "import sys, pathlib\n"
        "from orchestration.workspace import load_workspace\n"
        "from orchestration.stores import read_workspace, store_lease\n"
        "read_workspace(pathlib.Path(sys.argv[1]))\n"
        "print([name for name in sys.modules if name.startswith(('warehouse.remote.', 'obstore'))])\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True)
    assert done.stdout == "['warehouse.remote.address']\n", done.stderr
