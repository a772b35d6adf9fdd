"""Tests of files that other tools wrote: the scores, texts and labels of two panels are imported unchanged.

The tools wrote the files in ``imported``, as its README states; events and settings, which no importer reads, are
removed. The files of Langfuse and of the released CARE code are written here by their documentation, because neither
can run offline.
"""

import json
import re
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import care_eval
from care_ops.errors import InputError
from tests.support.workspaces import typed, write_table
from warehouse.importers.collected import Collector, number_of
from warehouse.importers.registry import IMPORTERS, read_import
from warehouse.items import ItemRecord
from warehouse.testsets import ImportSource

FILES = Path(__file__).parent / "imported"
PANELS = json.loads((FILES / "panels.json").read_text())
MADE_BY_TOOLS = {
    "inspect_ai": "inspect_ai/{panel}.eval",
    "lm_eval": "lm_eval/{panel}",
    "alpaca_eval": "alpaca_eval/{panel}",
    "promptfoo": "promptfoo/{panel}.json",
    "deepeval": "deepeval/{panel}",
    "phoenix": "phoenix/{panel}",
}
WITHOUT_LABELS = {"lm_eval", "alpaca_eval"}


def write_langfuse(folder: Path, panel: dict) -> Path:
    """Write an export of Langfuse to a blob storage, as its documentation describes it."""
    for name in ("scores", "observations_v2"):
        (folder / name).mkdir(parents=True)
    scores, observations = [], []
    for k, (row, label) in enumerate(zip(panel["scores"], panel["labels"], strict=True)):
        trace = {"trace_id": f"trace-{k}"}
        for judge, value in zip(panel["judges"], row, strict=True):
            scores.append({**trace, "name": judge, "value": value, "string_value": None, "source": "EVAL"})
        scores.append({**trace, "name": "quality", "value": label, "source": "ANNOTATION"})
        observations.append(
            {**trace, "parent_observation_id": None, "input": f"What is {k}+{k}?", "output": str(2 * k)}
        )
        observations.append({**trace, "parent_observation_id": "x", "input": "a step", "output": "inside"})
    for name, rows in (("scores", scores), ("observations_v2", observations)):
        (folder / name / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_released(folder: Path, panel: dict) -> Path:
    """Write judges of the released CARE code, the second in another order of rows."""
    folder.mkdir(parents=True)
    for column, judge in enumerate(panel["judges"]):
        rows = [
            (f"What is {k}+{k}?", label, "raw", row[column])
            for k, (row, label) in enumerate(zip(panel["scores"], panel["labels"], strict=True))
        ]
        columns = ("text", "label", "raw_output", "parsed_output")
        write_table(folder / f"{judge}.csv", columns, rows[::-1] if column == 1 else rows)
    return folder


def path_of(kind: str, panel: str, folder: Path) -> Path:
    if kind == "langfuse":
        return write_langfuse(folder / "export", PANELS[panel])
    if kind == "care_release":
        return write_released(folder / "judge_outputs" / "gpt" / "toy", PANELS[panel])
    return FILES / MADE_BY_TOOLS[kind].format(panel=panel)


def number(record: ItemRecord) -> int:
    """Return the number of the panel's item in a record."""
    text = record.prompt or record.response or ""
    return int(re.search(r"What is (\d)\+", text)[1])


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("kind", IMPORTERS)
def test_two_panels_come_back_to_the_same_digits(kind, panel, tmp_path):
    expected = np.array(PANELS[panel]["scores"])
    if kind == "alpaca_eval":  # 1 for the left answer, 0 for the right
        expected = 2 - (1 + expected / (10 if panel == "grades" else 1))
    imported = read_import(kind, path_of(kind, panel, tmp_path))
    assert sorted(imported.judges) == sorted(PANELS[panel]["judges"])
    found = np.full(expected.shape, np.nan)
    for (item, judge), score in imported.scores.items():
        found[number(imported.items[item]), PANELS[panel]["judges"].index(judge)] = score
    np.testing.assert_array_equal(found, expected)
    labels = {number(record): record.gold for record in imported.items.values()}
    if kind not in WITHOUT_LABELS:
        assert labels == dict(enumerate(PANELS[panel]["labels"]))


@pytest.mark.parametrize("kind", IMPORTERS)
def test_the_command_writes_tables_that_a_fit_takes(kind, tmp_path):
    path, scores, items = path_of(kind, "grades", tmp_path), tmp_path / "scores.parquet", tmp_path / "items.parquet"
    printed = typed("import", kind, path, "--out", scores, "--items", items)
    assert f"care fit {scores} --items {items}" in printed
    assert "8 items, 3 judges ('" in printed
    result = care_eval.fit(scores, items=items, aggregators="avg", intervals=0, admit="all")
    expected = np.array(PANELS["grades"]["scores"]).mean(axis=1)
    if kind == "alpaca_eval":
        expected = 1 - expected / 10
    np.testing.assert_allclose(np.sort(result.estimate), np.sort(expected), rtol=1e-12)
    assert (result.table.page.evaluations == {}) == (kind in WITHOUT_LABELS)


def test_a_panels_single_votes_are_imported_and_not_the_tools_majority():
    imported = read_import("inspect_ai", FILES / "inspect_ai" / "graded.json")
    models = [f"model_graded_qa1:mockllm/judge_{letter}" for letter in "abc"]
    assert imported.judges == ["model_graded_qa", *models, "criteria/helpful", "criteria/harmless"]
    assert "scorer 'model_graded_qa1': its 3 models are judges; their majority vote is not used" in imported.notes
    log = json.loads((FILES / "inspect_ai" / "graded.json").read_text())
    for sample in log["samples"]:
        epoch = "" if sample["epoch"] == 1 else f"#{sample['epoch']}"
        item = f"{sample['id']}{epoch}@mockllm/model"
        votes = sample["scores"]["model_graded_qa1"]["metadata"]["panel"]["votes"]
        assert [imported.scores[item, model] for model in models] == [float(vote == "C") for vote in votes]
    assert len(imported.items) == 6, "an epoch is an item of its own"


def test_an_imported_item_names_its_system():
    record = read_import("inspect-ai", FILES / "inspect_ai" / "grades.eval").items["q3@mockllm/model"]
    assert (record.prompt, record.reference, record.gold) == ("What is 3+3?", "6", 1.0)
    assert record.metadata["system"] == "mockllm/model"
    pair = next(iter(read_import("alpaca_eval", FILES / "alpaca_eval" / "votes").items.values()))
    assert pair.metadata == {"left": "reference-model", "right": "our-model"}
    assert pair.response.startswith("reference: ")
    assert pair.response_2.startswith("ours: ")


def test_a_log_that_did_not_end_is_left_out_and_a_newer_one_counts(tmp_path):
    log = json.loads((FILES / "inspect_ai" / "graded.json").read_text())
    newer = json.loads(json.dumps(log))
    newer["eval"]["created"] = "2027-01-01T00:00:00+00:00"
    for sample in newer["samples"]:
        sample["scores"]["criteria"]["value"]["helpful"] = 1
    for name, document in (("1", newer), ("2", log), ("3", {**log, "status": "cancelled"})):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    imported = read_import("inspect_ai", tmp_path)
    assert {score for (_, judge), score in imported.scores.items() if judge == "criteria/helpful"} == {1.0}
    assert "left out: 3.json (status 'cancelled'); complete the run in inspect_ai" in imported.notes
    assert "judge 'criteria/helpful' scored 6 items more than once: the last score of each is used" in imported.notes


def test_a_judge_that_failed_has_no_score(tmp_path):
    log = json.loads((FILES / "inspect_ai" / "graded.json").read_text())
    log["samples"][0]["scores"]["model_graded_qa"]["value"] = float("nan")
    log["samples"][0]["scores"]["model_graded_qa1"]["metadata"]["panel"]["votes"][1] = None
    (tmp_path / "log.json").write_text(json.dumps(log))
    imported = read_import("inspect_ai", tmp_path / "log.json")
    assert imported.scores["q0@mockllm/model", "model_graded_qa"] is None
    assert imported.scores["q0@mockllm/model", "model_graded_qa1:mockllm/judge_b"] is None
    assert imported.scores["q0@mockllm/model", "model_graded_qa1:mockllm/judge_c"] is not None


def test_several_tasks_are_refused_and_the_models_of_one_are_systems(tmp_path):
    for name in ("grades", "votes"):
        shutil.copytree(FILES / "lm_eval" / name, tmp_path / "both", dirs_exist_ok=True)
    with pytest.raises(InputError, match=r"samples of 2 tasks \(grades, votes\); give a file or a folder of one task"):
        read_import("lm_eval", tmp_path / "both")
    for model in ("first", "second"):
        shutil.copytree(FILES / "lm_eval" / "grades", tmp_path / "models" / model)
        (results,) = (tmp_path / "models" / model).glob("results_*.json")
        results.write_text(json.dumps({"model_name": model}))
    imported = read_import("lm_eval", tmp_path / "models")
    assert len(imported.items) == 16
    assert {record.metadata["system"] for record in imported.items.values()} == {"first", "second"}


def test_rows_in_another_order_are_joined_by_text(tmp_path):
    imported = read_import("care_release", path_of("care_release", "grades", tmp_path))
    assert [note for note in imported.notes if "judge 'kind': 8 rows are not in the first file's order" in note]
    assert not [note for note in imported.notes if "'strict'" in note]


def test_both_layouts_of_a_test_run_are_read():
    folder = FILES / "deepeval" / "grades"
    full, latest = (
        read_import("deepeval", folder / name) for name in (".latest_run_full.json", ".latest_test_run.json")
    )
    assert full.scores == latest.scores


def test_every_form_of_annotations_gives_the_same_scores():
    folder = FILES / "phoenix" / "grades"
    forms = [folder / "annotations.jsonl", *sorted((FILES / "phoenix" / "forms").iterdir())]
    expected = read_import("phoenix", forms[0]).scores
    assert {form.suffix for form in forms} == {".jsonl", ".csv", ".json"}
    for form in forms[1:]:
        assert read_import("phoenix", form).scores == expected, form


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("C", 1.0),
        ("I", 0.0),
        ("P", 0.5),
        ("N", 0.0),
        (True, 1.0),
        ("False", 0.0),
        ("Yes", 1.0),
        ("7.25", 7.25),
        (float("nan"), None),
        ("", None),
        (None, None),
        ("great", "great"),
        (float("inf"), "inf"),
    ],
)
def test_a_value_is_a_number_missing_or_a_word(value, number):
    assert number_of(value) == number


def test_words_among_numbers_are_refused_and_a_judge_of_words_is_left_out():
    collector = Collector("log.json", [])
    for item, score, style in (("a", 1, "warm"), ("b", 2, "cold")):
        collector.add_score(item, "score", score)
        collector.add_score(item, "style", style)
    assert collector.finished().judges == ["score"]
    assert collector.finished().notes == (
        "left out: judge 'style', because its scores are words: 'warm' (item 'a'), 'cold' (item 'b'); "
        "convert them to numbers",
    )
    collector.add_score("c", "score", "good")
    with pytest.raises(InputError, match=r"judge 'score' are numbers and the words 'good' \(item 'c'\)"):
        collector.finished()


@pytest.mark.parametrize("kind", IMPORTERS)
def test_what_is_no_file_of_the_tool_is_refused_in_a_sentence(kind, tmp_path):
    (tmp_path / "empty").mkdir()
    names = ("x.json", "samples_a_2026-01-01T00-00-00.jsonl", "annotations.json", "x.csv", ".latest_run_full.json")
    for name in names:
        (tmp_path / name).write_text("some,thing\nelse,1\n" if name.endswith("csv") else '{"some": "thing"}\n')
    for path in (tmp_path / "nowhere", tmp_path / "empty", *(tmp_path / name for name in names)):
        with pytest.raises(InputError) as caught:
            read_import(kind, path)
        assert str(tmp_path) in str(caught.value)
        assert len(str(caught.value)) < 600
    with pytest.raises(InputError, match="CARE has no importer for 'word'; choose one of inspect_ai"):
        read_import("word", tmp_path)


def test_the_command_names_what_it_can_write(tmp_path):
    refused = typed("import", "deepeval", FILES / "deepeval" / "grades", "--out", tmp_path / "scores.xlsx", code=2)
    assert "choose a name that ends in .parquet or .csv" in refused


def test_every_tool_is_named_wherever_a_person_reads_or_writes_its_name():
    """A new importer must be in the help of `care import`, in the test set's file and in the documentation."""
    assert {*get_args(ImportSource.model_fields["tool"].annotation)} == {*IMPORTERS}
    help_text = typed("import", "--help")
    documented = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    assert not [name for name in IMPORTERS if name not in help_text or f"`{name}`" not in documented]
