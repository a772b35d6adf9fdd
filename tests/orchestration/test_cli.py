"""Tests of files, output and exit codes of the commands."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import care_eval
from tests.support.workspaces import JUDGES, make, typed, typed_json, typed_line, write_items, write_table


@pytest.fixture
def scores(tmp_path, rng):
    quality = enumerate(rng.normal(size=60))
    rows = [(f"{k:03d}", f"judge {j}", f"{5 + q + rng.normal(scale=0.7):.3f}") for k, q in quality for j in range(6)]
    return write_table(tmp_path / "scores.csv", ("item_id", "judge", "score"), rows)


def test_fit_writes_the_documented_files(tmp_path, scores):
    families, labels, items = tmp_path / "judges.csv", tmp_path / "labels.csv", tmp_path / "items.csv"
    families.write_text("judge,family\njudge 0,a\njudge 1,a\n")
    labels.write_text("item_id,label\n000,5\n001,6\n002,4\n")
    items.write_text(
        "item_id,response,gold,split_unit,model\n"
        + "".join(f"{k:03d},text {'long ' * k},{k % 7},u{k // 2},{'ab'[k % 2]}\n" for k in range(60))
    )
    out = tmp_path / "out"
    given = ("--items", items, "--judges", families, "--labels", labels, "--systems", "model")
    printed = typed_json("fit", scores, *given, "--out", out)
    names = {"aggregates.parquet", "judges.parquet", "fit.json", "report.html", "items.html", "to_label.csv"}
    assert {p.name for p in out.iterdir()} == names
    aggregates = pq.read_table(out / "aggregates.parquet")
    assert aggregates.column_names == ["item_id", "aggregator", "estimate", "sd", "p_quality"]
    assert aggregates.num_rows == 60 * 6
    assert aggregates.column("p_quality").null_count == 360, "no probability without twenty binary labels"
    judges = pq.read_table(out / "judges.parquet")
    assert judges.column_names == ["judge", "aggregator", "weight", "lo", "hi", "loadings", "flags"]
    for row in judges.to_pylist():
        if row["aggregator"] == "care":
            assert row["lo"] <= row["weight"] <= row["hi"]
        assert (row["lo"] is None) == (row["weight"] is None)
    weights = {r["judge"]: r["weight"] for r in judges.to_pylist() if r["aggregator"] == "care_svd"}
    assert sum(abs(w) for w in weights.values()) == pytest.approx(1)
    fit = json.loads((out / "fit.json").read_text())
    assert fit["provenance"]["labels_seen"] == 3
    assert fit["aggregates"]["care_svd"]["details"]["certificate"]["converged"]
    (difference,) = fit["systems"]["comparisons"]
    assert {difference["first"], difference["second"]} == {"a", "b"}
    assert difference["lo"] < difference["difference"] < difference["hi"]
    # two items share a split unit: three labels leave out four items
    assert {e["n"] for e in fit["evaluation"].values()} == {56}
    assert printed["verdict"] == fit["verdict"]
    assert [row["labels"] for row in printed["aggregates"]] == [3, 0, 0, 0, 3, 3]


def test_select_evaluates_on_the_items_that_did_not_affect_the_choice(tmp_path, scores):
    items = tmp_path / "items.csv"
    items.write_text("item_id,gold,split_unit\n" + "".join(f"{k:03d},{k % 7},u{k // 3}\n" for k in range(60)))
    document = typed_json("select", scores, "--items", items)
    assert len(document["grid"]) == 11
    assert sum(row["chosen"] == "<" for row in document["grid"]) == 1
    assert {row["n"] for row in document["measured_on_the_rest"]} == {60 - document["labels_used"]}
    assert document["labels_used"] % 3 == 0
    items.write_text("item_id\n" + "".join(f"{k:03d}\n" for k in range(60)))
    assert "no item has gold; add the column `gold`" in typed_line("select", scores, "--items", items, code=2)


def test_order_against_binary_gold_is_reported_as_auc(tmp_path, rng):
    """The majority vote, with two values, would be better by tau-b and is worse by AUC."""
    good = rng.random(200) < 0.3
    votes = rng.random((200, 10)) < np.where(good[:, None], 1, 0) * 0.5 + 0.25
    scores, items, out = tmp_path / "scores.csv", tmp_path / "items.csv", tmp_path / "out"
    heads = ",".join(f"judge {j}" for j in range(10))
    rows = (f"q{k}," + ",".join(str(int(vote)) for vote in row) for k, row in enumerate(votes))
    scores.write_text("\n".join([f"item_id,{heads}", *rows]) + "\n")
    items.write_text("item_id,gold\n" + "".join(f"q{k},{1 + 4 * int(g)}\n" for k, g in enumerate(good)))
    reported = ("--items", items, "--out", out, "--intervals", 0, "--aggregator", "avg", "--aggregator", "mv")
    fit, chosen = typed("fit", scores, *reported, "--why"), typed("select", scores, "--items", items)
    evaluated = json.loads((out / "fit.json").read_text())["evaluation"]
    assert evaluated["mv"]["tau"] > evaluated["avg"]["tau"], "as tau-b has it"
    assert evaluated["mv"]["auc"] < evaluated["avg"]["auc"]
    for printed in (fit, chosen.partition("held-out items")[2].partition("with these penalties")[0]):
        assert "auc" in printed
        assert "tau" not in printed
    assert '<th class="n">AUC' in (page := (out / "report.html").read_text())
    assert "Kendall τ" not in page
    result = repr(care_eval.fit(scores, items=items, aggregators=["avg"], intervals=0))
    assert "agreement with gold (AUC): avg " in result


def test_columns_are_named_by_options(tmp_path, scores, rng):
    """The wide table is as pandas writes it: an index before the ids, and gold and a length among the judges."""
    out = tmp_path / "out"
    renamed = tmp_path / "renamed.tsv"
    renamed.write_text(scores.read_text().replace("item_id,judge,score", "thing,model,stars"))
    long = ("--item", "thing", "--judge", "model", "--score", "stars", "--separator", ",", "--intervals", 0)
    printed = typed_line("fit", renamed, *long, "--out", out)
    assert "long table: item is 'thing', judge is 'model', score is 'stars'" in printed
    quality = enumerate(rng.normal(size=60))
    rows = [(k, f"i{k}", *(5 + q + rng.normal(scale=0.7, size=3)).round(3), q, 100 + k) for k, q in quality]
    wide = write_table(tmp_path / "wide.csv", ("", "thing", "a", "b", "c", "gold", "length"), rows)
    given = ("--item", "thing", "--judge", "a", "--judge", "b", "--judge", "length", "--admit", "all", "--intervals", 0)
    assert "the judges are 'a', 'b', 'length'" in typed_line("fit", wide, *given, "--out", out)
    for bad, sentence in (
        (("--judge", "a", "--judge", "b", "--score", "c"), "--score is for a table with a row for each score"),
        (("--judge", "a", "--judge", "b", "--drop", "c"), "remove --drop"),
        (("--judge", "nobody"), "no column 'nobody'; choose one of"),
        (("--separator", "ab"), "give one ASCII character"),
        (("--decimal", "!"), "use '.' or ','"),
        (("--encoding", "nonsense"), "the encoding 'nonsense' is unknown"),
    ):
        assert sentence in typed_line("fit", wide, "--item", "thing", *bad, "--out", tmp_path / "bad", code=2)
    assert not (tmp_path / "bad").exists()


def test_invalid_files_and_options_exit_with_two(tmp_path, scores):
    labels = tmp_path / "labels.csv"
    labels.write_text("item_id,label\nnobody,1\n")
    out = tmp_path / "out"
    for words, sentence in (
        ((tmp_path / "nowhere.csv", "--out", out), "no such file"),
        ((scores, "--out", out, "--admit", "some"), "admit must be 'rule' or 'all', got 'some'"),
        ((scores, "--out", scores), "is a file"),
        ((scores, "--out", out, "--labels", labels), "'nobody'"),
        ((scores, "--out", out, "--items", labels), "the table lacks 60 scored items"),
    ):
        assert sentence in typed_line("fit", *words, code=2)
        assert not out.exists()


def test_a_panel_that_admits_no_judge_fails_with_the_reasons(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("item_id,a,b\n" + "".join(f"{k},1,{k % 2 if k < 3 else ''}\n" for k in range(60)))
    assert "a: degenerate" in typed("fit", path, "--out", tmp_path / "out", code=1)


def test_a_missing_workspace_and_invalid_settings_are_refused(tmp_path):
    for command in ("run", "status", "report"):
        assert "care init" in typed(command, "--workspace", tmp_path, code=2)
    (tmp_path / "care.yaml").write_text("panel: {admit: perhaps}\nfoo: 1\n")
    printed = typed("run", "--workspace", tmp_path, code=2)
    assert "panel.admit" in printed
    assert "foo" in printed


def test_status_shows_missing_stale_and_counts(tmp_path, workspace_after_run):
    states = typed_json("status", "--workspace", make(tmp_path / "new", n=30))
    assert {s["state"] for s in states} == {"missing"}
    assert not (tmp_path / "new" / "data").exists(), "it creates no storage of Dagster"
    assert len(states) == len(JUDGES)
    folder = workspace_after_run
    states = typed_json("status", "--workspace", folder)
    assert {s["state"] for s in states} == {"40 / 40"}
    write_items(folder, edited=3)
    states = typed_json("status", "--workspace", folder)
    assert {s["state"] for s in states} == {"stale"}
    table = [line for line in typed("status", "--workspace", folder).splitlines() if line.startswith("│")]
    assert len(table) == len(JUDGES)
    assert all("stale" in line and "40" not in line for line in table), table
    assert typed("report", "--workspace", folder).strip().endswith("index.html")


def test_doctor_reports_problems_that_would_fail_the_next_run(tmp_path):
    folder = make(tmp_path / "ws")
    typed("doctor", "--workspace", folder)
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: oracle}\n")
    failing = [row for row in typed_json("doctor", "--workspace", folder, code=1) if row["state"] == "fails"]
    assert len(failing) == 1
    assert "no program judge 'oracle'" in failing[0]["what"]
    (folder / "judges" / "oracle.yaml").unlink()
    (folder / "care.yaml").write_text("panel: {min_gain: 0.2}\n")
    assert "panel.min_gain: not a setting here" in typed_line("doctor", "--workspace", folder, code=1)


def test_a_workspace_of_three_endpoints_has_three_vendors_and_listed_prices(tmp_path, monkeypatch):
    from orchestration.workspace import load_workspace

    folder = tmp_path / "ws"
    typed("init", folder, "--template", "empty")
    typed("judges", "new", "--panel", "endpoints", "--workspace", folder)
    rows = [f"i{k},Question {k}?,An answer" for k in range(5)]
    (folder / "one.csv").write_text("\n".join(["item_id,prompt,response", *rows]) + "\n")
    spec = "source: {kind: files, items: one.csv}\nscale: [0, 10]\nprompt: answer_rating\n"
    (folder / "testsets" / "one.yaml").write_text(spec)
    engines = [spec.engine for spec in load_workspace(folder).judges.values()]
    assert len({spec.family for spec in load_workspace(folder).judges.values()}) == 3
    assert len({engine.base_url for engine in engines}) == 3
    keys = {engine.api_key_env for engine in engines}
    assert len(keys) == 3
    for key in keys:
        monkeypatch.delenv(key, raising=False)
    reported = typed_line("doctor", "--workspace", folder, code=1)
    assert all(f"{key} is not set" in reported for key in keys)
    forecast = typed_json("run", "--dry-run", "--workspace", folder)
    assert len(forecast) == 3
    assert all(row["dollars"] > 0 and row["tokens"] > 0 and not row["failure"] for row in forecast)
    assert reported.count("CARE cannot enforce the judge's spend_limit") == 0
    for file in (folder / "judges").glob("*.yaml"):
        file.write_text(file.read_text().replace("model: ", "model: unheard-of-"))
    forecast = typed_json("run", "--dry-run", "--workspace", folder)
    assert all(row["dollars"] is None for row in forecast)
    assert typed_line("doctor", "--workspace", folder, code=1).count("CARE cannot enforce the judge's spend_limit") == 3
