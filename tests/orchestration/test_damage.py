"""Files of a workspace that are damaged after a good night: the next nights heal it, or say what to do."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from care_ops.errors import CareError
from orchestration.cli.app import app
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.runner import run_stale
from orchestration.workspace import load_workspace
from tests.support.workspaces import query, run, score_rows

ESTIMATES = (
    "SELECT DISTINCT i.item_id, f.aggregator, a.estimate FROM latest_fits f "
    "JOIN aggregates a USING (fit_id) JOIN items i USING (item_ix) ORDER BY ALL"
)


def _flip(path: Path) -> None:
    """One bit at four places: so that text stays text, and only what it says is another."""
    content = bytearray(path.read_bytes())
    for quarter in range(4):
        content[len(content) * quarter // 4 + len(content) // 8] ^= 1
    path.write_bytes(content)


def _header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for at in range(8, 24):
        content[at] ^= 0xFF
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something.txt").write_text("somebody's")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": _flip,
    "header": _header,
    "emptied": lambda path: path.write_bytes(b""),
    "deleted": Path.unlink,
    "a folder": _folder,
}


@dataclass(frozen=True)
class Kind:
    """A kind of file: where it lies below ``data``, and what makes a run read it.

    Attributes
    ----------
    where : str
        A pattern; the first that matches.
    again : str
        The asset that is made again.
    without : str
        A file that is deleted first, so that it is made of this one.
    """

    where: str
    again: str = ""
    without: str = ""


KINDS = {
    "score part": Kind("parts/scores/judge=length/testset=one/*.parquet", without="care.duckdb"),
    "score part, read by the judge": Kind("parts/scores/judge=length/testset=one/*.parquet", again="judge_inference"),
    "items part": Kind("parts/items/testset=one/items.parquet", without="care.duckdb"),
    "items part, read by a stage": Kind("parts/items/testset=one/items.parquet", again="aggregates"),
    "database": Kind("care.duckdb", again="panel"),
    "panel.parquet": Kind("fits/testset=one/panel.parquet", again="moments"),
    "panel.json": Kind("fits/testset=one/panel.json"),
    "moments.npz": Kind("fits/testset=one/moments.npz", again="structure"),
    "structure.npz": Kind("fits/testset=one/structure.npz", again="aggregates"),
    "structure.json": Kind("fits/testset=one/structure.json", again="aggregates"),
    "fit.json": Kind("fits/testset=one/fit.json"),
    "factors.json": Kind("fits/testset=one/factors.json", again="report"),
    "systems.json": Kind("fits/testset=one/systems.json", again="report"),
    "review.json": Kind("fits/testset=one/review.json"),
    "kept fit": Kind("parts/fits/testset=one/fit=*.parquet", without="care.duckdb"),
    "kept fit, read by the review": Kind("parts/fits/testset=one/fit=*.parquet", again="review"),
    "evaluation": Kind("parts/fits/testset=one/fit=*.evaluation.json", without="care.duckdb"),
    "edition": Kind("parts/fits/testset=one/edition=*.json", without="care.duckdb"),
    "edition, read by the review": Kind("parts/fits/testset=one/edition=*.json", again="review"),
    "publications": Kind("parts/fits/testset=one/publications.jsonl", without="care.duckdb"),
    "report page": Kind("report/testset-one.html"),
    "cursor": Kind("dagster/care_run_cursor.json"),
}


def damaged(folder: Path, kind: Kind, how: str) -> Path:
    """Damage the first file of a kind; returns it."""
    path = sorted((folder / "data").glob(kind.where))[0]
    DAMAGE[how](path)
    if kind.without:
        (folder / "data" / kind.without).unlink()
    return path


def night(folder: Path, again: str = "") -> str:
    """``care run`` in this process: what it says of what failed, empty after a good night."""
    workspace = load_workspace(folder)
    partition = "length" if again == "judge_inference" else "one"
    try:
        with workspace_instance(workspace) as instance:
            defs = build_defs(folder, {"workspace": workspace})
            outcome = run_stale(defs, workspace, instance, again=(again, partition) if again else None)
    except CareError as error:
        return str(error)
    return "; ".join(f"{asset}: {why}" for (asset, _), why in outcome.failures.items())


def names_a_repair(said: str) -> bool:
    return "`care " in said and "Traceback" not in said


def what_happens(folder: Path, kind: Kind, how: str) -> str:
    """Damage, two nights and the repair: "healed", "healed by the second run", or what is asked of a person."""
    before, asked = query(folder, ESTIMATES), set(score_rows(folder))
    damaged(folder, kind, how)
    said = [night(folder, kind.again), night(folder)]
    assert not said[0] or names_a_repair(said[0]), said[0]
    assert not said[1] or names_a_repair(said[1]), said[1]
    if said[1]:
        return f"says what to do: {said[1]}"
    assert query(folder, ESTIMATES) == before
    assert set(score_rows(folder)) == asked
    assert not night(folder)
    return "healed by the second run" if said[0] else "healed"


QUICK = [
    ("score part", "truncated"),
    ("database", "header"),
    ("review.json", "flipped"),
]
"""What is tried in every `make test`; the rest is in the table below."""


@pytest.mark.parametrize(("name", "how"), QUICK)
def test_the_next_nights_heal_what_was_damaged(after_a_night, name, how):
    assert what_happens(after_a_night, KINDS[name], how).startswith("healed")


@pytest.mark.slow
@pytest.mark.parametrize("how", [how for how in DAMAGE if how != "header"])
def test_every_kind_of_file_and_of_damage(one_night, tmp_path, how, capsys):
    """The table, told also where it is good; every failure of it is told, not the first alone."""
    bad: list[str] = []
    for name, kind in KINDS.items():
        folder = shutil.copytree(one_night, tmp_path / name.replace(" ", "_"), symlinks=True)
        try:
            said = what_happens(folder, kind, how)
        except AssertionError as error:
            said = f"FAILS: {str(error).splitlines()[0] if str(error) else 'estimates or scores differ'}"
            bad.append(f"{name}, {how}: {said}")
        with capsys.disabled():
            print(f"{name:32}{how:12}{said}")
    assert not bad


def test_the_doctor_tells_what_is_damaged_and_sets_it_aside_on_request(after_a_night):
    parts = sorted((after_a_night / "data" / "parts" / "scores").rglob("*.parquet"))
    page = after_a_night / "data" / "report" / "testset-one.html"
    panel = after_a_night / "data" / "fits" / "testset=one" / "panel.json"
    database = after_a_night / "data" / "care.duckdb"
    assert not doctor(after_a_night)
    before = query(after_a_night, ESTIMATES)
    _flip(parts[0])
    DAMAGE["emptied"](page)
    _folder(panel)
    _header(database)
    told = doctor(after_a_night)
    for path in (parts[0], page, panel, database):
        assert any(path.name in what and state == "fails" and "`care " in what for state, what in told), path
    assert parts[0].is_file()  # it only tells
    assert {state for state, _ in doctor(after_a_night, "--repair")} == {"ok"}
    assert not parts[0].exists()
    assert list((after_a_night / "data" / "parts" / "damaged").rglob(f"{parts[0].name}.*"))
    assert not doctor(after_a_night)
    assert not run(after_a_night).failures
    assert query(after_a_night, ESTIMATES) == before
    assert parts[0].exists()


def doctor(folder: Path, *options: str) -> list[tuple[str, str]]:
    """State and words of `care doctor` on the files of a workspace."""
    result = CliRunner().invoke(app, ["doctor", "--workspace", str(folder), "--json", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return [(row["state"], row["what"]) for row in json.loads(result.stdout) if row["check"] in ("file", "files")]


def test_a_damaged_storage_of_dagster_is_moved_away_and_nobody_is_asked_again(after_a_night):
    before, asked = query(after_a_night, ESTIMATES), written(after_a_night)
    home = after_a_night / "data" / "dagster"
    _header(home / "history" / "runs.db")
    DAMAGE["emptied"](home / "schedules" / "schedules.db")
    told = doctor(after_a_night)
    assert len(told) == 2
    assert all(state == "fails" and "`care doctor --repair`" in what for state, what in told)
    assert [state for state, _ in doctor(after_a_night, "--repair")] == ["ok"]
    assert not home.exists()
    assert not run(after_a_night).failures
    assert query(after_a_night, ESTIMATES) == before
    assert written(after_a_night) == asked


def written(folder: Path) -> dict[Path, int]:
    """When each score part was written: nobody was asked again where that is the same."""
    return {path: path.stat().st_mtime_ns for path in (folder / "data" / "parts" / "scores").rglob("*.parquet")}


def test_what_is_set_aside_is_logged(after_a_night, caplog):
    damaged(after_a_night, KINDS["panel.json"], "emptied")
    folder = load_workspace(after_a_night).fit_folder("one")
    with caplog.at_level(logging.WARNING):
        assert folder.find_json("panel") == {}
    assert "panel.json" in caplog.text
    assert "set aside" in caplog.text
    assert not (folder.path / "panel.json").exists()
