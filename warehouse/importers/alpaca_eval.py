"""Importer of alpaca_eval's annotations: one file ``annotations.json`` for each annotator.

A pair of answers is an item: the baseline's answer (``output_1``) is the response, and the system's answer
(``output_2``) is the second response. alpaca_eval's preference lies between 1 (baseline) and 2 (system). The score is
2 minus the preference: 1 if the baseline's answer is better, 0.5 for a tie, and 0 if the system's answer is better.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouse.importers.collected import Collector, content_id, files_of, number_of, text_of
from warehouse.items import ItemRecord

_TIE, _FOR_THE_RIGHT = 1.5, 2.0


def read(path: Path, collector: Collector) -> None:
    """Read one file of annotations, or all files of annotations in a folder."""
    for file in files_of(path, "annotations*.json", "annotations of alpaca_eval"):
        for record in collector.document(file):
            _add(collector, record)


def _add(collector: Collector, record: Mapping[str, Any]) -> None:
    texts = [text_of(record.get(name)) for name in ("instruction", "output_1", "output_2")]
    judge = str(record["annotator"])
    left, right = record.get("generator_1"), record.get("generator_2")
    item_id = content_id(*texts, left, right)
    collector.add_item(ItemRecord(item_id, texts[0], texts[1], texts[2], metadata={"left": left, "right": right}))
    preference = number_of(record.get("preference"))
    if preference == 0:
        collector.note("a preference of 0 is read as a tie; later versions of alpaca_eval write a tie as 1.5")
        preference = _TIE
    collector.add_score(item_id, judge, _FOR_THE_RIGHT - preference if isinstance(preference, float) else preference)
