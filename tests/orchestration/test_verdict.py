"""Tests that all places report the same verdict on a fit, for each kind of panel."""

from __future__ import annotations

import html
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.workspaces import add_column, care, care_json, query, read_table, typed, typed_line, write_table

ITEMS = 60
CARE_YAML = "fit: {resamples: 0, aggregators: [care, avg]}\nalerts: {file: alerts.jsonl}\n"

Columns = dict[str, np.ndarray]


def panel(kind: str) -> Columns:
    """Return the judges' scores of all items, by judge."""
    rng = np.random.default_rng(5)
    quality, style = rng.normal(size=ITEMS), rng.normal(size=ITEMS)

    def judges(letter: str, count: int, followed: np.ndarray) -> Columns:
        return {f"{letter}{k}": 5 + followed + rng.normal(scale=0.5, size=ITEMS) for k in range(count)}

    if kind == "two factors":
        return {**judges("a", 4, quality), **judges("b", 4, style)}
    if kind == "three judges":
        return judges("a", 3, quality)
    return judges("a", 6, quality)


def write_scores(path: Path, columns: Columns) -> None:
    rows = ([f"i{k:02d}", *(f"{column[k]:.4f}" for column in columns.values())] for k in range(ITEMS))
    write_table(path, ["item_id", *columns], rows)


def workspace_of(folder: Path, columns: Columns) -> Path:
    """Create a workspace of recorded scores, with a judge that cannot be used, so each run sends an alert."""
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True)
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: oracle}\n")
    write_scores(folder / "scores.csv", columns)
    texts = [(f"i{k:02d}", f"answer number {k}") for k in range(ITEMS)]
    write_table(folder / "items.csv", ("item_id", "response"), texts)
    (folder / "testsets" / "one.yaml").write_text(
        "source:\n  kind: files\n  items: items.csv\n  columns: {response: response}\n  scores: {path: scores.csv}\n"
    )
    (folder / "care.yaml").write_text(CARE_YAML)
    return folder


@dataclass(frozen=True)
class Reported:
    """Verdict in each place that reports it."""

    run: str
    status: str
    status_json: str
    page: str | None
    index: str
    json: dict
    database: tuple

    def all_texts(self) -> list[str]:
        """Return all texts that must contain the sentence; a test set without a panel has no page."""
        page = [] if self.page is None else [self.page]
        return [self.run, self.status, self.status_json, *page, self.index]


def run_and_read(folder: Path, code: int = 1) -> Reported:
    """Run a workspace, and read the verdict in all places."""
    report = folder / "data" / "report"
    run = care(folder, "run", code=code)
    page = report / "testset-one.html"
    return Reported(
        run=run,
        status=care(folder, "status"),
        status_json=str(care_json(folder, "status")[0]["verdict"]),
        page=html.unescape(page.read_text()) if page.exists() else None,
        index=html.unescape((report / "index.html").read_text()),
        json=verdict_of(folder),
        database=query(folder, "SELECT state, sentence, fit_version FROM verdicts WHERE testset = 'one'")[0],
    )


def assert_same_verdict_everywhere(places: Reported, state: str) -> str:
    """Assert that all places show the sentence of the JSON document, and return it."""
    sentence = places.json["sentence"]
    assert places.json["state"] == state
    assert places.database == (state, sentence, places.json["fit_version"])
    for text in places.all_texts():
        assert sentence in text
    return sentence


def fitted(tmp_path: Path, columns: Columns, *more: object) -> tuple[str, dict]:
    """Return the output of ``care fit`` on the same panel, and its fit.json, after comparing page and terminal."""
    write_scores(tmp_path / "single.csv", columns)
    options = ("--out", tmp_path / "out", "--intervals", 0, "--aggregator", "care")
    printed = typed("fit", tmp_path / "single.csv", *options, *more)
    document = json.loads((tmp_path / "out" / "fit.json").read_text())
    sentence = document["verdict"]["sentence"]
    assert sentence in printed
    assert sentence in html.unescape((tmp_path / "out" / "report.html").read_text())
    return printed, document["verdict"]


@pytest.fixture
def clear(made_once, tmp_path) -> Path:
    """Create a workspace of a clear panel, and run it once."""
    built = made_once("clear_panel", lambda folder: run_and_read(workspace_of(folder / "ws", panel("clear"))))
    return shutil.copytree(built / "ws", tmp_path / "ws", symlinks=True)


def verdict_of(folder: Path) -> dict:
    return json.loads((folder / "data" / "report" / "verdicts.json").read_text())["one"]


@pytest.mark.slow
def test_the_verdict_on_an_ambiguous_panel(tmp_path):
    columns = panel("two factors")
    folder = workspace_of(tmp_path / "ws", columns)
    places = run_and_read(folder)
    sentence = assert_same_verdict_everywhere(places, "ambiguous")
    to_label = folder / "data" / "report" / "to_label-one.csv"
    rows = read_table(to_label)
    assert list(rows[0]) == ["item_id", "response", "label", "drawn", "probability"]
    assert len(rows) == 20
    assert {row["label"] for row in rows} == {""}
    assert str(to_label) in places.run
    assert f"care label one --workspace {folder}" in places.run
    printed, verdict = fitted(tmp_path, columns)
    assert verdict["sentence"] == sentence
    again = f"--labels {tmp_path / 'out' / 'to_label.csv'}"
    assert again in printed.replace("'", "")


@pytest.mark.parametrize(("scale", "is_outside"), [("0:10", False), ("4:10", True)])
def test_scores_outside_the_scale_are_reported_if_there_are_any(tmp_path, scale, is_outside):
    columns = panel("clear")
    columns["a0"][0] = np.nan
    _, verdict = fitted(tmp_path, columns, "--scale", scale, "--admit", "all")
    sentences = " ".join(reason["sentence"] for reason in verdict["reasons"])
    assert "scores are missing. CARE assumes that the judges failed to give them" in sentences
    assert ("scores outside the scale count as missing" in sentences) == is_outside


@pytest.mark.slow
def test_a_truncated_or_missing_file_of_scores_is_named(clear):
    whole = (clear / "scores.csv").read_text().splitlines(keepends=True)
    (clear / "scores.csv").write_text("".join(whole[:31]))
    care(clear, "run", code=1)
    cut = verdict_of(clear)
    assert "30 items lost every score, such as 'i30'" in cut["sentence"]
    assert "--absent" not in cut["sentence"], "what was cut off is not to be declared"
    (clear / "scores.csv").unlink()
    care(clear, "run", code=1)
    gone = verdict_of(clear)
    assert gone["sentence"].endswith("scores.csv: no such file; correct the path.")
    assert gone["next_steps"][0]["sentence"].startswith("Correct the reported error, then bring ")


@pytest.mark.slow
def test_a_blocked_fit_is_not_a_failure_and_reports_the_change_once(tmp_path):
    """Two new judges favour the other of two systems, and the limits block any change."""
    columns = panel("clear")
    style = np.random.default_rng(7).normal(size=ITEMS)
    folder = workspace_of(tmp_path / "ws", columns)
    (folder / "judges" / "oracle.yaml").unlink()
    strict = "panel: {admit: all}\nreview: {min_rank_correlation: 1.0}\n"
    (folder / "care.yaml").write_text(CARE_YAML.replace("care, avg", "avg") + strict)
    better = columns["a0"] > np.median(columns["a0"])
    add_column(folder / "items.csv", "model", ["x" if each else "y" for each in better])
    spec = folder / "testsets" / "one.yaml"
    spec.write_text(spec.read_text() + "systems: [model]\n")
    care(folder, "run")
    against = {f"b{k}": 5 - 20 * better + style for k in range(2)}
    write_scores(folder / "scores.csv", {**columns, **against})

    printed = care(folder, "run")
    assert "failed" not in printed
    verdict = verdict_of(folder)
    second, first = care_json(folder, "fits", "list", "one")
    assert (verdict["state"], verdict["fit_version"]) == ("held back", second["fit_version"])
    for message in (
        "2 judges added: b0, b1",
        "The rank correlation between the old and the new estimates is ",
        "in the top tenth were not in it before",
        f"The published fit is {first['fit_version']}",
    ):
        assert message in " ".join(printed.split())
    by_itself = [r["sentence"] for r in verdict["reasons"] if r["sentence"].startswith("Verdict on the ")]
    assert [s.partition(" fit: ")[0] for s in by_itself] == ["Verdict on the new", "Verdict on the published"]
    assert "b0" in str([r["judges"] for r in verdict["reasons"]]), "the reasons are the new fit's own"
    for place in (printed, care(folder, "status"), care(folder, "fits", "list", "one")):
        assert verdict["sentence"] in " ".join(place.split())
    for page in ("index.html", "testset-one.html"):
        assert verdict["sentence"] in html.unescape((folder / "data" / "report" / page).read_text())
    care(folder, "status", "--exit-code", code=3)
    assert "nothing to do" in care(folder, "run"), "nothing is fitted again, and it is no failure of later runs"
    (alert,) = (folder / "alerts.jsonl").read_text().splitlines()
    assert all(content in json.loads(alert)["text"] for content in [verdict["sentence"], *by_itself[:1]])
    care(folder, "fits", "accept", "one")
    assert "Held back" not in (folder / "data" / "report" / "index.html").read_text() + care(folder, "run")
    states = [row["state"] for row in care_json(folder, "fits", "list", "one")]
    assert states == ["published", "was published"]


@pytest.mark.slow
def test_a_pinned_fit_is_the_one_reported_everywhere(tmp_path):
    """After the judges of the second factor leave, the ambiguous fit is pinned in place of the clear one."""
    folder = workspace_of(tmp_path / "ws", panel("two factors"))
    (folder / "judges" / "oracle.yaml").unlink()
    care(folder, "run")
    first = verdict_of(folder)
    assert first["state"] == "ambiguous"
    write_scores(folder / "scores.csv", {j: c for j, c in panel("two factors").items() if j.startswith("a")})
    care(folder, "run")
    care(folder, "fits", "accept", "one")
    second = verdict_of(folder)
    assert (second["state"] == first["state"], second["fit_version"] == first["fit_version"]) == (False, False)

    care(folder, "fits", "rollback", "one")
    places = run_and_read(folder, code=0)
    assert assert_same_verdict_everywhere(places, "ambiguous") == first["sentence"]
    assert places.json["fit_version"] == first["fit_version"]
    back = f"care fits accept one --workspace {folder}"
    for text in (places.run, places.status, places.page):
        message = " ".join(text.split())
        assert f"A person pinned fit {first['fit_version']}" in message
        assert f"the newer fit {second['fit_version']}" in message
        assert back in message
    assert "nothing to do" in care(folder, "run")

    care(folder, *back.split()[1:4])
    last = verdict_of(folder)
    assert all(last[key] == second[key] for key in ("state", "sentence", "fit_version"))


@pytest.mark.slow
def test_the_page_marks_tables_of_an_unpublished_fit(tmp_path):
    """Five of six judges are reversed; the new fit is blocked, accepted, and rolled back."""
    folder, columns = workspace_of(tmp_path / "ws", panel("clear")), panel("clear")
    made_by = ["new" if score > np.median(columns["a0"]) else "old" for score in columns["a0"]]
    add_column(folder / "items.csv", "model", made_by)
    with (folder / "testsets" / "one.yaml").open("a") as file:
        file.write("systems: [model]\n")
    care(folder, "run", code=1)
    first, page = verdict_of(folder)["fit_version"], folder / "data" / "report" / "testset-one.html"
    message = "which is not published. The verdict describes the published fit"
    assert message not in page.read_text()

    write_scores(folder / "scores.csv", {j: column if j == "a5" else 10 - column for j, column in columns.items()})
    care(folder, "run", code=1)
    assert verdict_of(folder)["state"] == "held back"
    care(folder, "fits", "accept", "one")
    assert message not in page.read_text()
    care(folder, "fits", "rollback", "one")
    content = page.read_text()
    assert f"{message} <code>{first}" in content
    heads = ("Which system is better", "The judges", "Judge weights")
    assert all(content.rindex(message, 0, content.index(f"<h2>{head}")) for head in heads)
    assert content.count(message) == 4


@pytest.mark.slow
def test_three_judges_get_a_caution_and_two_are_rejected(tmp_path):
    columns = panel("three judges")
    sentence = assert_same_verdict_everywhere(run_and_read(workspace_of(tmp_path / "ws", columns)), "too little data")
    assert fitted(tmp_path, columns)[1]["sentence"] == sentence

    del columns["a2"]
    two = run_and_read(workspace_of(tmp_path / "two", columns))
    assert two.page is None
    refused = assert_same_verdict_everywhere(two, "failed")
    assert "two judges (a0, a1) can be used, but a panel needs three" in refused
    write_scores(tmp_path / "two.csv", columns)
    printed = typed_line("fit", tmp_path / "two.csv", "--out", tmp_path / "none", code=1)
    assert "two judges (a0, a1) can be used, but a panel needs three" in printed
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_status_and_rollback_work_while_the_score_file_is_truncated(clear):
    first, columns = verdict_of(clear)["fit_version"], panel("clear")
    write_scores(clear / "scores.csv", {**columns, "a0": columns["a0"] + 0.05 * columns["a1"]})
    care(clear, "run", code=1)
    second = verdict_of(clear)["fit_version"]
    assert second != first
    whole = (clear / "scores.csv").read_text()
    (clear / "scores.csv").write_text(whole[: whole.rindex(",", 0, len(whole) // 2)])
    shutil.copy(clear / "testsets" / "one.yaml", clear / "testsets" / "other.yaml")
    (clear / "scores2.csv").write_text(whole)
    other = clear / "testsets" / "other.yaml"
    other.write_text(other.read_text().replace("scores.csv", "scores2.csv"))
    status = " ".join(care(clear, "status").split())
    assert "Recorded scores cannot be read: " in status
    assert "the number of values differs" in status, "the file's own error is reported"
    assert "other" in status, "the other test set is shown"
    named = clear / "testsets" / "one.yaml"
    cut_off = named.read_text()
    named.write_text(cut_off.replace("scores.csv", "'${NOT_SET}/scores.csv'"))
    status = " ".join(care(clear, "status").split())
    assert "the environment variable NOT_SET is not set" in status
    assert "other" in status, "the other test set is shown"
    named.write_text(cut_off)
    assert second in care(clear, "fits", "list", "one")
    assert care(clear, "report").strip().endswith("index.html")
    care(clear, "fits", "rollback", "one")
    assert {row["fit_version"]: row["state"] for row in care_json(clear, "fits", "list", "one")}[first] == "pinned"


@pytest.mark.slow
def test_a_run_with_unreadable_recorded_scores_fails(clear):
    """The run also fails if a fit is blocked, and no next step accepts the fit."""
    whole = (clear / "scores.csv").read_text()
    write_scores(clear / "scores.csv", {**panel("clear"), "a0": np.full(ITEMS, 2.0)})
    care(clear, "run", code=1)
    assert verdict_of(clear)["state"] == "held back"
    (clear / "scores.csv").write_text(whole + whole.splitlines()[1] + "\n")
    places = run_and_read(clear)
    sentence = assert_same_verdict_everywhere(places, "failed")
    assert "several rows for 'i00'" in sentence
    assert places.run.startswith("one: FAILED.")
    assert "fits accept" not in places.run
    assert "a0 cannot be used" not in str(places.json), "it is reported once, not for each judge"


def test_labels_of_a_person_are_never_overwritten(tmp_path):
    columns = panel("two factors")
    fitted(tmp_path, columns)
    to_label = tmp_path / "out" / "to_label.csv"
    lines = to_label.read_text().splitlines()
    filled = [line.replace(",,", f",{k % 2},", 1) for k, line in enumerate(lines[1:13])]
    to_label.write_text("\n".join([lines[0], *filled, *lines[13:]]))
    _, verdict = fitted(tmp_path, columns, "--labels", to_label, "--why")
    commands = [step["command"] for step in verdict["next_steps"] if step["command"]]
    assert commands
    assert "--why" not in str(verdict), "a printed command keeps no option of the output"
    rows = read_table(to_label)
    assert [row["label"] for row in rows[:12]] == ["0", "1"] * 6
    assert {row["label"] for row in rows[12:]} == {""}
    assert len({row["item_id"] for row in rows}) == len(rows)


@pytest.mark.slow
def test_the_page_of_a_pinned_fit_stays_while_newer_fits_wait(clear):
    """If its page is lost, the newer fit's page is written, and all places report this fit."""
    first, page = verdict_of(clear)["fit_version"], clear / "data" / "report" / "testset-one.html"

    def tables() -> str:
        return page.read_text().partition("<!-- end of the verdict -->")[2].partition("<!-- why -->")[0]

    care(clear, "fits", "promote", first)
    drawn, columns = tables(), panel("clear")
    write_scores(clear / "scores.csv", {**columns, "a0": columns["a0"] + 0.05 * columns["a1"]})
    places = run_and_read(clear)
    newer = care_json(clear, "fits", "list", "one")[0]["fit_version"]
    assert newer != first == places.json["fit_version"]
    assert f"the newer fit {newer} is not published" in places.run
    assert "The tables on the page describe another fit" not in places.run + places.page
    assert tables() == drawn

    page.unlink()
    places = run_and_read(clear)
    assert places.json["fit_version"] == first
    assert "The tables on the page describe another fit" in places.run
    assert "The tables on the page describe another fit" in places.page
    assert tables() != drawn


@pytest.mark.slow
def test_a_pinned_fit_without_a_stored_verdict_is_reported(clear):
    first, columns = verdict_of(clear)["fit_version"], panel("clear")
    write_scores(clear / "scores.csv", {**columns, "a0": columns["a0"] + 0.05 * columns["a1"]})
    care(clear, "run", code=1)
    (clear / "data" / "parts" / "fits" / "testset=one" / f"fit={first}.fitfacts.json").unlink()
    care(clear, "fits", "promote", first)
    places = run_and_read(clear)
    sentence = assert_same_verdict_everywhere(places, "held back")
    assert sentence == f"A person pinned fit {first}, but the verdict on this fit is not stored."
    assert f"care fits accept one --workspace {clear}" in places.run

    (clear / "scores.csv").write_text((clear / "scores.csv").read_text() + "i00\n")
    assert "Recorded scores cannot be read: " in " ".join(care(clear, "status").split())
