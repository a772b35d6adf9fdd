"""``care probes make`` and ``care fit --probes``: versions out, scores in, and what a bad file is told."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from judges import panels
from judges.engines.program import ProgramJudgeEngine
from judges.items import Item
from orchestration.cli.app import app
from warehouse.sources.demo import generate

DEMO_JUDGES = panels.find("demo").programs
KEPT, SPOILT = ("padding", "formatting", "citation"), ("other_prompt", "all_facts")


def care(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The demo's items and scores by twelve programs, and the versions as the same programs judge them."""
    folder = tmp_path_factory.mktemp("probes")
    records = sorted(generate(), key=lambda record: record.item_id)
    items = [Item(r.item_id, r.prompt, r.response, r.response_2, r.reference) for r in records]
    with (folder / "items.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", "prompt", "response", "reference", "gold", "split_unit"])
        for r in records:
            writer.writerow([r.item_id, r.prompt, r.response, r.reference, r.gold, r.split_unit])
    with (folder / "scores.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", "judge", "score"])
        for judge in DEMO_JUDGES:
            scores = ProgramJudgeEngine(judge, None).score(items)
            writer.writerows((item.item_id, judge, score.score) for item, score in zip(items, scores, strict=True))
    given = [word for kind in (*KEPT, *SPOILT) for word in ("--kind", kind)]
    made = care("probes", "make", folder / "items.csv", "--out", folder / "probes.csv", *given)
    assert made.exit_code == 0, made.output
    assert "wrote 298 versions" in made.output
    return folder


@pytest.fixture(scope="module")
def judged(files):
    """``judged.csv`` beside the others, by judges outside: here the programs themselves."""
    with (files / "probes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    items = [Item(r["item_id"], r["prompt"], r["response"], None, r["reference"]) for r in rows]
    with (files / "judged.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", "of", "kind", "judge", "score"])
        for judge in DEMO_JUDGES:
            for row, score in zip(rows, ProgramJudgeEngine(judge, None).score(items), strict=True):
                writer.writerow([row["item_id"], row["of"], row["kind"], judge, score.score])
    return files


def test_versions_come_back_judged_and_sharpen_the_answer_without_a_label(judged, tmp_path):
    tau = {}
    for name, given in (("without", ()), ("with", ("--probes", judged / "judged.csv"))):
        out = tmp_path / name
        options = ("--items", judged / "items.csv", "--aggregator", "care", "--intervals", 0, "--out", out)
        result = care("fit", judged / "scores.csv", *options, *given)
        assert result.exit_code == 0, result.output
        document = json.loads((out / "fit.json").read_text())
        tau[name] = document["evaluation"]["care"]["tau"]
        assert ("by_probes" in document["aggregates"]["care"]["details"]) == bool(given)
        assert document["aggregates"]["care"]["labels_used"] == 0
    assert tau["with"] > tau["without"] + 0.1


ITEM = "austria-00"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("v,nobody-1,padding,length,3", "item not among the scores: 'nobody-1' (line 2)"),
        (f"v,{ITEM},padding,nobody,3", "judge not among the scores: 'nobody' (line 2)"),
        (f"v,{ITEM},gilding,length,3", "kind is 'gilding' (line 2), which is none of padding"),
        (f"v,{ITEM},padding,length,good", "line 2"),
        (
            f"v,{ITEM},padding,length,3\nv,{ITEM},padding,length,4",
            "judge 'length' scores 'v' twice (line 2 and line 3)",
        ),
        (f"v,{ITEM},padding,length,3\nv,{ITEM},citation,length,4", "line 3 says that 'v' is of"),
        (f"v,{ITEM},padding,,3", "line 2"),
        (f"v,{ITEM},swap,length,3", "turned round at the middle of the scale; declare the scale"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(files, tmp_path, lines, says):
    path = tmp_path / "bad.csv"
    path.write_text(f"item_id,of,kind,judge,score\n{lines}\n")
    result = care("fit", files / "scores.csv", "--out", tmp_path / "out", "--probes", path)
    assert result.exit_code == 2, result.output
    assert says in result.output.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_scores_outside_the_scale_and_missing_ones_do_no_harm(judged, tmp_path):
    rows = (judged / "judged.csv").read_text().splitlines()
    rng = np.random.default_rng(0)
    holed = [rows[0], *(r[: r.rindex(",") + 1] + ("99" if rng.random() < 0.1 else "") for r in rows[1:20]), *rows[20:]]
    path = tmp_path / "holed.csv"
    path.write_text("\n".join(holed) + "\n")
    options = ("--scale", 0, 10, "--aggregator", "care", "--intervals", 0, "--out", tmp_path / "out")
    result = care("fit", judged / "scores.csv", *options, "--probes", path)
    assert result.exit_code == 0, result.output
