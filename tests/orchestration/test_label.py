"""Tests of ``care label``: keys in a pseudo-terminal, a kill, a round trip through a spreadsheet, bad input."""

import json
import re
import shlex
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from assets.labels import read_labels
from assets.table.label_file import COLUMNS, LabelFile
from orchestration.cli.app import app
from orchestration.cli.asking import answers_for, ask
from orchestration.cli.output import show
from tests.support.terminals import Terminal
from tests.support.workspaces import read_table as rows_of
from tests.support.workspaces import typed_line, write_table
from warehouse.items import ItemRecord

write = partial(write_table, encoding="utf-8-sig")
"""Write a CSV file as Excel does, with a UTF-8 byte order mark."""

N = 40
ENDS = "u undoes, s skips, q ends]"


@pytest.fixture
def folder(tmp_path):
    """Write items whose texts state their quality, and scores of five judges."""
    rng = np.random.default_rng(0)
    rows = [(f"i{k:02}", f"question {k}", f"answer {k}", f"secret-model-{k % 2}") for k in range(N)]
    write(tmp_path / "items.csv", ("item_id", "prompt", "response", "model"), rows)
    quality = rng.normal(size=(N, 1))
    scores = np.round(quality + rng.normal(size=(N, 5)), 3)
    write(tmp_path / "scores.csv", ("item_id", *"abcde"), [(f"i{k:02}", *row) for k, row in enumerate(scores)])
    return tmp_path


def care(folder, *words, code=0):
    """Run a command without dialogue, check its exit code, and return its output on one line."""
    return typed_line("label", "--items", folder / "items.csv", "--out", folder / "labels.csv", *words, code=code)


def labelling(folder, *words):
    """Start ``care label`` in a pseudo-terminal."""
    given = ["--items", folder / "items.csv", "--out", folder / "labels.csv", "--rater", "ann", *words]
    return Terminal([sys.executable, "-m", "orchestration.cli", "label", *map(str, given)], ENDS)


def item_on(screen):
    """Return the id of the item whose answer is on the screen."""
    number = re.search(r"answer (\d+)", screen)[1]
    return f"i{int(number):02}"


@pytest.mark.slow
def test_one_key_labels_an_item_and_a_kill_loses_no_label(folder):
    path = folder / "labels.csv"
    terminal = labelling(folder, "--count", "6")
    first = terminal.until_asked()
    second = terminal.press("y")
    assert "Is this answer good?" in first
    assert "press y = yes, n = no; u undoes" in first
    refused = " ".join(terminal.press("x", asks="q ends\r\n").split())
    assert refused == "'x' is not an answer; press y = yes, n = no; u undoes, s skips, q ends"
    assert item_on(second) != item_on(first)
    assert "This key is not an answer" in " ".join(terminal.press("\r", asks="q ends\r\n").split())
    again = terminal.press("u")
    assert item_on(again) == item_on(first)
    terminal.press("n")
    last = terminal.press("s")
    terminal.end(signal.SIGKILL)
    assert "secret-model" not in terminal.seen
    before = rows_of(path)
    assert [row["label"] for row in before] == ["0", "", "", "", "", ""]
    assert [bool(row["labelled_at"]) for row in before] == [True, True, False, False, False, False]
    assert (before[0]["item_id"], before[0]["rater"]) == (item_on(first), "ann")
    assert not list(folder.glob("*.tmp*"))

    terminal = labelling(folder, "--count", "6")
    assert item_on(terminal.until_asked()) == item_on(last)
    for _ in range(4):
        skipped = terminal.press("y")
    assert item_on(skipped) == item_on(second)
    terminal.press("y")
    assert terminal.end() == 0
    after = rows_of(path)
    assert [row["label"] for row in after] == ["0", "1", "1", "1", "1", "1"]
    assert after[0] == before[0]
    labels = read_labels(path)
    assert len(labels.sample) == len({row["item_id"] for row in after}) == 6
    assert "6 of 6 labelled" in terminal.seen


def test_control_characters_in_texts_and_names_are_shown_as_text(folder, capsys):
    show([{"judge": "ju\x1b[31mdge"}], "title\x1b[2J", as_json=False)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert r"ju\x1b[31mdge" in printed
    text = "plain \x1b[8mhidden\x1b]0;title\x07 \x9b2J end\ttab"
    write(folder / "items.csv", ("item_id", "response"), [("i00", text)])
    terminal = labelling(folder)
    screen = terminal.until_asked()
    assert r"plain \x1b[8mhidden\x1b]0;title\x07 \x9b2J end" in screen
    terminal.press("q", "never")
    assert terminal.end() == 0


@pytest.mark.slow
def test_care_label_shows_both_answers_of_a_pair_and_asks_for_the_better_one(folder):
    pairs = [(f"p{k}", f"question {k}", f"answer {k}", f"otherwise {k}", "model x", "model y") for k in range(3)]
    write(folder / "items.csv", ("item_id", "prompt", "response_a", "response_b", "model_a", "model_b"), pairs)
    terminal = labelling(folder)
    shown = terminal.until_asked()
    number = re.search(r"answer (\d+)", shown)[1]
    asked = f"left: answer {number} right: otherwise {number} Which answer is better?"
    assert asked in " ".join(shown.split())
    assert "press l = left, r = right, t = tie; u undoes" in shown
    for key in "lrt":
        terminal.press(key)
    assert terminal.end() == 0
    assert "model x" not in terminal.seen
    assert [row["label"] for row in rows_of(folder / "labels.csv")] == ["1", "0", "0.5"]
    (folder / "labels.csv").unlink()
    assert "fill in `label` (1 = left, 0 = right, 0.5 = tie)" in care(folder, "--export", folder / "out.csv")
    columns = ["item_id", "prompt", "response", "response_2", "label", "drawn", "probability"]
    assert list(rows_of(folder / "out.csv")[0]) == columns


def test_commands_without_a_terminal_can_be_typed(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["--items", folder / "items.csv", "--count", "3", "--rater", "ann b"]
    piped = CliRunner().invoke(app, ["label", *map(str, words)], input="y\n")
    assert (piped.exit_code, piped.stdout) == (2, "")
    assert "standard input is not a terminal" in piped.stderr
    assert not (folder / "labels.csv").exists()
    export, take = re.findall(r"`(care label[^`]*)`", piped.stderr)
    assert "3 items written" in typed_line(*shlex.split(export)[1:])
    fill_in(folder / "to_fill_in.csv", 1)
    assert "3 of 3 labelled" in typed_line(*shlex.split(take)[1:])


def fill_in(path, label):
    """Fill in the labels of exported items as a person does, and return the items."""
    exported = rows_of(path)
    write(path, exported[0].keys(), [({**row, "label": label}).values() for row in exported])
    return exported


def test_labels_are_exported_without_system_names_and_imported_again(folder):
    path = folder / "labels.csv"
    assert "8 items written" in care(folder, "--count", 8, "--export", folder / "out.csv")
    exported = fill_in(folder / "out.csv", 1)
    assert list(exported[0]) == ["item_id", "prompt", "response", "label", "drawn", "probability"]
    assert care(folder, "--import", folder / "out.csv", "--rater", "ann").endswith(
        "8 labels and 0 second labels imported; 8 of 8 labelled "
        f"to fit with these labels: care fit SCORES --labels {folder / 'labels.csv'}"
    )
    assert {row["rater"] for row in rows_of(path)} == {"ann"}
    assert "0 labels and 0 second labels imported" in care(folder, "--import", folder / "out.csv", "--rater", "ann")
    fill_in(folder / "out.csv", 0)
    assert "0 labels and 8 second labels imported" in care(folder, "--import", folder / "out.csv", "--rater", "bob")
    labels = read_labels(path)
    assert (len(labels), len(labels.sample), set(labels.values.values())) == (16, 8, {0.5})
    fill_in(folder / "out.csv", 7)
    message = care(folder, "--import", folder / "out.csv", code=2)
    assert "has the label 7, which is not permitted" in message
    write(folder / "out.csv", ("item_id", "label"), [("nobody", 1)])
    message = care(folder, "--import", folder / "out.csv", code=2)
    assert "lacks 1 item" in message
    assert ", such as 'nobody'; export" in message


def test_labelling_hides_the_system(folder):
    asked = [(f"q{k}", system, f"question {k}", f"answer {k} of one") for k in range(4) for system in ("gpt", "llama")]
    write(folder / "items.csv", ("question_id", "model", "prompt", "response"), asked)
    for option, path in (("--export", folder / "out.csv"), ("--html", folder / "page.html")):
        care(folder, "--count", 8, option, path)
        assert not re.search("gpt|llama", path.read_text())
    exported = fill_in(folder / "out.csv", 1)
    assert len({row["item_id"] for row in exported}) == 8
    assert "8 labels and 0 second" in care(folder, "--import", folder / "out.csv")
    assert {row["item_id"] for row in rows_of(folder / "labels.csv")} == {f"{q} / {s}" for q, s, _, _ in asked}


def given_on(page):
    """Return the items' data in a page, as a browser reads them."""
    return json.loads(re.search(r'<script type="application/json" id="given">(.*?)</script>', page.read_text())[1])


def test_the_label_page_hides_systems_and_lists_unlabelled_items_in_terminal_order(folder):
    """``tests/browser/test_label_page.py`` tests the page in a browser."""
    scores = ["--scores", folder / "scores.csv"]
    message = care(folder, *scores, "--count", 8, "--html", folder / "page.html")
    typed = re.search(r"the table with: (care label .*)$", message)[1]
    assert typed.endswith(f"--import {folder / 'page-labelled.csv'}")
    assert "--html" not in typed
    rows, given = rows_of(folder / "labels.csv"), given_on(folder / "page.html")
    assert [row[:3] for row in given["rows"]] == [[r["item_id"], r["drawn"], r["probability"]] for r in rows]
    assert {row[1] for row in given["rows"]} == {"random"}
    number = int(rows[0]["item_id"][1:])
    assert given["rows"][0][3] == [["Question", f"question {number}"], ["Answer", f"answer {number}"]]
    page = (folder / "page.html").read_text()
    assert "secret-model" not in page
    assert not re.search(r"(?:src|href)=.(?!data:,)|https?:|@import|url\(", page), "nothing is loaded"
    for row in rows[:5]:
        row.update(label="1", rater="ann", labelled_at="2026-11-25T10:00:00+00:00")
    write(folder / "labels.csv", COLUMNS, [row.values() for row in rows])
    care(folder, *scores, "--count", 8, "--html", folder / "rest.html")
    assert [row[0] for row in given_on(folder / "rest.html")["rows"]] == [row["item_id"] for row in rows[5:]]


def test_a_table_of_labels_is_merged_once(folder):
    care(folder, "--count", 2, "--html", folder / "page.html")
    items = [row["item_id"] for row in rows_of(folder / "labels.csv")]
    message = [(item, k, "random", "", "ann", f"2026-11-25T10:00:0{k}.123+00:00") for k, item in enumerate(items)]
    write(folder / "ann.csv", COLUMNS, message)
    write(folder / "bob.csv", COLUMNS, [(*row[:4], "bob", "2026-11-26T10:00:00+00:00") for row in message])
    take = ("--rater", "me", "--import")
    assert "2 labels and 0 second labels imported; 2 of 2" in care(folder, *take, folder / "ann.csv")
    assert [row["rater"] for row in rows_of(folder / "labels.csv")] == ["ann", "ann"]
    assert [row["labelled_at"][:23] for row in rows_of(folder / "labels.csv")] == [row[5][:23] for row in message]
    care(folder, "--repeat", 1, "--count", 2, "--html", folder / "again.html")
    assert "0 labels and 0 second labels imported; 2 of 3" in care(folder, *take, folder / "ann.csv")
    assert "1 label and 1 second label imported; 4 of 4" in care(folder, *take, folder / "bob.csv")
    given = sorted((label.rater, label.value) for label in read_labels(folder / "labels.csv").given)
    assert given == [("ann", 0), ("ann", 1), ("bob", 0), ("bob", 1)]


def answered(row, label, rater, second):
    return replace(row, label=label, rater=rater, labelled_at=f"2026-11-27T10:00:{second:02}+00:00")


def test_an_open_session_keeps_labels_of_other_sessions(folder, monkeypatch, capsys):
    path = folder / "labels.csv"
    care(folder, "--count", 6, "--export", folder / "out.csv")
    skips, ann = LabelFile.read(path), LabelFile.read(path)
    first = ann.rows[0].item_id
    fill_in(folder / "out.csv", 0)
    assert "6 labels and 0 second" in care(folder, "--import", folder / "out.csv", "--rater", "bob")
    for session, label in ((skips, ""), (ann, "1")):
        session.change(0, answered(session.rows[0], label, "ann", 1))
    assert [row["rater"] for row in rows_of(path)] == ["bob"] * 6 + ["ann"]
    assert {label.value for label in read_labels(path).given if label.item_id == first} == {0, 1}
    care(folder, "--count", 8, "--export", folder / "out.csv")
    keys = iter("uyuuq")
    monkeypatch.setattr("click.getchar", lambda: next(keys))
    items = {row.item_id: ItemRecord(row.item_id, response="answer") for row in LabelFile.read(path).rows}
    ask(LabelFile.read(path), items, answers_for(None, None, pairs=False), "cyd")
    assert capsys.readouterr().out.count("there is nothing to undo") == 2, "what others said is theirs to undo"
    assert [row["rater"] for row in rows_of(path)] == ["bob"] * 6 + ["ann", "", ""]
    path.unlink()
    ann.change(6, answered(ann.rows[6], "0", "ann", 3))
    assert [row["label"] for row in rows_of(path)] == ["0"] * 7, "what this session knows is written again"


def test_labels_that_two_people_give_at_once_are_both_kept(folder):
    care(folder, "--count", 20, "--export", folder / "out.csv")
    seen = [(rater, k, LabelFile.read(folder / "labels.csv")) for k in range(20) for rater in ("ann", "bob")]

    def press(rater, k, file):
        file.change(k, answered(file.rows[k], "1", rater, k))

    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(press, *zip(*seen, strict=True)))
    raters = Counter(row["rater"] for row in rows_of(folder / "labels.csv"))
    assert raters == {"ann": 20, "bob": 20}


def test_a_random_sample_is_enlarged_and_one_with_unequal_probabilities_is_not(folder):
    care(folder, "--count", 5, "--export", folder / "out.csv")
    few = rows_of(folder / "labels.csv")
    care(folder, "--count", 12, "--export", folder / "out.csv")
    more = rows_of(folder / "labels.csv")
    assert more[:5] == few
    assert len({row["item_id"] for row in more}) == 12
    write(folder / "labels.csv", COLUMNS, [("i00", "", "chosen", 0.5, "", ""), ("i01", "", "chosen", 0.9, "", "")])
    message = care(folder, "--count", 20, "--export", folder / "out.csv", code=2)
    assert "CARE cannot enlarge the file to 20 items, because its 2 items were drawn" in message


def test_a_call_without_count_asks_for_ten_more_items_once_all_are_labelled(folder):
    drawn = []
    for _ in range(5):
        for _ in range(2):  # the second time, the same items are left
            care(folder, "--export", folder / "out.csv", code=0 if len(drawn) < 4 else 2)
        fill_in(folder / "out.csv", 1)
        care(folder, "--import", folder / "out.csv")
        care(folder, "--repeat", 2, "--html", folder / "again.html")
        drawn.append(len({row["item_id"] for row in rows_of(folder / "labels.csv")}))
        write(folder / "labels.csv", COLUMNS, [r.values() for r in rows_of(folder / "labels.csv") if r["label"]])
    assert drawn == [10, 20, 30, 40, 40]


def test_tables_are_read_as_care_fit_reads_them(folder, monkeypatch):
    monkeypatch.chdir(folder)
    items, scores = rows_of(folder / "items.csv"), rows_of(folder / "scores.csv")
    grades = [
        (i, judge, round(3 + np.clip(float(row[judge]), -2, 2))) for i, row in enumerate(scores) for judge in "abcde"
    ]
    write(folder / "s.csv", ("key", "judge", "score"), grades)
    write(folder / "t.csv", ("key", "response"), [(i, row["response"]) for i, row in enumerate(items)])
    write(folder / "part.csv", ("key", "response"), [(i, row["response"]) for i, row in enumerate(items[:20])])
    write(folder / "long.csv", ("key", "judge", "score", "response"), [(*g, items[g[0]]["response"]) for g in grades])
    fits = {
        "--items t.csv --scores s.csv": "care fit s.csv --items t.csv --item key",
        "--items part.csv --scores s.csv": "care fit s.csv --item key",
        "--items part.csv": "care fit SCORES --item key",
        "--scores long.csv": "care fit long.csv --item key",
        "--items long.csv --scores long.csv": "care fit long.csv --item key",
    }
    for k, (given, fit) in enumerate(fits.items()):
        words = ["label", *given.split(), "--item", "key", "--out", f"labels {k}.csv"]
        exported = typed_line(*words, "--export", "out.csv")
        assert ("(a grade from 1 to 5; for 1 (good) and 0 (bad), give" in exported) == ("--scores" in given)
        fill_in(folder / "out.csv", 1)
        imported = typed_line(*words, "--import", "out.csv")
        assert f"to fit with these labels: {fit} --labels 'labels {k}.csv'" in imported
        if "SCORES" not in fit:
            command = [*shlex.split(fit)[1:], "--labels", f"labels {k}.csv", "--intervals", "0"]
            assert "10 labels" in typed_line(*command)
    assert "key has several rows for" in typed_line("label", "--items", "long.csv", "--item", "key", code=2)


def test_what_is_wrong_is_named(folder):
    cases = {
        ("--answers", "q=1,n=0"): "--answers 'q=1,n=0' is not valid; give single keys",
        ("--answers", "12-1"): "--answers '12-1' is not a range: its first label must be the lowest",
        (): "standard input is not a terminal",
        ("--count", 50): "--count is 50, but there are only 40 items; lower --count",
        ("--html", folder / "out.csv"): "the page is saved as HTML; use a name that ends in .html",
        ("--export", folder / "out.pdf"): "items are exported as CSV",
    }
    for options, sentence in cases.items():
        assert sentence in care(folder, *options, code=2)
        assert not (folder / "labels.csv").exists()
    cases = {"i00": "every item has a label; draw more", "zz": "item 'zz' is not in the table of items"}
    for item, sentence in cases.items():
        write(folder / "labels.csv", COLUMNS, [(item, 1, "random", "", "ann", "2026-11-25")])
        for option, name in (("--html", "out.html"), ("--export", "out.csv")):
            assert sentence in care(folder, "--count", 1, option, folder / name, code=2)
    (folder / "labels.csv").write_text("item_id,label\ni00,1\n")
    assert "it has the columns item_id, label, but needs" in care(folder, code=2)
    assert "either a test set of the workspace or --items" in typed_line("label", code=2)


def test_writing_labels_keeps_links_and_file_permissions(folder):
    target = folder / "shared" / "ours.csv"
    (folder / "labels.csv").symlink_to(target)
    care(folder, "--count", 3, "--export", folder / "out.csv")
    target.chmod(0o640)
    care(folder, "--count", 5, "--export", folder / "out.csv")
    assert (folder / "labels.csv").is_symlink()
    assert len(rows_of(target)) == 5
    assert target.stat().st_mode & 0o777 == 0o640
