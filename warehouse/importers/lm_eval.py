"""Importer of lm-evaluation-harness's samples: files ``samples_TASK_TIME.jsonl``, one per model and task.

A document with one model's answer is an item. The item id is the document's own id or hash, because ``doc_id`` is only
a position. Each metric is a judge. A document's field ``label`` or ``gold`` is the right answer to the question; only a
field whose name begins with ``human`` is a label of the model's answer.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from care_ops.errors import InputError
from warehouse.importers.collected import Collector, files_of, id_of, label_of, text_of
from warehouse.items import ItemRecord

_NAME = re.compile(r"^samples_(?P<task>.+)_(?P<time>\d{4}-\d{2}-\d{2}T[\d.-]+)\.jsonl$")


def read(path: Path, collector: Collector) -> None:
    """Read one file of samples, or all files of one task in a folder; the newest run of each model is used.

    Raises ``InputError`` if a file does not contain samples, or the files belong to several tasks.
    """
    files = {file: _NAME.match(file.name) for file in files_of(path, "samples_*.jsonl", "samples of lm-eval")}
    tasks = sorted({match["task"] for match in files.values() if match})
    if len(tasks) > 1:
        raise InputError(
            f"{path}: the folder contains samples of {len(tasks)} tasks ({', '.join(tasks)}); give a file or a "
            "folder of one task"
        )
    for file, match in sorted(files.items(), key=lambda each: each[1]["time"] if each[1] else ""):
        system = _system(collector, file, match["time"] if match else None)
        for record in collector.lines(file):
            _add(collector, record, system)


def _system(collector: Collector, samples: Path, time: str | None) -> str:
    """Return the model's name from the results of the samples' run, or the folder's name if there are no results."""
    results = samples.parent / f"results_{time}.json"
    document = collector.document(results) if time is not None and results.is_file() else {}
    return str(document.get("model_name") or document.get("model_source") or samples.parent.name)


def _add(collector: Collector, record: Mapping[str, Any], system: str) -> None:
    document = record["doc"] if isinstance(record.get("doc"), Mapping) else {}
    name = id_of(document) or str(record.get("doc_hash"))[:16]
    item_id = f"{name}@{system}"
    arguments = (record.get("arguments") or {}).get("gen_args_0") or {}
    collector.add_item(
        ItemRecord(
            item_id,
            prompt=text_of(arguments.get("arg_0")),
            response=text_of((record.get("filtered_resps") or [None])[0]),
            reference=text_of(record.get("target")),
            gold=label_of({key: value for key, value in document.items() if key.startswith("human")}),
            metadata={"system": system, "doc_hash": record.get("doc_hash")},
        )
    )
    used = record.get("filter") or "none"
    for metric in record["metrics"]:
        collector.add_score(item_id, metric if used == "none" else f"{metric}:{used}", record.get(metric))
