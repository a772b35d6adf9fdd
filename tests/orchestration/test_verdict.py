"""One sentence about a fit, in every place that says how it stands; a panel of each kind, and a night that fails."""

from __future__ import annotations

import csv
import html
import json
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import numpy as np
import pytest
from typer.testing import CliRunner

from orchestration.cli.app import app
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import care, query

ITEMS = 60
CARE_YAML = "fit: {resamples: 0, aggregators: [care, avg]}\nalerts: {file: told.jsonl}\n"

Columns = dict[str, np.ndarray]


def panel(kind: str) -> Columns:
    """Judges by name, each with a score for every item."""
    rng = np.random.default_rng(5)
    quality, style = rng.normal(size=ITEMS), rng.normal(size=ITEMS)

    def judges(letter: str, count: int, followed: np.ndarray) -> Columns:
        return {f"{letter}{k}": 5 + followed + rng.normal(scale=0.5, size=ITEMS) for k in range(count)}

    if kind == "two factors":
        return {**judges("a", 4, quality), **judges("b", 4, style)}
    if kind == "three judges":
        return judges("a", 3, quality)
    dead = {"mute": np.full(ITEMS, 3.0)} if kind == "dead judge" else {}
    return {**judges("a", 6, quality), **dead}


def labels_of_two_factors() -> dict[str, float]:
    """Labels that follow the factor of the judges a; they are what ``panel`` plants."""
    quality = np.random.default_rng(5).normal(size=ITEMS)
    return {f"i{k:02d}": float(quality[k]) for k in range(0, ITEMS, 2)}


def write_scores(path: Path, columns: Columns) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", *columns])
        writer.writerows([f"i{k:02d}", *(f"{column[k]:.4f}" for column in columns.values())] for k in range(ITEMS))


def write_labels(path: Path, labels: dict[str, float]) -> None:
    path.write_text("item_id,label\n" + "".join(f"{item},{label:.4f}\n" for item, label in labels.items()))


def workspace_of(folder: Path, columns: Columns, labels: dict[str, float] | None = None) -> Path:
    """A workspace of recorded scores, with a judge that cannot be asked, so that each night sends an alert."""
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True)
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: oracle}\n")
    write_scores(folder / "scores.csv", columns)
    texts = "".join(f"i{k:02d},answer number {k}\n" for k in range(ITEMS))
    (folder / "items.csv").write_text("item_id,response\n" + texts)
    (folder / "testsets" / "one.yaml").write_text(
        "source:\n  kind: files\n  items: items.csv\n  columns: {response: response}\n  scores: {path: scores.csv}\n"
    )
    anchors = ""
    if labels is not None:
        write_labels(folder / "labels.csv", labels)
        anchors = "anchors: {one: labels.csv}\n"
    (folder / "care.yaml").write_text(CARE_YAML + anchors)
    return folder


@dataclass(frozen=True)
class Told:
    """What each place says of the one test set."""

    run: str
    status: str
    status_json: str
    page: str
    index: str
    json: dict
    database: tuple
    alert: str

    def all_texts(self) -> list[str]:
        """Every text that must hold the sentence."""
        return [self.run, self.status, self.status_json, self.page, self.index, self.alert]


def told(folder: Path, code: int = 1) -> Told:
    """Bring a workspace up to date, and read every place."""
    report = folder / "data" / "report"
    run = care(folder, "run", code=code)
    page = report / "testset-one.html"
    rows = json.loads(care(folder, "status", "--json"))
    return Told(
        run=run,
        status=care(folder, "status"),
        status_json=str(rows[0]["verdict"]),
        page=html.unescape(page.read_text()) if page.exists() else "",
        index=html.unescape((report / "index.html").read_text()),
        json=json.loads((report / "verdicts.json").read_text())["one"],
        database=query(folder, "SELECT state, sentence, edition FROM verdicts WHERE testset = 'one'")[0],
        alert=json.loads((folder / "told.jsonl").read_text().splitlines()[-1])["text"],
    )


def assert_told_alike(places: Told, state: str) -> str:
    """Every place says the sentence of the JSON document; returns it."""
    sentence = places.json["sentence"]
    assert places.json["state"] == state
    assert places.database == (state, sentence, places.json["edition"])
    for text in places.all_texts():
        assert sentence in text
    return sentence


def fitted(tmp_path: Path, columns: Columns, *more: object) -> tuple[str, dict]:
    """What ``care fit`` prints of the same panel, and its fit.json; page and terminal say the sentence of fit.json."""
    write_scores(tmp_path / "alone.csv", columns)
    words = ["fit", tmp_path / "alone.csv", "--out", tmp_path / "out", "--intervals", 0, "--aggregator", "care", *more]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "out" / "fit.json").read_text())
    sentence = document["verdict"]["sentence"]
    assert sentence in result.stdout
    assert sentence in html.unescape((tmp_path / "out" / "report.html").read_text())
    return result.stdout, document["verdict"]


@pytest.mark.slow
def test_a_clear_panel(tmp_path):
    columns = panel("clear")
    sentence = assert_told_alike(told(workspace_of(tmp_path / "ws", columns)), "clear")
    assert sentence.startswith("Clear: 6 judges allow one answer for 60 items")
    printed, verdict = fitted(tmp_path, columns)
    assert verdict["sentence"] == sentence, "a workspace and `care fit` say the same of one panel"
    assert printed.index(sentence) < printed.index("weights in care") < printed.index("report: ")
    assert printed.rstrip().endswith("report.html")


@pytest.mark.slow
def test_an_ambiguous_panel(tmp_path):
    columns = panel("two factors")
    folder = workspace_of(tmp_path / "ws", columns)
    places = told(folder)
    sentence = assert_told_alike(places, "ambiguous")
    assert sentence.startswith("Ambiguous: ")
    to_label = folder / "data" / "report" / "to_label-one.csv"
    header, *rows = list(csv.reader(to_label.open()))
    assert header == ["item_id", "response", "label"]
    assert len(rows) == 20
    assert {row[2] for row in rows} == {""}
    assert str(to_label) in places.run
    assert f"care label one --workspace {folder}" in places.run
    printed, verdict = fitted(tmp_path, columns)
    assert verdict["sentence"] == sentence
    again = f"--anchors {tmp_path / 'out' / 'to_label.csv'}"
    assert again in printed.replace("'", "")


@pytest.mark.slow
def test_a_panel_that_labels_settle(tmp_path):
    columns, labels = panel("two factors"), labels_of_two_factors()
    sentence = assert_told_alike(told(workspace_of(tmp_path / "ws", columns, labels)), "settled by labels")
    assert sentence.startswith("Settled by 30 labels: ")
    write_labels(tmp_path / "labels.csv", labels)
    _, verdict = fitted(tmp_path, columns, "--anchors", tmp_path / "labels.csv")
    assert verdict["sentence"] == sentence


@pytest.mark.slow
def test_a_fit_that_is_held_back(tmp_path):
    """Judge a0 goes constant after a good night: the page stays that of the fit before, and says so."""
    columns = panel("clear")
    folder = workspace_of(tmp_path / "ws", columns)
    first = told(folder).json["edition"]
    write_scores(folder / "scores.csv", {**columns, "a0": np.full(ITEMS, 2.0)})
    places = told(folder)
    sentence = assert_told_alike(places, "held back")
    assert sentence.startswith(f"Held back: fit {places.json['edition']}, made ")
    assert f"People read fit {first}" in sentence
    assert f"care accept one --workspace {folder}" in places.page
    assert "Clear: " not in places.page


@pytest.mark.slow
def test_a_dead_judge(tmp_path):
    columns = panel("dead judge")
    sentence = assert_told_alike(told(workspace_of(tmp_path / "ws", columns)), "clear")
    assert "Judge 'mute' is dead: it gave the same score to every item, and it is left out." in sentence
    assert fitted(tmp_path, columns)[1]["sentence"] == sentence


@pytest.mark.slow
def test_three_judges_deserve_a_caution_and_two_are_refused(tmp_path):
    columns = panel("three judges")
    sentence = assert_told_alike(told(workspace_of(tmp_path / "ws", columns)), "clear")
    assert "Caution: there are only three judges" in sentence
    assert fitted(tmp_path, columns)[1]["sentence"] == sentence

    del columns["a2"]
    refused = assert_told_alike(told(workspace_of(tmp_path / "two", columns)), "failed")
    assert "two judges (a0, a1) can be heard, and a panel needs three" in refused
    write_scores(tmp_path / "two.csv", columns)
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "two.csv"), "--out", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "two judges (a0, a1) can be heard, and a panel needs three" in result.stderr.replace("\n", " ")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_dagster_has_the_verdict_and_an_older_database_gets_it_back(tmp_path):
    folder = workspace_of(tmp_path / "ws", panel("clear"))
    sentence = told(folder).json["sentence"]
    loaded = load_workspace(folder)
    with workspace_instance(loaded) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("report"))
        locations = {run.remote_job_origin.location_name for run in instance.get_runs() if run.remote_job_origin}
        unplaced = [run for run in instance.get_runs() if run.remote_job_origin is None]
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["verdict"].value == sentence
    assert unplaced == [], "Overview does not show a run without a code location"
    assert locations == {"orchestration.definitions"}
    with loaded.warehouse.writer() as connection:
        connection.execute("UPDATE schema_version SET version = 6")
    care(folder, "run", code=1)
    assert query(folder, "SELECT sentence FROM verdicts") == [(sentence,)]


@pytest.mark.slow
def test_status_says_what_the_fit_does_not_know_yet(tmp_path):
    folder = workspace_of(tmp_path / "ws", panel("clear"))
    told(folder)
    write_scores(folder / "scores.csv", panel("three judges"))
    assert "one: Stale: judge" in care(folder, "status")


def test_labels_that_a_person_filled_in_are_never_written_over(tmp_path):
    columns = panel("two factors")
    fitted(tmp_path, columns)
    to_label = tmp_path / "out" / "to_label.csv"
    lines = to_label.read_text().splitlines()
    to_label.write_text("\n".join([lines[0], *(f"{line}{k % 2}" for k, line in enumerate(lines[1:13])), *lines[13:]]))
    fitted(tmp_path, columns, "--anchors", to_label)
    with to_label.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows[:12]] == ["0", "1"] * 6
    assert {row["label"] for row in rows[12:]} == {""}
    assert len({row["item_id"] for row in rows}) == len(rows)


@pytest.mark.parametrize("words", [["-h"], ["run", "-h"], ["judges", "new", "-h"]])
def test_h_is_help_on_every_command(words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_the_version_is_printed():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("care ")
