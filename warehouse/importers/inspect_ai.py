"""Importer of inspect_ai's logs: ``.json`` files, or ``.eval`` zip archives of JSON documents.

An item is a model's answer to a sample in one epoch. The answers to a sample form a split unit. A scorer is a judge.
If a scorer is a panel of models, each model is a judge, and the majority vote is not used.
"""

import os
import struct
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from care_ops.errors import InputError
from warehouse.conversations import messages_of, split_answer
from warehouse.importers.collected import Collector, files_of, is_label, label_of, numbered, text_of
from warehouse.items import ItemRecord
from warehouse.sources.bounds import refuse_size
from warehouse.sources.records import parse_json

_ZSTANDARD = 93
_LOCAL_HEADER = "<4s5H3I2H"
"""Format of a file's header in a zip archive; the last two values are the lengths of the name and extra field."""


def read(path: Path, collector: Collector) -> None:
    """Read a log, or all logs of one task in a folder; if two logs contain the same sample, the newer log is used.

    Raises ``InputError`` if a file is not a log, or the logs belong to several tasks.
    """
    logs = [(file, _log(collector, file)) for file in _files(path)]
    whole: list[tuple[Path, dict[str, Any]]] = []
    for file, log in logs:
        if log.get("status") == "success":
            whole.append((file, log))
        else:
            collector.note(f"left out: {file.name} (status {log.get('status')!r}); complete the run in inspect_ai")
    tasks = sorted({str(log["eval"].get("task")) for _, log in whole})
    if len(tasks) > 1:
        raise InputError(
            f"{path}: the folder contains logs of {len(tasks)} tasks ({', '.join(tasks)}); put the logs of each "
            "task into a separate folder, and import one folder"
        )
    for file, log in sorted(whole, key=lambda each: str(each[1]["eval"].get("created"))):
        collector.opening(file)
        panels = _panels(log["eval"])
        for sample in log["samples"]:
            _add_sample(collector, sample, str(log["eval"].get("model")), panels)


def _files(path: Path) -> list[Path]:
    """Return the log at ``path``, or all logs in the folder ``path``; ignore inspect_ai's other JSON files."""
    if path.is_file():
        return [path]
    files = [file for file in files_of(path, "*.*", "log of inspect_ai") if file.suffix in (".json", ".eval")]
    logs = [file for file in files if file.name not in ("logs.json", "eval-set.json")]
    if not logs:
        raise InputError(f"{path}: the folder contains no log of inspect_ai; give a folder with .json or .eval logs")
    return logs


def _log(collector: Collector, path: Path) -> dict[str, Any]:
    log = _archive(collector, path) if path.suffix == ".eval" else collector.document(path)
    if log.get("version") != 2:
        raise InputError(
            f"{path}: the log has version {log.get('version')!r}, but CARE reads only version 2; convert the log with "
            "`inspect log convert`"
        )
    return log


def _archive(collector: Collector, path: Path) -> dict[str, Any]:
    collector.opening(path)
    with zipfile.ZipFile(path) as archive:
        refuse_size(path, sum(info.file_size for info in archive.infolist()))
        names = archive.namelist()
        if "header.json" not in names:
            return {"version": 2, "eval": {}, "status": "started"}
        header = parse_json(_member(path, archive, "header.json"))
        samples = [parse_json(_member(path, archive, name)) for name in names if name.startswith("samples/")]
    return {**header, "samples": samples}


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a file from a zip archive, even with Zstandard compression, for which ``zipfile`` needs Python 3.14."""
    info = archive.getinfo(name)
    if info.compress_type != _ZSTANDARD:
        return archive.read(name)
    with path.open("rb") as file:
        file.seek(info.header_offset)
        *_, length_of_name, length_of_extra = struct.unpack(_LOCAL_HEADER, file.read(struct.calcsize(_LOCAL_HEADER)))
        file.seek(length_of_name + length_of_extra, os.SEEK_CUR)
        compressed = file.read(info.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(compressed), "zstd") as stream:
        return stream.read(info.file_size)


def _panels(evaluation: Mapping[str, Any]) -> dict[str, list[str]]:
    """Map the name of each scorer that is a panel of models to the names of the panel's models."""
    panels: dict[str, list[str]] = {}
    used = Counter[str]()
    for scorer in evaluation.get("scorers") or []:
        name = str(scorer.get("name"))
        models = (scorer.get("options") or {}).get("model")
        if isinstance(models, list):
            panels[f"{name}{used[name] or ''}"] = [str(m.get("model") if isinstance(m, Mapping) else m) for m in models]
        used[name] += 1
    return panels


def _add_sample(collector: Collector, sample: Mapping[str, Any], system: str, panels: Mapping[str, list[str]]) -> None:
    epoch, metadata = int(sample.get("epoch") or 1), sample.get("metadata") or {}
    repetition = f"#{epoch}" if epoch > 1 else ""
    item_id = f"{sample.get('id')}{repetition}@{system}"
    collector.add_item(
        ItemRecord(
            item_id,
            prompt=text_of(sample.get("input")),
            response=_answer(sample),
            reference=text_of(sample.get("target")),
            gold=label_of(metadata),
            split_unit=str(sample.get("id")),  # answers to one sample depend on each other
            metadata={"sample": str(sample.get("id")), "epoch": epoch, "system": system, **metadata},
        )
    )
    for scorer, score in (sample.get("scores") or {}).items():
        if is_label(scorer):
            collector.note(f"scorer {scorer!r} is read as human labels, because its name refers to a person")
            collector.add_label(item_id, score.get("value"))
            continue
        votes = ((score.get("metadata") or {}).get("panel") or {}).get("votes")
        models = panels.get(scorer, [])
        if isinstance(votes, list) and len(votes) == len(models):
            collector.note(f"scorer {scorer!r}: its {len(models)} models are judges; their majority vote is not used")
            for model, vote in zip(numbered(models), votes, strict=True):
                collector.add_score(item_id, f"{scorer}:{model}", vote)
        else:
            collector.add_score(item_id, scorer, score.get("value"))


def _answer(sample: Mapping[str, Any]) -> str | None:
    """Return a sample's answer: the first completion or, if tools were called, all text after the last user message."""
    messages = messages_of(sample.get("messages"))
    if any(message.get("tool_calls") for message in messages):
        return split_answer(messages)[1]
    choices = (sample.get("output") or {}).get("choices") or []
    return text_of(choices[0].get("message", {}).get("content")) if choices else None
