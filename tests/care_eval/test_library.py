"""Tests of the Python library: accepted inputs, and contents of a result."""

import doctest
import html
import json
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import care_eval
from assets.report.items import label_rows
from tests.support.workspaces import typed_line

JUDGES = ("gpt", "claude", "qwen", "noise")


@pytest.fixture
def wide(rng):
    quality = rng.normal(size=80)
    spread = {"gpt": 0.5, "claude": 0.7, "qwen": 1.0, "noise": 4.0}
    columns = {judge: 5 + quality + rng.normal(scale=spread[judge], size=80) for judge in JUDGES}
    return pd.DataFrame({"item_id": [f"i{k:02}" for k in range(80)], **columns})


@pytest.fixture
def long(wide):
    return wide.melt(id_vars="item_id", var_name="judge", value_name="score")


@pytest.fixture
def items(wide):
    return pd.DataFrame(
        {
            "item_id": wide["item_id"],
            "gold": wide["gpt"].round(),
            "model": ["new", "old"] * 40,
            "response": [f"text {k} " * (k % 5 + 1) for k in range(80)],
        }
    )


def fit(scores, **options):
    return care_eval.fit(scores, aggregators=["care", "avg"], intervals=0, **options)


def test_drift_along_the_file_is_asked_about_and_removed_from_shuffled_rows(rng):
    quality, place = rng.normal(size=300), np.linspace(-1.7, 1.7, 300)
    drift = np.array([0.9, 0.8, 0.7, 0.0, 0.0, 0.0])
    values = 0.7 * quality[:, None] + 0.7 * rng.normal(size=(300, 6)) + np.outer(place, drift)
    columns = {"item_id": [f"i{k:03}" for k in range(300)], **dict(zip("abcdef", values.T, strict=True))}
    asked, removed = fit(columns), fit(columns, shuffled=True)
    assert "as the column `gold` of `items`, not as `labels`, and set `cut=VALUE`" in str(asked.verdict)
    assert "`--shuffled`" in " ".join(step.sentence for step in asked.verdict.next_steps)
    assert "shuffled" not in str(removed.verdict)
    before, after = (np.corrcoef(result.estimate, quality)[0, 1] for result in (asked, removed))
    assert after > before + 0.03
    sorted_rows = {name: np.asarray(column)[np.argsort(quality)] for name, column in columns.items()}
    assert fit(sorted_rows).verdict.pill == "Check"


def test_every_form_of_the_same_scores_gives_the_same_digits(wide, long, tmp_path):
    long.to_csv(tmp_path / "long.csv", index=False)
    wide.to_parquet(tmp_path / "wide.parquet")
    forms = {
        "pandas, wide": wide,
        "pandas, long": long,
        "pandas, indexed by item": wide.set_index("item_id"),
        "polars": pl.from_pandas(wide),
        "arrow": pa.Table.from_pandas(long),
        "lists": {name: wide[name].tolist() for name in wide},
        "arrays": {name: wide[name].to_numpy() for name in wide},
        "DuckDB": duckdb.from_arrow(pa.Table.from_pandas(wide)),
        "CSV": tmp_path / "long.csv",
        "Parquet, by its name": str(tmp_path / "wide.parquet"),
    }
    expected = fit(wide)
    for form, scores in forms.items():
        result = fit(scores)
        assert result.items == expected.items, form
        np.testing.assert_array_equal(result.estimate, expected.estimate, form)


def test_the_library_and_the_command_give_the_same_digits(wide, items, tmp_path):
    wide.to_csv(tmp_path / "scores.csv", index=False)
    items.to_csv(tmp_path / "items.csv", index=False)
    words = ["fit", "scores.csv", "--items", "items.csv", "--scale", "0", "10", "--gamma", "2", "--seed", "3"]
    paths = [str(tmp_path / word) if word.endswith(".csv") else word for word in words]
    typed_line(*paths, "--intervals", 20, "--out", tmp_path / "command")
    below = tmp_path / "scores.csv" / "out"
    refused = typed_line(*paths, "--intervals", 0, "--out", below, code=2)
    assert f"{below}: the folder cannot be created" in refused
    result = care_eval.fit(wide, items=items, scale=(0, 10), gamma=2.0, seed=3, intervals=20)
    assert result.save(tmp_path / "library") == tmp_path / "library"
    for name in ("aggregates.parquet", "judges.parquet"):
        assert pq.read_table(tmp_path / "command" / name).equals(pq.read_table(tmp_path / "library" / name)), name
    command, library = (json.loads((tmp_path / name / "fit.json").read_text()) for name in ("command", "library"))
    assert library["provenance"]["config"] == command["provenance"]["config"]
    assert library["evaluation"] == command["evaluation"]


def test_families_and_labels_may_be_dictionaries_frames_series_or_columns(wide, items):
    families = {"gpt": "openai", "claude": "anthropic"}
    labels = {f"i{k:02}": float(k % 2) for k in range(20)}
    of_judges = {"judge": list(families), "family": list(families.values())}
    of_items = {"item_id": list(labels), "label": np.array(list(labels.values()))}
    given = fit(wide, judges=families, labels=labels)
    assert given.aggregates["care"].labels_used == 20
    rated = {"drawn": "random", "items": items, "system": "model"}
    for judges, as_labels in (
        (pd.DataFrame(of_judges), pl.DataFrame(of_items)),
        (pd.Series(families), pd.Series(labels)),
        (of_judges, of_items),
    ):
        np.testing.assert_array_equal(fit(wide, judges=judges, labels=as_labels).estimate, given.estimate)
        assert care_eval.rate(wide, as_labels, **rated).rates == care_eval.rate(wide, labels, **rated).rates
    with pytest.raises(
        care_eval.InputError, match="families: judge 'gemini' has no scores; remove the row, or use one of gpt, claude"
    ):
        fit(wide, judges={"gemini": "google"})
    with pytest.raises(care_eval.InputError, match="labels: columns differ in length"):
        care_eval.rate(wide, {"item_id": list(labels), "label": [1.0]}, drawn="random")


def test_with_labels_the_page_ranks_by_them_where_two_rankings_disagree(wide):
    labels = {f"i{k:02}": float(wide["noise"][k] > 5) for k in range(30)}
    free, labelled = (fit(wide, **given).table.page for given in ({}, {"labels": labels}))
    assert "CARE with labels" not in free.rivals
    rivals = labelled.rivals
    assert list(rivals) == ["CARE with labels", "plain average"]
    assert np.array_equal(rivals["CARE with labels"], labelled.aggregates["care"].estimate)
    first, *_, last = label_rows(labelled)
    assert abs(first.ranks[0] - first.ranks[1]) > abs(last.ranks[0] - last.ranks[1]) > 0


def test_labels_by_item_may_have_numbers_for_ids_and_words_for_labels(wide):
    numbered = wide.assign(item_id=range(1000, 1080))
    labels = {1000 + k: float(k % 2) for k in range(12)}
    as_frame = pd.DataFrame({"item_id": list(labels), "label": list(labels.values())})
    expected = fit(numbered, labels=as_frame)
    assert expected.aggregates["care"].labels_used == 12
    words = {item: "yes" if label else "no" for item, label in labels.items()}
    for given_labels in (labels, {item: str(label) for item, label in labels.items()}, words):
        np.testing.assert_array_equal(fit(numbered, labels=given_labels).estimate, expected.estimate)
    assert (
        care_eval.rate(numbered, words, drawn="random").rates == care_eval.rate(numbered, labels, drawn="random").rates
    )
    np.testing.assert_array_equal(fit(numbered, labels={}, judges={}).estimate, fit(numbered).estimate)
    with pytest.raises(care_eval.InputError, match="labels: column 'label' contains 'soso'"):
        fit(numbered, labels={1000: "soso", 1001: "no"})


def test_options_have_the_names_of_the_command_and_a_wrong_one_names_the_nearest(wide, items):
    named = care_eval.fit(wide, items=items.assign(extra=range(80)), feature="extra", aggregator="avg", intervals=0)
    assert list(named.aggregates) == ["avg"]
    with pytest.raises(care_eval.InputError, match=r"a fit has no option 'agregators'; .*did you mean 'aggregators'\?"):
        care_eval.fit(wide, agregators="avg")
    with pytest.raises(TypeError, match="gate has no argument 'margins'; did you mean margin"):
        care_eval.gate(wide, "new", "old", {}, margins=0.1, items=items, system="model")


def test_a_frame_of_strings_and_numbers_is_refused_in_the_words_of_python(long):
    long["score"] = [str(value) if k % 2 else value for k, value in enumerate(long["score"])]
    with pytest.raises(
        care_eval.InputError, match=r"failed for column score .*convert each column to one .*pandas.to_numeric"
    ):
        fit(long)


def test_a_category_of_pandas_is_a_grade_if_its_order_is_given(wide):
    words = ["meh", "fine", "wow"]
    graded = wide.assign(**{j: pd.cut(wide[j], [-99, 4, 6, 99], labels=words) for j in JUDGES})
    numbers = wide.assign(**{j: pd.cut(wide[j], [-99, 4, 6, 99], labels=False) + 1 for j in JUDGES})
    expected = fit(numbers).estimate
    np.testing.assert_array_equal(fit(graded, grades=words).estimate, expected)
    texts = graded.astype(str)
    np.testing.assert_array_equal(fit(texts, grades=words).estimate, expected)
    with pytest.raises(care_eval.InputError, match="if words are grades, give them in ascending order: grades="):
        fit(texts)


def test_columns_are_named_where_their_names_are_unclear(wide):
    renamed = wide.rename(columns={"item_id": "thing"})
    named = ["gpt", "claude", "noise"]
    assert fit(renamed, item="thing", judge=named, admit="all").judges == ("gpt", "claude", "noise")
    assert fit(renamed, item="thing", drop="noise").judges == ("gpt", "claude", "qwen")


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ({"item_id": ["a", "b"], "x": [1]}, {}, "scores: columns differ in length"),
        ({"item_id": ["a", "b"], "x": [1, "b"]}, {}, "scores: cannot be read"),
        ({"item_id": ["a", "b"], "x": [1, 2]}, {}, "there is only one judge, 'x'"),
        ({"item_id": ["a", "b"], "x": [1, 2], "y": [2, 1]}, {"gama": 1}, "a fit has no option 'gama'"),
        ({"item_id": ["a", "b"], "x": [1, 2], "y": [2, 1]}, {"aggregators": []}, "no aggregator is named; choose from"),
        ({"item_id": ["a", "b"], "x": [1, 2], "y": [2, 1]}, {"tau": -1}, "tau must be greater than 0, got -1"),
        (np.ones((3, 2)), {}, "cannot read a numpy ndarray"),
        (pd.Series([1.0, 2.0], name="x"), {}, "cannot read a pandas Series; give the path of a file, or a frame"),
        (pl.Series("x", [1.0, 2.0]), {}, "cannot read a polars Series"),
        (pd.DataFrame([["a", 1, 2]], columns=["item_id", "x", "x"]), {}, r"have the same name: 'x' \(columns 2, 3\)"),
        (pd.DataFrame({"item_id": ["a"], "x": [1j]}), {}, "complex128.*; convert each column to one type, numbers"),
        ({"item_id": ["a"], "x": np.array([1j])}, {}, "use only numbers or only text in each column"),
        ({"item_id": ["a"], "x": [1], "y": [2]}, {"labels": {"a": 1, "b": "c"}}, "; convert each column to one type"),
        ("nowhere.csv", {}, "nowhere.csv: no such file"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(scores, options, message):
    with pytest.raises(care_eval.InputError, match=message) as caught:
        care_eval.fit(scores, **options)
    assert len(str(caught.value)) < 600


def test_a_result_prints_a_summary_of_ten_lines(wide, items):
    result = fit(wide, items=items)
    text = repr(result)
    assert len(text.splitlines()) <= 10
    assert len(text) < 1000
    assert "CARE fit of pandas DataFrame: 80 items, 4 of 4 judges, 0.0% of their scores missing" in text
    assert f"care, the recommended score: mean {result.estimate.mean():.3f}" in text
    assert "agreement with gold (Kendall's tau): care 0." in text


def test_the_text_stays_short_however_many_judges_there_are(rng):
    values = rng.normal(size=(60, 1)) + rng.normal(size=(60, 116))
    names = [f"a judge with a long name, such as a model and its date, number {j}" for j in range(116)]
    scores = {"item_id": [str(k) for k in range(60)], **{n: values[:, j] for j, n in enumerate(names)}}
    scores |= {f"constant {j}": np.ones(60) for j in range(40)}
    text = repr(care_eval.fit(scores, intervals=0))
    assert len(text) < 1000
    assert len(text.splitlines()) <= 10
    assert "116 of 156 judges" in text
    assert "not admitted: constant 0" in text


def test_a_notebook_shows_a_card_with_verdict_picture_and_weights_and_escapes_names(wide):
    result = fit(wide.rename(columns={"gpt": "<b>gpt</b>"}))
    framed = result._repr_html_()
    page = html.unescape(framed)
    assert framed.startswith("<iframe srcdoc=")
    assert "<b>gpt" not in framed
    assert "&lt;b&gt;gpt&lt;/b&gt;" in page
    assert f'data-pill="{result.verdict.pill}"' in page
    assert result.verdict.sentence in html.unescape(page)
    assert page.count("<svg") > len(JUDGES), "the picture, and a bar a judge"


def test_a_result_writes_its_page(wide, items, tmp_path):
    result = fit(wide, items=items, system="model")
    path = result.report(tmp_path / "page.html")
    assert "pandas DataFrame" in path.read_text()
    with pytest.raises(care_eval.InputError, match=r"use a name that ends in \.html"):
        result.report(tmp_path / "page")


def test_the_examples_of_the_docstrings_hold():
    outcome = doctest.testmod(care_eval)
    assert (outcome.failed, outcome.attempted >= 5) == (0, True)


def test_importing_the_package_imports_nothing_until_a_name_is_used():
    code = (
        "import sys, care_eval; before = 'numpy' in sys.modules; care_eval.fit; "
        "print(before, 'numpy' in sys.modules, {'typer', 'dagster', 'orchestration'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False True set()"
    with pytest.raises(AttributeError, match=r"has no attribute 'fitt'; choose from .*fit"):
        _ = care_eval.fitt
