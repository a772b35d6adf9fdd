"""A fit as a reducer of inspect_ai's several scorers."""

from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

import care_eval

MODELS = ("openai/one", "anthropic/two", "qwen/three", "meta/four")


class Score(BaseModel):
    """What inspect_ai's score has, as far as a reducer uses it."""

    value: Any
    metadata: dict[str, Any] | None = None


class Message(BaseModel):
    """What inspect_ai's message of an assistant has."""

    model: str | None


def printed(model: str | None, value: Any) -> Score:
    return Score(value=value, metadata={"grading": [{"role": "user"}, Message(model=model)]})


@pytest.fixture
def result(rng):
    quality = rng.normal(size=200)
    spread = dict(zip(MODELS, (0.3, 0.6, 0.9, 2.0), strict=True))
    columns = {f"model_graded_qa:{model}": 5 + quality + rng.normal(size=200) * spread[model] for model in MODELS}
    scores = {"item_id": [f"q{k}" for k in range(200)], **columns}
    return care_eval.fit(scores, aggregators=["care", "avg"], intervals=0)


def test_a_panel_of_one_item_gets_the_score_of_the_fit(result):
    reduce = care_eval.score_reducer(result)
    values = result.table.fit.scores.values
    for k in (0, 7, 150):
        scores = [printed(model, float(value)) for model, value in zip(MODELS, values[k], strict=True)]
        reduced = reduce(scores[::-1])
        assert reduced.value == pytest.approx(result.estimate[k], abs=0.05)
        assert reduced.metadata["votes"] == [float(value) for value in values[k][::-1]]
    by_model = [printed(model, float(value)) for model, value in zip(MODELS, values[7], strict=True)]
    by_place = [Score(value=float(value)) for value in values[7]]
    assert reduce(by_place).value == reduce(by_model).value


def test_epochs_are_averaged_over_those_that_have_a_score_and_keep_their_votes():
    epochs = [Score(value=4.0, metadata={"votes": [3.0, 5.0]}), Score(value=float("nan")), Score(value="C")]
    reduced = care_eval.epoch_reducer(epochs)
    assert reduced.value == 2.5
    np.testing.assert_array_equal(reduced.metadata["epochs"], [4.0, np.nan, 1.0])
    assert reduced.metadata["votes"] == [[3.0, 5.0], None, None]
    assert np.isnan(care_eval.epoch_reducer([Score(value=None)]).value)
    with pytest.raises(care_eval.InputError, match="an epoch has the score 'splendid'"):
        care_eval.epoch_reducer([Score(value="splendid")])


def test_a_judge_that_failed_counts_as_its_mean_and_a_failed_panel_has_no_score(result):
    reduce = care_eval.score_reducer(result)
    values = result.table.fit.scores.values
    mean = float(values[:, 0].mean())
    failed = [printed(MODELS[0], float("nan")), *(printed(model, 6.0) for model in MODELS[1:])]
    assert abs(reduce(failed).value - reduce([printed(MODELS[0], mean), *failed[1:]]).value) < 0.2
    assert np.isnan(reduce([printed(model, None) for model in MODELS]).value)


def test_scores_that_belong_to_no_judge_are_refused(result):
    reduce = care_eval.score_reducer(result)
    with pytest.raises(
        care_eval.InputError, match="2 scores have unknown judges; the fit has 4: model_graded_qa:openai"
    ):
        reduce([printed("somebody/else", 1.0), printed(MODELS[0], 2.0)])
    with pytest.raises(care_eval.InputError, match="judge 'model_graded_qa:qwen/three' has the score 'splendid'"):
        reduce([printed(MODELS[2], "splendid"), *(printed(model, 1.0) for model in MODELS[:2])])


def test_a_fit_that_no_single_item_shows_is_no_reducer(rng):
    votes = {f"j{j}": (rng.random(100) < 0.5).astype(int) for j in range(5)}
    result = care_eval.fit({"item_id": [str(k) for k in range(100)], **votes}, aggregators="mv", cut=0.5, intervals=0)
    with pytest.raises(care_eval.FitError, match="does not follow from one item's scores alone"):
        care_eval.score_reducer(fitted_to_noise(result, rng))


def fitted_to_noise(result, rng):
    """The result with estimates that have nothing to do with its scores."""
    from dataclasses import replace

    aggregate = replace(result.aggregates["mv"], estimate=rng.normal(size=100))
    fit = replace(result.table.fit, aggregates={"mv": aggregate})
    return replace(result, table=replace(result.table, fit=fit))
