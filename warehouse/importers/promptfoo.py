"""Importer of promptfoo's results: the JSON document that ``promptfoo eval -o results.json`` writes.

A test case with one provider's answer to one prompt is an item. An assertion is a judge, named after the metric or the
assertion type. Scores are read from single assertions, because ``namedScores`` are already weighted.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warehouse.importers.collected import Collector, files_of, id_of, label_of, numbered, text_of
from warehouse.items import ItemRecord


def read(path: Path, collector: Collector) -> None:
    """Read one JSON document of results, or all JSON documents in a folder."""
    for file in files_of(path, "*.json", "results of promptfoo"):
        for record in collector.document(file)["results"]["results"]:
            _add(collector, record)


def _add(collector: Collector, record: Mapping[str, Any]) -> None:
    case = record.get("testCase") or {}
    metadata, variables = case.get("metadata") or {}, record.get("vars") or {}
    provider = record.get("provider") or {}
    system = f"{provider.get('id')} prompt {record.get('promptIdx', 0)}"
    item_id = f"{id_of(metadata, variables) or 'test ' + str(record.get('testIdx'))}@{system}"
    collector.add_item(
        ItemRecord(
            item_id,
            prompt=text_of((record.get("prompt") or {}).get("raw")),
            response=text_of((record.get("response") or {}).get("output")),
            gold=label_of(metadata, variables),
            metadata={"system": system, **variables, **metadata},
        )
    )
    components = list(_components(record.get("gradingResult") or {}))
    assertions = [component.get("assertion") or {} for component in components]
    judges = numbered(str(each.get("metric") or each.get("type") or "assertion") for each in assertions)
    for judge, component in zip(judges, components, strict=True):
        collector.add_score(item_id, judge, component.get("score"))


def _components(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the result of each single assertion, including assertions inside assertion sets."""
    for component in result.get("componentResults") or []:
        if component.get("componentResults"):
            yield from _components(component)
        else:
            yield component
