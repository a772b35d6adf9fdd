"""Files of questions at an endpoint: for each a document beside the judge's parts, until its answers are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from judges.batch import Batch, BatchStore
    from judges.bill import Bill
    from warehouse.parts import PartStore


def batch_store(folder: Path, key: str, enter: Callable[[Batch, Bill], None]) -> BatchStore:
    """The batches of the judge whose parts lie in a folder; ``enter`` takes what each has cost."""
    from judges.batch import BatchStore
    from warehouse.storage import delete, write_document

    def place(batch: Batch) -> Path:
        return folder / f"batch.{batch.token}.json"

    def keep(batch: Batch) -> None:
        write_document(place(batch), asdict(batch))

    return BatchStore(key, lambda: _batches_in(folder), place, keep, lambda batch: delete(place(batch)), enter)


def open_batches(workspace: Workspace, judge: str, testset: str, parts: PartStore | None = None) -> list[Batch]:
    """The batches of a judge behind an endpoint on a test set's items and probes, or on those of one store of parts."""
    if not workspace.judge(judge).engine.needs.endpoint:
        return []
    stores = (workspace.parts, workspace.probe_parts) if parts is None else (parts,)
    return [batch for store in stores for batch in _batches_in(store.scores_folder(judge, testset))]


def _batches_in(folder: Path) -> list[Batch]:
    """What is kept in a folder, oldest first; a damaged document is set aside, and the judge is not asked then."""
    from judges.batch import Batch
    from warehouse.documents import read_record
    from warehouse.storage import find_sound

    found = (find_sound(path, partial(read_record, kind=Batch)) for path in folder.glob("batch.*.json"))
    return sorted((batch for batch in found if batch is not None), key=lambda batch: (batch.since, batch.token))


def every_batch(workspace: Workspace) -> dict[tuple[str, str], list[Batch]]:
    """The batches of all judges, by judge and test set."""
    asked = ((judge, testset) for judge in sorted(workspace.judges) for testset in workspace.testsets_of(judge))
    found = {(judge, testset): open_batches(workspace, judge, testset) for judge, testset in asked}
    return {place: batches for place, batches in found.items() if batches}


def told(workspace: Workspace) -> list[str]:
    """A sentence about each batch."""
    return [
        f"judge {judge}: {batch.questions:,} questions on {testset} are in a batch since {batch.since:.16} UTC "
        f"({batch.batch_id or 'not yet confirmed'}), {batch.done:,} of {len(batch.lines):,} done; the next run "
        "collects them"
        for (judge, testset), batches in every_batch(workspace).items()
        for batch in batches
    ]
