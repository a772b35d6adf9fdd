"""Tests of fitting, reading and labelling realistic tables of scores, and of fitting again."""

import html
import json
import re
import shlex

import numpy as np
import pyarrow.parquet as pq
import pytest

from orchestration.workspace import load_workspace
from tests.support.workspaces import care, make, query, read_table, typed, typed_line, write_table


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def estimates(folder):
    """Return the estimates in a fit's folder, by aggregator and item."""
    rows = pq.read_table(folder / "aggregates.parquet").to_pylist()
    found = {}
    for row in rows:
        found.setdefault(row["aggregator"], {})[row["item_id"]] = row["estimate"]
    return found


def fitted(folder, *words):
    """Fit with these words, check that output, fit.json and page have the same verdict, and return the output."""
    printed = typed("fit", *words)
    sentence = json.loads((folder / "fit.json").read_text())["verdict"]["sentence"]
    assert sentence in printed
    assert sentence in html.unescape((folder / "report.html").read_text())
    return printed


def advised(printed, start):
    """Return the verdict's first command with this beginning, without ``care``."""
    lines = [line.strip() for line in printed.splitlines()]
    return shlex.split(next(line for line in lines if line.startswith(f"care {start}")))[1:]


def fill_labels(path, label_of):
    """Write a label into each row of a file of items to label, as a person does."""
    rows = [row | {"label": label_of(row["item_id"])} for row in read_table(path)]
    write_table(path, rows[0], [row.values() for row in rows])


def test_answers_are_found_in_the_table_of_scores_by_common_names(here, rng):
    """Half of the judges reward length, which only the texts can show."""
    columns = ("instruction", "output")
    quality, length = rng.normal(size=(2, 240))
    words = np.exp(4 + 0.5 * length).astype(int)
    biases = (0.0, 1.0, 0.1, 0.9, 0.0, 1.1, 0.2)
    x = np.column_stack([quality + bias * length + 0.8 * rng.normal(size=240) for bias in biases])
    asked = [("what is it", " ".join(["word"] * count)) for count in words]
    ids, judges, given = [f"q{k}" for k in range(240)], [f"judge {k}" for k in range(7)], x.round(2)
    scores = write_table(here / "scores.csv", ("id", *judges), zip(ids, *given.T, strict=True))
    texts = write_table(here / "texts.csv", ("id", *columns), [(k, *each) for k, each in zip(ids, asked, strict=True)])
    rows = [(k, *each, *row) for k, each, row in zip(ids, asked, given, strict=True)]
    table = write_table(here / "all.csv", ("id", *columns, *judges), rows)
    printed = fitted(here / "all-fit", table, "--intervals", 0)
    assert f"response is '{columns[1]}'" in printed
    assert "number of words" in printed
    unseen = re.compile("without texts|The items have no texts")  # where it is clear, and where not
    assert not unseen.search(printed)
    assert unseen.search(fitted(here / "unseen", scores, "--intervals", 0, "--out", "unseen"))
    separate = fitted(here / "scores-fit", scores, "--items", texts, "--intervals", 0)
    assert f"response is '{columns[1]}'" in separate
    one, other = (estimates(here / name)["care"] for name in ("all-fit", "scores-fit"))
    assert one == pytest.approx(other, abs=1e-12)
    found = [one[f"q{k}"] for k in range(240)]
    assert np.corrcoef(found, quality)[0, 1] > np.corrcoef(x.mean(axis=1), quality)[0, 1] + 0.05
    assert abs(np.corrcoef(found, length)[0, 1]) < 0.25


def write_wide(path, rng):
    """Write a wide table as pandas does: an index, a text, blanks, three judges on 1 to 10, and one on 0 to 100."""
    quality = rng.normal(5.5, 1.8, size=120)
    columns = {judge: np.clip(np.round(quality + rng.normal(size=120)), 1, 10) for judge in "abc"}
    columns["reward"] = np.clip(np.round(11 * quality - 10 + rng.normal(scale=10, size=120)), 0, 100)
    blank = rng.random((120, 4)) < 0.05
    cells = np.where(blank, "", [[f"{x[k]:g}" for x in columns.values()] for k in range(120)])
    rows = [(k, f"i{k:03d}", f"said {k}, or so", *row) for k, row in enumerate(cells)]
    write_table(path, ["", "item_id", "comment", *columns], rows)
    return quality, columns, blank


def test_a_wide_table_with_one_judge_on_0_to_100(here, rng):
    quality, columns, blank = write_wide(here / "wide.csv", rng)
    folder = here / "wide-fit"
    printed = fitted(folder, "wide.csv", "--intervals", 20)
    reported = (
        "judge 'reward' uses the scale 0 to 100 (inferred): its scores are rescaled to the panel's scale, 1 to 10"
    )
    assert reported in printed
    assert "the judges are 'a', 'b', 'c', 'reward'" in printed
    assert "'unnamed column 1' (no name; treated as an index), 'comment' (holds text)" in printed
    assert f"missing scores: {blank.sum()} of 480" in printed
    assert "no estimate from" not in printed
    document = json.loads((folder / "fit.json").read_text())
    assert reported in " ".join(document["provenance"]["readings"][0]["notes"])
    assert reported in html.unescape((folder / "report.html").read_text())
    found = estimates(folder)
    assert {"care", "mv", "avg", "uws", "care_svd", "care_tensor"} == set(found)
    for name, answer in found.items():
        assert all(1 <= value <= 10 for value in answer.values()), name
    on_scale = np.column_stack([columns["a"], columns["b"], columns["c"], 1 + 0.09 * columns["reward"]])
    mean = np.nanmean(np.where(blank, np.nan, on_scale), axis=1)
    np.testing.assert_allclose([found["avg"][f"i{k:03d}"] for k in range(120)], mean, rtol=1e-9)
    assert np.corrcoef([found["care"][f"i{k:03d}"] for k in range(120)], quality)[0, 1] > 0.9

    scales = ("--scale", 1, 10, "--scale", "reward=0:100")
    declared = fitted(here / "declared", "wide.csv", *scales, "--out", "declared")
    assert "judge 'reward' uses the scale 0 to 100 (declared)" in declared
    assert estimates(here / "declared")["avg"] == pytest.approx(found["avg"])
    fill_labels(folder / "to_label.csv", lambda item: f"{np.clip(quality[int(item[1:])], 1, 10):.1f}")
    fitted(folder, *advised(printed, "fit")[1:])
    assert json.loads((folder / "fit.json").read_text())["aggregates"]["care"]["labels_used"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scale", "rewad=0:100"), "a scale is declared for 'rewad', which is not a judge; choose from a, b, c, "),
        (("--scale", "reward=100"), "--scale 'reward=100' is not a scale; give the lowest and the highest score"),
        (("--scale", "100:0"), "the scale is 100.0 to 0.0; give two numbers, the lowest score first"),
        (("--scale", "reward=7:7"), "the scale is 7.0 to 7.0; give two numbers, the lowest score first"),
        (("--scale", "1", "10", "--scale", "0", "9"), "--scale is given twice; give it once"),
    ],
)
def test_an_impossible_scale_is_rejected(here, rng, words, message):
    write_wide(here / "wide.csv", rng)
    assert message in typed_line("fit", "wide.csv", *words, code=2)


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["scale: [1, 10]\n", ""], ids=["declared", "inferred"])
def test_a_wide_table_and_an_asked_judge_with_another_scale_share_a_workspace(tmp_path, rng, scale):
    """Recorded scores are rescaled when read, and those of an asked judge before a fit."""
    folder = make(tmp_path / "ws", judges=(), n=120)
    _, columns, blank = write_wide(folder / "wide.csv", rng)
    texts = "".join(f"i{k:03d},{'word ' * (k % 7 + 1)}\n" for k in range(120))
    (folder / "items.csv").write_text("item_id,response\n" + texts)
    (folder / "testsets" / "one.yaml").write_text(
        f"{scale}source: {{kind: files, items: items.csv, scores: {{path: wide.csv}}}}\n"
    )
    (folder / "judges" / "long.yaml").write_text("scale: [0, 100]\nengine: {kind: program, program: length}\n")
    doctor = care(folder, "doctor", "--json")
    assert "judge 'reward' uses the scale 0 to 100 (inferred): its scores are rescaled" in doctor
    care(folder, "run")
    panel = read_panel(folder)
    assert panel.judges == ("a", "b", "c", "long", "reward")
    want = np.where(blank[:, 3], np.nan, 1 + 0.09 * columns["reward"])
    place = [panel.item_ids.index(f"i{k:03d}") for k in range(120)]
    np.testing.assert_allclose(panel.select_judges(["reward"]).values[place, 0], want, rtol=1e-12)
    asked = dict(
        query(
            folder,
            "SELECT item_id, value FROM scores JOIN items USING (item_ix) JOIN judges USING (judge_ix) "
            "WHERE judge = 'long'",
        )
    )
    own = np.array([asked[item] for item in panel.item_ids])
    np.testing.assert_allclose(panel.select_judges(["long"]).values[:, 0], 1 + 0.09 * own, rtol=1e-12)
    answer = [row[0] for row in query(folder, "SELECT estimate FROM aggregates")]
    assert 1 <= min(answer) <= max(answer) <= 10
    assert "nothing to do" in care(folder, "run")


def read_panel(folder):
    """Return the matrix of the fit of the test set ``one``."""
    return load_workspace(folder).fit_folder("one").read_panel()
