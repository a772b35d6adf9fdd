"""Recorded judges, whose scores exist already and are joined to the items by item id.

Belongs here: turning recordings into scores, and comparing the text that was scored with the item's, if the source
keeps it. Belongs elsewhere: reading files (``warehouse.sources``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from care_ops.errors import JudgeError
from care_ops.scores import ScoreMatrix, canonical_order
from judges.engines.base import Recording
from judges.items import Item, Score, Status, checked_score
from judges.spec import JudgeSpec


class RecordedJudgeEngine:
    """Looks up each item's recorded score by the item's id."""

    def __init__(self, spec: JudgeSpec, recordings: Mapping[str, Recording] | None) -> None:
        self._recordings, self._scale = required_recordings(spec, recordings), spec.scale
        self.version = "recorded"

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Look up each item's score; an item without a recording has none and the status ``refused``."""
        return [self._one(item) for item in items]

    def close(self) -> None:
        """Do nothing: a recorded judge holds no process and no connection."""

    def _one(self, item: Item) -> Score:
        recording = self._recordings.get(item.item_id)
        if recording is None or recording.value is None:
            return Score(item.item_id, item.key, None, Status.REFUSED)
        score, status = checked_score(recording.value, self._scale)
        raw = None if status is Status.OK else repr(recording.value)
        mismatch = recording.response is not None and recording.response != item.response
        return Score(item.item_id, item.key, score, status, raw, text_mismatch=mismatch)


def required_recordings(spec: JudgeSpec, recordings: Mapping[str, Recording] | None) -> Mapping[str, Recording]:
    """The recordings of a judge.

    Raises
    ------
    JudgeError
        The test set has no score file.
    """
    if recordings is None:
        raise JudgeError(
            f"judge {spec.name!r} is recorded, but this test set has no score file; name the file under "
            "`scores` in the test set's YAML, or list in the judge's `testsets` those that have one"
        )
    return recordings


def fingerprint(recordings: Mapping[str, Recording]) -> str:
    """Content hash of one judge's recordings, which does not depend on their order."""
    return _hash_of_rows(repr((item_id, *recordings[item_id])) for item_id in sorted(recordings))


def fingerprints(scores: ScoreMatrix, responses: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """``fingerprint`` of every judge of a score file; the items are sorted and written as text once for all of them."""
    order = canonical_order(scores.item_ids)
    item_ids = [scores.item_ids[k] for k in order]
    written_ids = [repr(item_id) for item_id in item_ids]
    hashes: dict[str, str] = {}
    for judge, column in zip(scores.judges, scores.values[order].T, strict=True):
        values = (None if value != value else value for value in column.tolist())
        texts = map(responses.get(judge, {}).get, item_ids)
        rows = zip(written_ids, values, texts, strict=True)
        hashes[judge] = _hash_of_rows(f"({item_id}, {value!r}, {text!r})" for item_id, value, text in rows)
    return hashes


def _hash_of_rows(rows: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
