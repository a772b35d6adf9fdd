"""How often an item was asked in vain: a small file beside the parts of a judge on a test set.

Belongs here: counting, by the judge's key and the item's. Does not: which failures may pass (``judges.items``), how
many attempts there are (the judge's specification).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from warehouse.storage import write_bytes

_NAME = "attempts.json"


class Attempts:
    """Failed attempts of one judge on one test set; kept for the judge's current key only.

    Parameters
    ----------
    folder : Path
        That of its parts (``PartStore.scores_folder``).
    judge_key : str
    """

    def __init__(self, folder: Path, judge_key: str) -> None:
        self._path, self._key = folder / _NAME, judge_key
        self._counts: dict[str, int] = {}
        try:
            kept = json.loads(self._path.read_text()) if self._path.exists() else {}
        except (ValueError, OSError):  # lost counts cost some questions asked once more, and no score
            kept = {}
        if isinstance(kept, dict) and kept.get("judge_key") == judge_key:
            self._counts = {str(item): int(count) for item, count in kept["failed"].items()}

    def spent(self, attempts: int) -> set[str]:
        """Keys of the items that were asked so often in vain."""
        return {item for item, count in self._counts.items() if count >= attempts}

    def record(self, failed: Collection[str], answered: Collection[str]) -> None:
        """One more attempt for the items that failed, none any more for those that were answered."""
        if not failed and not self._counts.keys() & set(answered):
            return
        for item in failed:
            self._counts[item] = self._counts.get(item, 0) + 1
        for item in answered:
            self._counts.pop(item, None)
        write_bytes(self._path, json.dumps({"judge_key": self._key, "failed": self._counts}, sort_keys=True).encode())
