"""Tests of the estimator: scikit-learn's conventions and checks, and the same numbers as a fit."""

import doctest
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from care_ops import estimators
from care_ops.config import Calibration, FitConfig, StructureConfig
from care_ops.errors import FitError, InputError
from care_ops.estimators import CareEstimator
from care_ops.fit import fit_panel
from care_ops.fit_labels import FitLabels
from care_ops.scores import ScoreMatrix

EVERY = ("care", "care_svd", "care_tensor", "avg")

TWO_JUDGES = "the check has two columns, and a common factor needs three judges"
PICKLE = "the check deletes scores at random, after which the mean does not follow from one item's scores"
NOT_FITTED = "scikit-learn is no dependency, so its own NotFittedError cannot be raised; ours is a ValueError too"
EXPECTED = {
    "avg": {"check_estimators_unfitted": NOT_FITTED, "check_estimators_pickle": PICKLE},
    "care": {
        "check_estimators_unfitted": NOT_FITTED,
        "check_estimators_pickle": PICKLE,
        "check_estimators_overwrite_params": TWO_JUDGES,
        "check_estimators_fit_returns_self": TWO_JUDGES,
        "check_readonly_memmap_input": TWO_JUDGES,
        "check_fit_idempotent": TWO_JUDGES,
        "check_fit_check_is_fitted": TWO_JUDGES,
        "check_n_features_in": TWO_JUDGES,
    },
}
"""Checks of scikit-learn that do not apply, each with the reason."""


@pytest.fixture
def scores(rng):
    quality = rng.normal(size=300)
    return 5 + quality[:, None] + rng.normal(size=(300, 1)) * [0, 0, 0.6, 0.6, 0, 0] + 0.7 * rng.normal(size=(300, 6))


def panel(values, families=None):
    """Return a panel with the names that the estimators generate, which seed random starts."""
    n, p = values.shape
    return ScoreMatrix(values, tuple(f"{k:09d}" for k in range(n)), tuple(f"{j:05d}" for j in range(p)), families or {})


@pytest.mark.parametrize("name", EVERY)
def test_an_estimator_reports_what_a_fit_reports(name, scores):
    fitted = CareEstimator(aggregator=name).fit(scores)
    expected = fit_panel(panel(scores), FitConfig((name,))).aggregates[name]
    np.testing.assert_array_equal(fitted.estimate_, expected.estimate)
    assert fitted.threshold_ == expected.threshold
    assert fitted.n_features_in_ == 6


@pytest.mark.parametrize("name", ["care", "care_svd", "avg"])
def test_new_items_get_the_score_that_a_fit_with_them_would_give(name, scores):
    fitted = CareEstimator(aggregator=name).fit(scores[:280])
    together = CareEstimator(aggregator=name).fit_predict(scores)[280:]
    assert np.corrcoef(fitted.predict(scores[280:]), together)[0, 1] > 0.999
    assert fitted.fidelity_ > 0.98


def test_an_item_that_nobody_scored_has_no_score(scores):
    fitted = CareEstimator(aggregator="avg").fit(scores)
    assert np.isnan(fitted.predict(np.full((1, 6), np.nan))).all()


def test_a_fit_that_is_no_function_of_one_items_scores_predicts_nothing(rng):
    votes = (rng.random((200, 5)) < 0.5).astype(float)
    fitted = CareEstimator(aggregator="mv", cut=0.5).fit(votes + rng.normal(scale=3, size=(200, 1)))
    assert fitted.fidelity_ < 0.98
    with pytest.raises(FitError, match="an item's own scores explains only"):
        fitted.predict(votes)


def test_labels_and_families_reach_the_fit(scores):
    labels = np.full(300, np.nan)
    labels[:40] = scores[:40].mean(axis=1) + 2.0
    families = ["a", "a", None, "b", "b", None]
    fitted = CareEstimator(families=families, calibrate="anchors").fit(scores, labels)
    declared = {f"{j:05d}": family for j, family in enumerate(families) if family}
    matrix = panel(scores, declared)
    seen_labels = FitLabels({matrix.item_ids[k]: float(labels[k]) for k in range(40)})
    config = FitConfig(("care",), calibration=Calibration("anchors"))
    expected = fit_panel(matrix, config, seen_labels).aggregates["care"]
    np.testing.assert_array_equal(fitted.estimate_, expected.estimate)
    assert fitted.estimate_.mean() > scores.mean() + 1.0


def test_every_parameter_reaches_the_fit(scores):
    options = {"gamma": 0.5, "tau": 0.2, "placement": "weights", "calibrate": "anchors", "seed": 4, "cut": 5.0}
    labels = np.where(np.arange(300) < 20, scores[:, 0] + 3.0, np.nan)
    fitted = CareEstimator(aggregator="care_svd", **options).fit(scores, labels)
    config = FitConfig(("care_svd",), 5.0, None, Calibration("anchors"), StructureConfig(0.5, 0.2), "weights", seed=4)
    matrix = panel(scores)
    seen_labels = FitLabels({matrix.item_ids[k]: float(labels[k]) for k in range(20)})
    expected = fit_panel(matrix, config, seen_labels).aggregates["care_svd"]
    np.testing.assert_array_equal(fitted.estimate_, expected.estimate)
    assert fitted.threshold_ == expected.threshold


def test_parameters_are_read_set_and_copied():
    estimator = CareEstimator(seed=3)
    assert estimator.get_params()["seed"] == 3
    assert estimator.set_params(seed=5) is estimator
    assert CareEstimator(**estimator.get_params()).get_params() == estimator.get_params()
    with pytest.raises(ValueError, match="no parameter 'alpha'; choose from aggregator, families"):
        estimator.set_params(alpha=1)


def test_a_fitted_estimator_survives_a_pickle(scores):
    fitted = CareEstimator().fit(scores)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(scores), fitted.predict(scores))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], "Reshape your data"),
        ([[1.0, 2.0]], "1 sample"),
        ([[1.0], [2.0]], r"1 feature\(s\)"),
        ([[1.0, np.inf], [2.0, 1.0]], "infinity"),
        ([["good", "bad"], ["bad", "bad"]], "contains a value that is not a number"),
        (np.empty((0, 3)), "0 sample"),
        ([[1j, 2.0], [2.0, 1.0]], "Complex data not supported"),
        (pd.DataFrame({"a": [1, None], "b": [2, 3]}, dtype="Int64"), r'X.astype\("float64"\)'),
    ],
)
def test_arrays_that_cannot_be_scores_are_refused(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        CareEstimator().fit(values)
    assert isinstance(caught.value, InputError)


def test_a_masked_score_is_a_missing_one(scores):
    absent = np.random.default_rng(1).random(scores.shape) < 0.05
    masked = np.ma.array(np.where(absent, -999.0, scores), mask=absent)
    wanted = CareEstimator().fit_predict(np.where(absent, np.nan, scores))
    np.testing.assert_array_equal(CareEstimator().fit_predict(masked), wanted)


def test_labels_families_and_columns_must_fit_the_scores(scores):
    with pytest.raises(InputError, match=r"y has shape \(3,\); give a label, or NaN, for each of 300 items"):
        CareEstimator().fit(scores, [1, 2, 3])
    with pytest.raises(
        InputError, match=r"y contains a value that is not a number \(could not .*'a'\); give labels as numbers"
    ):
        CareEstimator().fit(scores, ["a"] * 300)
    with pytest.raises(InputError, match="families has 2 entries for 6 judges"):
        CareEstimator(families=["a", "b"]).fit(scores)
    with pytest.raises(ValueError, match="X has 2 features, but CareEstimator is expecting 6"):
        CareEstimator().fit(scores).predict(scores[:, :2])
    with pytest.raises(FitError, match="call `fit` first"):
        CareEstimator().predict(scores)


def test_the_examples_of_the_docstrings_hold():
    assert doctest.testmod(estimators).failed == 0
    assert doctest.testmod(estimators).attempted >= 5


@pytest.mark.parametrize("name", EXPECTED)
def test_scikit_learns_own_checks_pass(name):
    checks = pytest.importorskip("sklearn.utils.estimator_checks", reason="pip install -e '.[dev]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator, expected = CareEstimator(aggregator=name), EXPECTED[name]
        results = checks.check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)
    assert sum(result["status"] == "passed" for result in results) >= 29


def test_an_estimator_is_a_step_of_a_pipeline(scores):
    pipeline = pytest.importorskip("sklearn.pipeline", reason="pip install -e '.[dev]'")
    preprocessing = pytest.importorskip("sklearn.preprocessing", reason="pip install -e '.[dev]'")
    steps = pipeline.make_pipeline(preprocessing.StandardScaler(), CareEstimator()).fit(scores)
    assert np.corrcoef(steps.predict(scores), scores.mean(axis=1))[0, 1] > 0.9
