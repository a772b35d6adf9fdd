"""Function that joins recorded scores to items by id, and stores the scores in score parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from assets.judge_keys import recorded_table
from assets.judging.pending import pending
from assets.workspace import Workspace
from judges.engines.recorded import checked_scores
from judges.items import Status
from judges.questions import ItemSource, in_chunks

_ROWS_A_PART = 131_072
"""Maximum number of recorded scores in one part."""


def store_recorded(workspace: Workspace, judge: str, testset: str, items: ItemSource) -> int:
    """Store the recorded scores of pending items as score parts; return the number of these items.

    An item without a recorded score gets the status ``refused``. Raises ``JudgeError`` if there is no score file.
    """
    wanted = pending(workspace, workspace.parts, judge, testset)
    to_store = [position for position, key in enumerate(items.keys) if key not in wanted.settled]
    if not to_store:
        return 0
    table, name = recorded_table(workspace, judge, testset), wanted.spec.engine.recorded_as or ""
    responses = table.responses.get(name, {})
    for start in range(0, len(to_store), _ROWS_A_PART):
        positions = to_store[start : start + _ROWS_A_PART]
        item_ids = [items.ids[position] for position in positions]
        values = table.scores_of(name, item_ids)
        scores, statuses = checked_scores(values, wanted.spec.scale)
        outside = statuses == Status.OUT_OF_RANGE
        columns = {
            "item_id": item_ids,
            "item_key": [items.keys[position] for position in positions],
            "score": scores,
            "status": statuses,
            "raw": [repr(value) if out else None for value, out in zip(values.tolist(), outside, strict=True)],
            "text_mismatch": _mismatches(responses, items, positions),
        }
        workspace.parts.write_score_columns(judge, testset, wanted.key, "recorded", columns)
    return len(to_store)


def _mismatches(responses: Mapping[str, str], items: ItemSource, positions: Sequence[int]) -> NDArray[np.bool_]:
    differs = np.zeros(len(positions), dtype=bool)
    with_text = [k for k, position in enumerate(positions) if items.ids[position] in responses]
    for chunk in in_chunks(with_text, lambda k: items.lengths[positions[k]]):
        for k, item in zip(chunk, items.read([positions[k] for k in chunk]), strict=True):
            differs[k] = responses[item.item_id] != item.response
    return differs
