"""Tests of realistic files: items named by several columns, repeated judges, nested scores."""

import numpy as np
import pandas as pd
import pytest

import care_eval
from assets.labels import read_labels
from assets.table.fitting import TableConfig, systems_of
from assets.table.reading import TableInputs, read_table
from care_ops.errors import InputError
from warehouse.sources.files import ignore_reading, read_items, read_scores
from warehouse.testsets import ReadingOptions, ScoreColumns

JUDGES = ("gpt", "claude", "qwen", "llama", "mistral")


@pytest.fixture
def answers() -> pd.DataFrame:
    """Return twenty questions by three systems, the first the best: a row for each answer, a column for each judge."""
    rng = np.random.default_rng(4)
    rows = [(f"q{k}", f"s{s}", rng.normal() - s) for k in range(20) for s in range(3)]
    frame = pd.DataFrame({"question_id": [q for q, _, _ in rows], "model": [s for _, s, _ in rows]})
    for judge in JUDGES:
        frame[judge] = [int(np.clip(np.round(5.5 + 2 * z + rng.normal()), 1, 10)) for _, _, z in rows]
    return frame


def long(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.melt(["question_id", "model"], JUDGES, "judge", "score")


def test_an_answer_is_an_item_by_its_question_and_its_system(answers, tmp_path):
    path, readings = tmp_path / "scores.csv", []
    answers.to_csv(path, index=False)
    wide = read_scores(path, report=readings.append).scores
    assert readings[0].columns["item"] == "question_id,model"
    assert wide.judges == JUDGES
    assert wide.item_ids[:4] == ("q0 / s0", "q0 / s1", "q0 / s2", "q1 / s0")
    np.testing.assert_array_equal(wide.values, answers[list(JUDGES)].to_numpy())
    of_long = read_scores(long(answers)).scores
    assert of_long.judges == JUDGES
    np.testing.assert_array_equal(of_long.values, wide.values)


def test_several_columns_are_named_with_commas_between_them(answers):
    renamed = answers.rename(columns={"question_id": "topic", "model": "bot"})
    with pytest.raises(InputError, match="no column is called item_id"):
        read_scores(renamed)
    with pytest.raises(InputError, match="name all columns that identify an item"):
        read_scores(renamed, ScoreColumns(item_id="topic"))
    recorded = read_scores(renamed, ScoreColumns(item_id="topic,bot"))
    assert recorded.scores.item_ids[1] == "q0 / s1"
    assert recorded.item_values["q0 / s1"] == {"topic": "q0", "bot": "s1"}


def test_a_column_of_systems_that_parts_nothing_does_not_join_the_ids(answers):
    one = answers[answers.model == "s1"]
    recorded = read_scores(one)
    assert recorded.scores.item_ids[0] == "q0"
    assert recorded.item_values["q0"] == {"model": "s1"}


def test_systems_are_compared_without_a_table_of_items(answers):
    table = read_table(TableInputs(long(answers)), ScoreColumns(), ReadingOptions(), ignore_reading)
    assert systems_of(table, TableConfig(systems=("model",)))[:4] == [("s0",), ("s1",), ("s2",), ("s0",)]
    assert table.items["q1 / s2"].split_unit == "q1"


def test_items_and_labels_that_have_both_columns_go_with_the_scores(answers, tmp_path):
    items = answers[["question_id", "model"]].assign(response="an answer")
    records = read_items(items)
    assert records[1].item_id == "q0 / s1"
    assert records[1].split_unit == "q0"
    assert records[1].metadata == {"model": "s1"}
    labels = items[:30].assign(label=[int(model == "s0") for model in items.model[:30]], drawn="random")
    assert list(read_labels(labels, "question_id,model").values)[:2] == ["q0 / s0", "q0 / s1"]
    rates = care_eval.rate(long(answers), labels, system="model", label_bounds=None)
    assert rates.rates[0].system == "s0"
    assert {rate.system for rate in rates.rates} == {"s0", "s1", "s2"}
    assert rates.rates[0].value > 0.8 > 0.3 > rates.rates[1].value


def test_pairs_as_an_arena_writes_them():
    rows = [(k, "a", "b", judge, w) for k, w in enumerate(("model_a", "model_b", "tie")) for judge in JUDGES]
    frame = pd.DataFrame(rows, columns=["question_id", "model_a", "model_b", "judge", "winner"])
    recorded = read_scores(frame)
    np.testing.assert_array_equal(recorded.scores.values, np.repeat([[1.0], [0.0], [0.5]], 5, axis=1))
    assert recorded.item_values["0"] == {"model_a": "a", "model_b": "b"}


def test_one_row_too_many_does_not_change_what_an_item_is(answers):
    rows = long(answers)
    with pytest.raises(
        InputError, match=r"several rows for item 'q0 / s0' and judge 'gpt'.*--item question_id,model,C"
    ):
        read_scores(pd.concat([rows, rows[:1]]))


def test_the_id_of_a_pair_takes_precedence_over_its_question():
    frame = pd.DataFrame(
        {
            "pair_id": ["a", "b"] * 3,
            "question_id": "q",
            "judge": ["x", "x", "y", "y", "z", "z"],
            "winner": ["A", "B"] * 3,
        }
    )
    assert read_scores(frame).scores.item_ids == ("a", "b")
