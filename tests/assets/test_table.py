"""Tests of fitting a table as a library: a configuration in, a result out, no output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.results.comparison import compare
from assets.table.files import write_files
from assets.table.fitting import ScoreTable, TableConfig, fit_id, fit_table, within_scale
from assets.table.options import FitOptions, table_config
from assets.table.reading import TableInputs, read_table
from care_ops.config import AdmissionRule, FitConfig
from care_ops.errors import FitError, InputError
from care_ops.fit_labels import FitLabels
from care_ops.scores import ScoreMatrix
from tests.support.planted import crowd
from warehouse.items import ItemColumnsRead, ItemRecord
from warehouse.sources.reading import Reading
from warehouse.testsets import ReadingOptions, ScoreColumns

CONFIG = TableConfig(FitConfig(aggregators=("avg", "care"), resamples=0))


@pytest.fixture
def table(rng):
    quality = rng.normal(size=60)
    values = 5 + quality[:, None] + rng.normal(scale=0.7, size=(60, 5))
    ids = tuple(f"i{k:02}" for k in range(60))
    items = {
        item: ItemRecord(
            item, response=f"text {k}", gold=float(quality[k]), split_unit=f"u{k // 2}", metadata={"model": "ab"[k % 2]}
        )
        for k, item in enumerate(ids)
    }
    return ScoreTable("somewhere/scores.csv", ScoreMatrix(values, ids, tuple("abcde"), {}), items)


def test_fitting_and_writing_a_table_prints_nothing(table, tmp_path, capsys):
    result = fit_table(table, replace(CONFIG, fit=replace(CONFIG.fit, resamples=20), systems=("model",)))
    assert list(result.fit.aggregates) == ["avg", "care"]
    assert result.page.title == "scores.csv"
    assert {evaluation.n for evaluation in result.page.evaluations.values()} == {60}
    assert result.page.systems.aggregator == "care", "the recommended one, wherever it stands"
    assert [row.best for row in result.page.system_rows()] == [True, False]
    lo, hi = result.page.intervals["care"].lo, result.page.intervals["care"].hi
    weights = result.page.aggregates["care"].weights
    assert np.all((lo <= weights) & (weights <= hi))
    write_files(result, tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "aggregates.parquet").num_rows == 120
    assert capsys.readouterr() == ("", "")


OTHERWISE = {
    "aggregators": "care",
    "cut": 6.0,
    "scale": (0.0, 12.0),
    "scales": {"a": (0.0, 10.0)},
    "profile": "paper",
    "seed": 3,
    "gamma": 0.5,
    "tau": 0.25,
    "calibrate": "anchors",
    "prevalence": 0.3,
    "admit": "all",
    "absent": "not_asked",
    "max_missing": 0.3,
    "intervals": 20,
    "system": "model",
    "features": "size",
    "not_quality": "words",
    "shuffled": True,
}
"""Value of each option of a fit that differs from its default."""


def otherwise(table, what):
    """Return the same table with one changed property that ``care fit`` reads."""
    scores, first = table.scores, table.items["i00"]
    records = {
        "a text": {"response": "another text"},
        "a second text": {"response_2": "another text"},
        "gold": {"gold": 99.0},
        "a split unit": {"split_unit": "another"},
        "a column that is used": {"metadata": {**first.metadata, "size": 99.0}},
    }
    tables = {
        "a score": {"scores": replace(scores, values=scores.values + np.eye(*scores.shape))},
        "a family": {"scores": replace(scores, families={"a": "one"})},
        "a label": {"labels": FitLabels({"i00": 1.0, "i01": 1.0})},
        "a label's count": {"labels": FitLabels({"i00": 1.0, "i01": 0.0}, counts={"i00": 2.0})},
        "a label's chance": {"labels": FitLabels({"i00": 1.0, "i01": 0.0}, sample={"i00": 0.5})},
        "shares": {"labels": FitLabels({"i00": 1.0, "i01": 0.0}, shares=True)},
    }
    if what in tables:
        return replace(table, **tables[what])
    return replace(table, items={**table.items, "i00": replace(first, **records[what])})


def test_the_fit_id_depends_on_every_input(table):
    assert set(OTHERWISE) == set(FitOptions.__annotations__), "a new option needs another value here"
    items = {k: replace(r, metadata={**r.metadata, "size": float(k[1:])}) for k, r in table.items.items()}
    labels = FitLabels({"i00": 1.0, "i01": 0.0})
    table, options = replace(table, items=items, labels=labels), {"features": "size"}
    changed = ["a text", "a second text", "gold", "a split unit", "a column that is used", "a score", "a family"]
    changed += ["a label", "a label's count", "a label's chance", "shares"]
    ids = {what: fit_id(otherwise(table, what), table_config(options)) for what in changed}
    for name, value in OTHERWISE.items():
        ids[name] = fit_id(table, table_config({"scale": (0.0, 11.0), name: value}))
    ids["nothing else"] = fit_id(table, table_config(options))
    ids["a scale"] = fit_id(table, table_config({"scale": (0.0, 11.0)}))
    same = {what: [other for other in ids if ids[other] == ids[what] and other != what] for what in ids}
    assert not any(same.values()), {what: others for what, others in same.items() if others}

    turned = replace(table, items=dict(reversed(items.items())), scores=table.scores.select_items(np.arange(60)[::-1]))
    assert fit_id(turned, table_config(options)) == ids["nothing else"], "the order of the rows is no other input"
    unused = replace(table.items["i00"], metadata={**table.items["i00"].metadata, "note": "of no use"})
    assert fit_id(replace(table, items={**items, "i00": unused}), table_config(options)) == ids["nothing else"]


def test_systems_of_a_table_and_a_workspace_are_compared_alike(table):
    result = fit_table(table, replace(CONFIG, systems=("model",)))
    columns = ItemColumnsRead(
        list(table.scores.item_ids),
        [record.response for record in table.items.values()],
        np.array([record.gold for record in table.items.values()]),
        [record.split_unit for record in table.items.values()],
    )
    named = [(str(record.metadata["model"]),) for record in table.items.values()]
    estimate = result.fit.aggregates["care"].estimate
    compared = compare("care", estimate, columns, named, table.labels, table.scores, CONFIG.fit)
    assert compared == result.page.systems


def test_labels_of_every_system_correct_its_value_and_the_columns_agree():
    """The judges score one of two equal systems two points too high."""
    rng = np.random.default_rng(3)
    names = np.repeat(["kind", "plain"], 150)
    quality = rng.normal(size=300)
    values = (quality + 2.0 * (names == "kind"))[:, None] + 0.4 * rng.normal(size=(300, 5))
    ids = tuple(f"i{k:03}" for k in range(300))
    passed = {ids[k]: float(quality[k] > 0) for k in rng.permutation(300)[:120]}
    items = {i: ItemRecord(i, metadata={"model": str(name)}) for i, name in zip(ids, names, strict=True)}
    table = ScoreTable("scores.csv", ScoreMatrix(values, ids, tuple("abcde"), {}), items, FitLabels(passed))
    page = fit_table(table, replace(CONFIG, systems=("model",))).page
    first, second = page.system_rows()
    gold = {name: float((quality[names == name] > 0).mean()) for name in ("kind", "plain")}
    assert page.systems.kind == "share that people pass"
    for row in (first, second):
        assert row.lo <= gold[row.system] <= row.hi
    assert second.behind.difference == pytest.approx(first.value - second.value)
    assert second.behind.lo <= gold[first.system] - gold[second.system] <= second.behind.hi
    picked = replace(table, labels=FitLabels(passed, sample={}))
    assert fit_table(picked, replace(CONFIG, systems=("model",))).page.systems.kind == "mean estimate"
    few = replace(table, labels=FitLabels(dict(list(passed.items())[:6])))
    uncorrected = fit_table(few, replace(CONFIG, systems=("model",))).page
    assert uncorrected.systems.kind == "mean estimate"
    assert [row.lo for row in uncorrected.system_rows()] == [None, None]


def duels(rng, one: float, two: float):
    """Simulate pairs of a good and a poor system: votes of six judges (``one`` is left, ``two`` right) and leads."""
    left = np.where(rng.random(200) < 0.5, "good", "poor")
    ahead = np.where(left == "good", 1.5, -1.5) + rng.logistic(size=200)
    votes = np.where(ahead[:, None] + rng.logistic(size=(200, 6)) > 0, one, two)
    ids = tuple(f"p{k:03}" for k in range(200))
    items = {
        i: ItemRecord(i, metadata={"left": str(a), "right": "poor" if a == "good" else "good"})
        for i, a in zip(ids, left, strict=True)
    }
    return ScoreTable("votes.csv", ScoreMatrix(votes, ids, tuple("abcdef"), {}), items), ahead


def test_numbers_of_the_better_answer_are_rejected(rng):
    """With winners coded as 1 and 2 and the scale 1 to 2, votes for the second answer would count for the first."""
    config = replace(CONFIG, systems=("left", "right"))
    for fit in (config.fit, replace(config.fit, scale=(1.0, 2.0))):
        with pytest.raises(FitError, match="write A if the first"):
            fit_table(duels(rng, 1.0, 2.0)[0], replace(config, fit=fit))
    with pytest.raises(FitError, match="a maximum that means a win of the left answer"):
        fit_table(duels(rng, 1.0, -1.0)[0], config)
    assert fit_table(duels(rng, 1.0, 0.0)[0], config).page.systems.systems[0].system == "good"


@pytest.mark.parametrize("with_items", [False, True])
@pytest.mark.parametrize(("column", "step"), [("body", "If the judged texts are in"), ("reply_text", "")])
def test_a_column_of_texts_is_used_or_its_new_name_is_the_next_step(rng, with_items, column, step):
    """Texts whose column has an unusual name were kept in silence."""
    texts = {column: ["word " * int(size) for size in rng.integers(9, 40, 60)]}
    ids = [f"i{k:02}" for k in range(60)]
    scores = pa.table({"item_id": ids, **{name: rng.normal(size=60) for name in "abcd"}, **texts})
    inputs = TableInputs(scores, pa.table({"item_id": ids, **texts}) if with_items else None)
    table = read_table(inputs, ScoreColumns(), ReadingOptions(), list[Reading]().append)
    verdict = fit_table(table, CONFIG).verdict
    assert verdict.first_steps[0].sentence.startswith(step)
    assert ("rename it to `response`" in str(verdict)) == bool(step)
    assert not any("left out" in reason.sentence for reason in verdict.reasons)


def test_items_without_a_score_are_reported_when_items_are_read(tmp_path):
    (tmp_path / "items.csv").write_text("item_id,response\n" + "".join(f"i{k},answer {k}\n" for k in range(5)))
    (tmp_path / "scores.csv").write_text("item_id,a,b,c\n" + "".join(f"i{k},1,2,3\n" for k in range(3)) + "i3,,,\n")
    readings: list[Reading] = []
    read_table(
        TableInputs(tmp_path / "scores.csv", tmp_path / "items.csv"), ScoreColumns(), ReadingOptions(), readings.append
    )
    assert readings[-1].notes[-1] == "no score, and thus no estimate: 2 of 5 items, such as 'i3'"
    (tmp_path / "scores.csv").write_text("item_id,a,b,c\n" + "".join(f"i{k},1,2,3\n" for k in range(5)))
    read_table(
        TableInputs(tmp_path / "scores.csv", tmp_path / "items.csv"), ScoreColumns(), ReadingOptions(), readings.append
    )
    assert "without a score" not in str(readings[-1].sentences())


def test_scores_outside_the_scale_are_missing_and_counted():
    scores = ScoreMatrix(np.array([[1.0, 2.0], [9.0, np.nan], [3.0, 0.0]]), ("x", "y", "z"), ("a", "b"), {})
    inside, counts = within_scale(scores, (1.0, 5.0))
    np.testing.assert_array_equal(inside.values, [[1.0, 2.0], [np.nan, np.nan], [3.0, np.nan]])
    assert counts == {"a": 1, "b": 1}
    assert within_scale(scores, None) == (scores, {})


@pytest.mark.parametrize("admission", [AdmissionRule(), AdmissionRule(admit="all"), AdmissionRule(absent="not_asked")])
def test_judges_without_shared_items_must_be_fitted_separately(rng, admission):
    quality, ids, judges = rng.normal(size=(200, 1)), tuple(f"i{k}" for k in range(200)), tuple("abcdefgh")
    values = quality + 0.7 * rng.normal(size=(200, 8))
    values[:100, 4:], values[100:, :4] = np.nan, np.nan
    table, config = (
        ScoreTable("x.csv", ScoreMatrix(values, ids, judges)),
        TableConfig(FitConfig(resamples=0), admission),
    )
    with pytest.raises(FitError, match=r"fit the scores of each group separately") as refused:
        fit_table(table, replace(config, fit=replace(config.fit, aggregators=("care", "care_svd"))))
    assert "--admit" not in str(refused.value)
    half = replace(table, scores=ScoreMatrix(values[:100, :4], ids[:100], judges[:4]))
    assert np.isfinite(fit_table(half, config).fit.aggregates["care"].estimate).all()


@pytest.fixture
def crowd_table():
    _, values = crowd(0, 200, 300, 4, 5)
    judges = tuple(f"worker {j} of a crowd with long names, of some platform" for j in range(values.shape[1]))
    return ScoreTable("crowd.csv", ScoreMatrix(values, tuple(f"i{k}" for k in range(200)), judges, {}))


def test_many_sparse_judges_get_an_estimate_a_page_and_a_verdict(crowd_table, tmp_path):
    result = fit_table(crowd_table, TableConfig(FitConfig(resamples=20)))
    assert {"care", "mv", "avg"} <= set(result.fit.aggregates)
    assert np.isfinite(result.fit.aggregates["care"].estimate).all()
    lo, hi = result.page.intervals["care"].lo, result.page.intervals["care"].hi
    assert np.isfinite(lo).all()
    assert np.all(lo <= hi)
    assert "CARE assumes that the judges were not asked" in str(result.verdict)
    assert all(len(reason.sentence) < 600 for reason in result.verdict.reasons)
    assert len(result.verdict.reasons) < 10
    write_files(result, tmp_path)
    assert (tmp_path / "report.html").is_file()


def test_many_sparse_judges_are_rejected_if_absent_scores_are_failures(crowd_table):
    failed = TableConfig(FitConfig(), AdmissionRule(absent="failed"), 0)
    with pytest.raises(FitError, match=r"judges lack many scores.*--absent not_asked") as caught:
        fit_table(crowd_table, failed)
    assert len(str(caught.value)) < 600
    with pytest.raises(InputError, match="more") as caught:
        crowd_table.scores.select_judges(["nobody"])
    assert len(str(caught.value)) < 1200
