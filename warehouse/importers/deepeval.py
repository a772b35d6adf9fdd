"""Importer of deepeval's test runs in ``.deepeval/.latest_run_full.json`` or ``.latest_test_run.json``.

A test case is an item, and a metric is a judge. If several models computed a metric, there is one judge per model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warehouse.importers.collected import Collector, files_of, id_of, label_of, text_of
from warehouse.items import ItemRecord


def read(path: Path, collector: Collector) -> None:
    """Read one file with a test run, or all files with test runs in a folder."""
    for file in files_of(path, ".latest*run*.json", "test run of deepeval"):
        document = collector.document(file)
        run = document.get("testRunData", document)
        cases: list[dict[str, Any]] = run["testCases"]
        several = _run_by_several_models(cases)
        for case in cases:
            _add(collector, case, several)


def _run_by_several_models(cases: Sequence[Mapping[str, Any]]) -> set[str]:
    models: dict[str, set[str]] = {}
    for case in cases:
        for metric in case.get("metricsData") or []:
            models.setdefault(str(metric.get("name")), set()).add(str(metric.get("evaluationModel")))
    return {name for name, used in models.items() if len(used) > 1}


def _add(collector: Collector, case: Mapping[str, Any], several: set[str]) -> None:
    metadata = case.get("metadata") or {}
    item_id = id_of(metadata) or str(case.get("name"))
    collector.add_item(
        ItemRecord(
            item_id,
            prompt=text_of(case.get("input")),
            response=text_of(case.get("actualOutput")),
            reference=text_of(case.get("expectedOutput")),
            gold=label_of(metadata),
            metadata=dict(metadata),
        )
    )
    for metric in case.get("metricsData") or []:
        name = str(metric.get("name"))
        judge = f"{name}:{metric.get('evaluationModel')}" if name in several else name
        collector.add_score(item_id, judge, metric.get("score"))
