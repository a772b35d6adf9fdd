"""Checks and content hashes of recorded scores."""

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.scores import Array, ScoreMatrix, canonical_order
from judges.items import Status

_ROWS_AT_ONCE = 16_384
"""Number of rows in one hash update; hashing row by row takes twice the time."""

NOTHING_RECORDED = hashlib.sha256().hexdigest()
"""Version of a judge with recorded scores, if the score file has no score of the judge."""


def checked_scores(values: Array, scale: tuple[float, float] | None) -> tuple[Array, NDArray[np.str_]]:
    """Check recorded scores against a scale; return the valid scores and the status of each score.

    Returns
    -------
    scores : (m,) array
        Scores, with NaN unless the status is ``ok``.
    statuses : (m,) array of str
    """
    low, high = scale or (-np.inf, np.inf)
    outside = (values < low) | (values > high) | np.isinf(values)
    statuses = np.where(np.isnan(values), Status.REFUSED, np.where(outside, Status.OUT_OF_RANGE, Status.OK))
    return np.where(outside, np.nan, values), statuses


def fingerprints(scores: ScoreMatrix, responses: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Hash the recorded scores and responses of each judge in a score file; return the hashes, keyed by judge."""
    order = canonical_order(scores.item_ids)
    item_ids = [scores.item_ids[k] for k in order]
    hashes: dict[str, str] = {}
    pieces = np.full((len(order), 3), ", None)", dtype=object)
    pieces[:, 0] = [f"({i!r}, " for i in item_ids]
    for judge, column in zip(scores.judges, scores.values[order].T, strict=True):
        digest, texts = hashlib.sha256(), responses.get(judge, {})
        coded = pa.array(column.copy().view(np.int64)).dictionary_encode()  # of the bits, because -0.0 == 0.0
        distinct = coded.dictionary.to_numpy().view(np.float64).tolist()
        written = np.array([repr(None if value != value else value) for value in distinct], dtype=object)
        pieces[:, 1] = written[coded.indices.to_numpy()]
        if responses:
            pieces[:, 2] = [f", {texts.get(i)!r})" for i in item_ids]
        for start in range(0, len(pieces), _ROWS_AT_ONCE):
            rows = pieces[start : start + _ROWS_AT_ONCE]
            digest.update("".join(rows.ravel().tolist()).encode("utf-8", "surrogatepass"))
        hashes[judge] = digest.hexdigest()
    return hashes
