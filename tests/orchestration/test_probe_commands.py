"""``care probes make`` and ``care fit --probes``: versions out, scores in, and what a bad file is told."""

import csv
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestration.cli.app import app
from tests.support.probed_sets import DEMO_JUDGES, probed_set
from warehouse.probes import KINDS

KEPT, SPOILT = ("padding", "formatting", "citation"), ("other_prompt", "all_facts")


def care(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The demo's items and scores by twelve programs, and the versions as the same programs judge them."""
    folder = tmp_path_factory.mktemp("probes")
    panel = probed_set("demo").of_judges(DEMO_JUDGES)
    with (folder / "items.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", "prompt", "response", "reference", "gold", "split_unit"])
        for r in panel.records:
            writer.writerow([r.item_id, r.prompt, r.response, r.reference, r.gold, r.split_unit])
    with (folder / "scores.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", "judge", "score"])
        for judge, column in zip(panel.scores.judges, panel.scores.values.T, strict=True):
            writer.writerows((item, judge, score) for item, score in zip(panel.scores.item_ids, column, strict=True))
    given = [word for kind in (*KEPT, *SPOILT) for word in ("--kind", kind)]
    made = care("probes", "make", folder / "items.csv", "--out", folder / "probes.csv", *given)
    assert made.exit_code == 0, made.output
    assert "wrote 298 versions" in made.output
    return folder


@pytest.fixture(scope="module")
def judged(files):
    """``judged.csv`` beside the others, by judges outside: here the programs themselves."""
    from judges.engines.program import ProgramJudgeEngine
    from judges.items import Item

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


def test_kinds_are_listed_and_none_is_taken_for_granted(files):
    listed = json.loads(care("probes", "kinds", "--json").output)
    assert {row["kind"]: row["quality"] for row in listed} == {k.name: k.effect for k in KINDS.values()}
    refused = care("probes", "make", files / "items.csv", "--out", files / "no.csv")
    assert refused.exit_code == 2
    assert "name the kinds that are true of these items" in refused.output
    unknown = care("probes", "make", files / "items.csv", "--out", files / "no.csv", "--kind", "pading")
    assert unknown.exit_code == 2
    assert "no kind 'pading'" in unknown.output
    assert not (files / "no.csv").exists()


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


def test_probes_are_graded_as_people_write_grades(files, tmp_path):
    """Words in an order that is declared, and per cents, are read as those of the scores are."""
    with (files / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    words = ("dreadful", "so so", "splendid")
    ranks = np.searchsorted(
        np.quantile([float(row["score"]) for row in rows], [0.3, 0.7]), [float(r["score"]) for r in rows]
    )
    lines = [f"{row['item_id']},{row['judge']},{words[rank]}" for row, rank in zip(rows, ranks, strict=True)]
    (tmp_path / "scores.csv").write_text("\n".join(["item_id,judge,score", *lines]) + "\n")
    header, probe = "item_id,of,kind,judge,score", tmp_path / "probes.csv"
    probe.write_text(f"{header}\nv,{ITEM},padding,length,so so\nw,{ITEM},all_facts,length,dreadful\n")
    given = ("fit", tmp_path / "scores.csv", "--aggregator", "avg", "--intervals", 0, "--out", tmp_path / "out")
    result = care(*given, "--probes", probe, "--grades", ",".join(words))
    assert result.exit_code == 0, result.output
    (read,) = json.loads((tmp_path / "out" / "fit.json").read_text())["provenance"]["readings"][1:]
    assert "'dreadful' as 1 (1), 'so so' as 2 (1), 'splendid' as 3 (0)" in " ".join(read["notes"])
    probe.write_text(f"{header}\nv,{ITEM},padding,length,fine\n")
    result = care(*given, "--probes", probe, "--grades", ",".join(words))
    assert result.exit_code == 2
    assert "'fine' (line 2)" in result.output.replace("\n", " ")


def test_an_own_kind_says_what_it_does(files, tmp_path):
    path = tmp_path / "own.csv"
    header = "item_id,of,kind,effect,judge,score\n"
    path.write_text(f"{header}v,{ITEM},gilding,keeps,length,3\n")
    result = care("fit", files / "scores.csv", "--out", tmp_path / "out", "--intervals", 0, "--probes", path)
    assert result.exit_code == 0, result.output
    path.write_text(f"{header}v,{ITEM},gilding,improves,length,3\n")
    result = care("fit", files / "scores.csv", "--out", tmp_path / "out", "--probes", path)
    assert result.exit_code == 2
    assert "effect is 'improves' (line 2); write keeps or spoils" in result.output.replace("\n", " ")


def test_scores_outside_the_scale_and_missing_ones_do_no_harm(judged, tmp_path):
    rows = (judged / "judged.csv").read_text().splitlines()
    rng = np.random.default_rng(0)
    holed = [rows[0], *(r[: r.rindex(",") + 1] + ("99" if rng.random() < 0.1 else "") for r in rows[1:20]), *rows[20:]]
    path = tmp_path / "holed.csv"
    path.write_text("\n".join(holed) + "\n")
    options = ("--scale", 0, 10, "--aggregator", "care", "--intervals", 0, "--out", tmp_path / "out")
    result = care("fit", judged / "scores.csv", *options, "--probes", path)
    assert result.exit_code == 0, result.output


def test_the_page_says_in_words_what_moves_each_judge(judged, tmp_path):
    options = ("--aggregator", "care", "--intervals", 0, "--out", tmp_path / "out")
    for given, shown in (((), False), (("--probes", judged / "judged.csv"), True)):
        result = care("fit", judged / "scores.csv", *options, *given)
        assert result.exit_code == 0, result.output
        page = (tmp_path / "out" / "report.html").read_text()
        assert ("What moves the judges" in page) == shown
    verdict = json.loads((tmp_path / "out" / "fit.json").read_text())["verdict"]
    sentence, number = verdict["sentence"], r"a probability (?:of|above) \d+ %"
    stated = set(re.findall(number, page))
    assert len(stated) == 1
    assert stated == set(re.findall(number, json.dumps(verdict["reasons"]))), "one number, that of the verdict"
    assert ("Probes have settled" in page) == sentence.startswith("Probes have settled")
    assert "sd when an answer is padded" in page
    assert page.index("<td>reference_precision</td>") < page.index("<td>length</td>"), "who falls most comes first"
