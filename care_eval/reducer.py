"""Reducers for inspect_ai: combine the scores of a panel by the weights of a fit, or the scores of epochs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from care_eval.result import FitResult
from care_ops.errors import FitError, InputError, listed
from care_ops.frozen import FAITHFUL, freeze
from care_ops.scores import ScoreMatrix
from warehouse.importers.collected import number_of


class ToolScore(Protocol):
    """Protocol of the attributes of inspect_ai's ``Score`` that reducers use."""

    value: Any
    metadata: dict[str, Any] | None

    def model_copy(self, *, update: dict[str, Any] | None = None) -> Self:
        """Return a copy with other values."""
        ...


S = TypeVar("S", bound=ToolScore)


def score_reducer(result: FitResult) -> Callable[[list[S]], S]:
    """Build a reducer for inspect_ai's ``multi_scorer`` that weights the panel's scores as a fit does.

    A score belongs to the judge with the name of its model (``metadata["grading"][-1]["model"]``), or else to the judge
    at its position. A missing score counts as the judge's mean. If all scores are missing, the value is NaN.

    Parameters
    ----------
    result : FitResult
        A fit of earlier scores of the same judges, such as one of ``care import inspect_ai``.

    Raises
    ------
    FitError
        One item's scores do not determine its estimate in this fit.
    """
    frozen = freeze(result.table.fit.scores, result.estimate)
    if frozen.fidelity < FAITHFUL:
        raise FitError(
            f"{result.recommended} does not follow from one item's scores alone (they explain {frozen.fidelity:.2f} of "
            "its variance), so it cannot reduce scores item by item; aggregate the logs afterwards with `care import`"
        )
    judge_of_model = {judge.rpartition(":")[2]: judge for judge in result.judges}

    def reduce(scores: list[S]) -> S:
        row = _row(scores, result.judges, judge_of_model)
        estimate = float(frozen.apply(ScoreMatrix(row, ("item",), result.judges))[0])
        votes = [score.value for score in scores]
        return scores[0].model_copy(
            update={"value": estimate, "metadata": {**(scores[0].metadata or {}), "votes": votes}}
        )

    return reduce


def epoch_reducer(scores: list[S]) -> S:
    """Reduce the epochs of a sample in inspect_ai to the mean of the epochs that have a score.

    ``score_reducer`` combines the panel's scores in each epoch; this reducer combines the epochs of a sample. An epoch
    without a score counts as not run. The metadata keep the values and votes of all epochs.

    Raises
    ------
    InputError
        A value cannot be converted to a number.
    """
    numbers = [number_of(score.value) for score in scores]
    unread = next((number for number in numbers if isinstance(number, str)), None)
    if unread is not None:
        raise InputError(f"an epoch has the score {unread!r}, which cannot be read as a number")
    values = [float("nan") if number is None or isinstance(number, str) else number for number in numbers]
    known = [value for value in values if not np.isnan(value)]
    kept = {"epochs": values, "votes": [(score.metadata or {}).get("votes") for score in scores]}
    value = float(np.mean(known)) if known else float("nan")
    return scores[0].model_copy(update={"value": value, "metadata": {**(scores[0].metadata or {}), **kept}})


def _row(scores: Sequence[ToolScore], judges: Sequence[str], judge_of_model: Mapping[str, str]) -> np.ndarray:
    """Return the panel's scores of one item in the order of the fit's judges, with NaN for a missing score."""
    models = [_model(score) for score in scores]
    if all(model in judge_of_model for model in models):
        named = [judge_of_model[str(model)] for model in models]
    elif len(scores) == len(judges):
        named = list(judges)
    else:
        raise InputError(f"{len(scores)} scores have unknown judges; the fit has {len(judges)}: {listed(judges)}")
    row = np.full((1, len(judges)), np.nan)
    for judge, score in zip(named, scores, strict=True):
        number = number_of(score.value)
        if isinstance(number, str):
            raise InputError(f"judge {judge!r} has the score {number!r}, which cannot be read as a number")
        row[0, judges.index(judge)] = np.nan if number is None else number
    return row


def _model(score: ToolScore) -> str | None:
    """Return the model that the last grading message names; the message is an object in a run, a mapping in a log."""
    grading = (score.metadata or {}).get("grading") or [{}]
    message = grading[-1]
    return message.get("model") if isinstance(message, Mapping) else getattr(message, "model", None)
