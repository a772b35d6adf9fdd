"""Counts how often a judge failed on an item, in a small file beside the judge's parts."""

import json
from collections.abc import Collection
from pathlib import Path

from warehouse.storage import write_bytes

_NAME = "attempts.json"


class Attempts:
    """Failed attempts of a judge on a test set, beside its parts there; only those under its current key are kept."""

    def __init__(self, folder: Path, judge_key: str) -> None:
        self._path, self._key = folder / _NAME, judge_key
        self._counts: dict[str, int] = {}
        try:
            document = json.loads(self._path.read_text()) if self._path.exists() else {}
        except (ValueError, OSError):  # a lost count costs a few repeated questions, but no score
            document = {}
        if isinstance(document, dict) and document.get("judge_key") == judge_key:
            self._counts = {str(item): int(count) for item, count in document["failed"].items()}

    def spent(self, attempts: int) -> set[str]:
        """Keys of the items on which the judge has failed this many times or more."""
        return {item for item, count in self._counts.items() if count >= attempts}

    def record(self, failed: Collection[str], answered: Collection[str]) -> None:
        """Count one more failure for the items that failed, and forget those of the items that were answered."""
        if not failed and not self._counts.keys() & set(answered):
            return
        for item in failed:
            self._counts[item] = self._counts.get(item, 0) + 1
        for item in answered:
            self._counts.pop(item, None)
        write_bytes(self._path, json.dumps({"judge_key": self._key, "failed": self._counts}, sort_keys=True).encode())
