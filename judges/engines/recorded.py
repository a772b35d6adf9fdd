"""Recorded judges: scores that already exist, joined by item id.

Belongs here: turning recordings into scores, and comparing texts where the source carries them (law 1).
Does not: reading files (``warehouse.sources``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from care_ops.errors import JudgeError
from judges.engines.base import Recording
from judges.items import Item, Score, Status, checked_score
from judges.spec import JudgeSpec


class RecordedJudgeEngine:
    """Looks each item up by its id."""

    def __init__(self, spec: JudgeSpec, recordings: Mapping[str, Recording] | None) -> None:
        self._recordings, self._scale = known(spec, recordings), spec.scale
        self.version = "recorded"

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Join by id; an item without a recording is missing (``refused``)."""
        return [self._one(item) for item in items]

    def close(self) -> None:
        """Nothing to end."""

    def _one(self, item: Item) -> Score:
        recording = self._recordings.get(item.item_id)
        if recording is None or recording.value is None:
            return Score(item.item_id, item.key, None, Status.REFUSED)
        score, status = checked_score(recording.value, self._scale)
        raw = None if status is Status.OK else repr(recording.value)
        mismatch = recording.response is not None and recording.response != item.response
        return Score(item.item_id, item.key, score, status, raw, text_mismatch=mismatch)


def known(spec: JudgeSpec, recordings: Mapping[str, Recording] | None) -> Mapping[str, Recording]:
    """The recordings; ``JudgeError`` where there are none."""
    if recordings is None:
        raise JudgeError(
            f"judge {spec.name!r} is recorded, but this test set has no score file; name it under "
            "`scores` in the test set's YAML, or list the judge's `testsets`"
        )
    return recordings


def fingerprint(recordings: Mapping[str, Recording]) -> str:
    """Content hash of one judge's recordings, whatever their order."""
    digest = hashlib.sha256()
    for item_id in sorted(recordings):
        recording = recordings[item_id]
        digest.update(repr((item_id, recording.value, recording.response)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
