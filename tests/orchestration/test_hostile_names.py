"""Tests that hostile names of judges and test sets share no file and do not leave the workspace."""

from __future__ import annotations

import unicodedata
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.report.names import items_name, labels_name, page_name, refuse_alike
from care_ops.errors import CareError, InputError
from judges.spec import JudgeSpec
from orchestration.workspace import load_workspace
from tests.support.workspaces import QUICK, care, write_items
from warehouse.parts import PartStore
from warehouse.testsets import TestsetSpec

JUDGES = (
    "../../up",
    "/tmp/care-was-here",
    "..",
    ".",
    "%2e%2e",
    "con",
    "-rf",
    "$(touch x)",
    "a b",
    "e\u0301",
    "~",
    "A" * 150,
)
TESTSETS = ("..", "-x", "100%", "%41", "e\u0301t\u0327", "con", "$(touch y)", "a\\b")


def on_disk(path: Path) -> str:
    """Return a path as a file system stores it that ignores case and normalises accents, such as macOS's."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", str(path)).casefold())


def files_of(root: Path, name: str) -> list[Path]:
    """Return all paths to which files of a judge or test set of this name are written."""
    parts = PartStore(root / "parts")
    pages = [root / "report" / of(name) for of in (page_name, labels_name, lambda name: items_name(page_name(name)))]
    return [
        *(parts.items_file(name), parts.scores_folder(name, "one"), parts.scores_folder("a", name), *pages),
        root / "labels" / f"{name}.csv",
    ]


def is_accepted(name: str) -> bool:
    try:
        JudgeSpec.model_validate({"name": name, "engine": {"kind": "program", "program": "length"}})
        TestsetSpec.model_validate({"name": name, "source": {"kind": "demo"}})
        refuse_alike("judge", [name])
    except (ValueError, CareError):
        return False
    return True


ODD = st.text(st.sampled_from("aAéÉe\u0301ßsSıiİKkK%2eE.+~/\\ \0\x1b\u202e\ud7ff"), min_size=1, max_size=4)


@given(st.lists(ODD, min_size=2, max_size=2, unique=True))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_accepted_names_never_share_a_file_on_any_file_system(names):
    root = Path("/w/data")
    taken = [name for name in names if is_accepted(name)]
    for name in taken:
        for path in files_of(root, name):
            assert path.resolve().is_relative_to(root), (name, path)
            assert "\0" not in str(path)
    try:
        refuse_alike("judge", taken)
    except InputError:
        return
    for one, other in combinations(taken, 2):
        assert not {*map(on_disk, files_of(root, one))} & {*map(on_disk, files_of(root, other))}, (one, other)


@pytest.mark.parametrize("kind", ["judges", "testsets"])
@pytest.mark.parametrize("pair", [("Gpt", "gPT"), ("\u00e9", "e\u0301"), ("STRASSE", "stra\u00dfe"), ("K", "\u212a")])
def test_a_workspace_with_two_names_that_could_share_a_file_is_rejected(kind, pair, tmp_path):
    for sub in ("judges", "testsets"):
        (tmp_path / sub).mkdir()
    (tmp_path / "care.yaml").write_text("{}\n")
    content = {"judges": {"engine": {"kind": "program", "program": "length"}}, "testsets": {"source": {"kind": "demo"}}}
    for place, name in enumerate(pair):
        (tmp_path / kind / f"{place}.yaml").write_text(yaml.safe_dump({"name": name, **content[kind]}))
    with pytest.raises(InputError, match="differ only in case or in the form of an accented letter"):
        load_workspace(tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "a\x1b[2Jb", "a\x7f", "a\nb"])
def test_a_name_with_a_control_character_is_refused(name):
    assert not is_accepted(name)


@pytest.mark.slow
def test_hostile_names_write_nothing_outside_the_workspace_and_share_no_file(tmp_path):
    """The test checks all files of all commands that write files."""
    folder = tmp_path / "a" / "b" / "ws"
    for sub in ("judges", "testsets", "data"):
        (folder / sub).mkdir(parents=True)
    (folder / "care.yaml").write_text(QUICK)
    write_items(folder, 24)
    programs = ("length", "question_coverage", "conciseness", "redundancy", "thoroughness")
    for place, name in enumerate(JUDGES):
        document = {"name": name, "engine": {"kind": "program", "program": programs[place % len(programs)]}}
        (folder / "judges" / f"{place}.yaml").write_text(yaml.safe_dump(document))
    columns = {"prompt": "question", "response": "answer", "gold": "label"}
    for place, name in enumerate(TESTSETS):
        source = {"kind": "files", "items": "one.csv", "columns": columns}
        (folder / "testsets" / f"{place}.yaml").write_text(
            yaml.safe_dump({"name": name, "source": source, "scale": [0, 10]})
        )
    care(folder, "run")
    labelled = [name for name in TESTSETS if not name.startswith("-")]  # a command takes that for an option
    for name in labelled:
        care(folder, "label", name, "--export", str(folder / "export.csv"), "--count", "3")
    care(folder, "judges", "new", "../up", "--program", "length", code=2)
    care(folder, "testsets", "add", "../up", code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["ws"]
    assert not Path("/tmp/care-was-here").exists()
    made = [path for path in folder.rglob("*") if path.is_file()]
    assert len({*map(on_disk, made)}) == len(made)
    stored = PartStore(load_workspace(folder).parts.root)
    assert sorted(stored.judges()) == sorted(JUDGES)
    assert sorted(stored.testsets()) == sorted(TESTSETS)
    pages = {path.name for path in (folder / "data" / "report").glob("testset-*.html")}
    assert pages == {page_name(name) for name in TESTSETS}
    assert {path.name for path in (folder / "labels").iterdir()} == {f"{name}.csv" for name in labelled}
