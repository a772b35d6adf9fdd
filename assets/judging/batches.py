"""Documents of open batch-API jobs at an endpoint; CARE keeps a document until all answers are stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from care_ops.errors import counted

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from judges.batch import Batch, BatchStore
    from judges.bill import Bill


def batch_store(folder: Path, key: str, enter: Callable[[Batch, Bill], None]) -> BatchStore:
    """Open the store of a judge's batches in the folder of the judge's scores."""
    from judges.batch import BatchStore
    from warehouse.documents import write_record
    from warehouse.storage import delete

    def place(batch: Batch) -> Path:
        return folder / f"batch.{batch.token}.json"

    def keep(batch: Batch) -> None:
        write_record(place(batch), batch)

    return BatchStore(key, partial(_batches_in, folder), place, keep, lambda one: delete(place(one)), enter)


def open_batches(workspace: Workspace, judge: str, testset: str) -> list[Batch]:
    """Return the batches that a judge has open at its endpoint for a test set."""
    if not workspace.judge(judge).engine.needs.endpoint:
        return []
    return _batches_in(workspace.parts.scores_folder(judge, testset))


def _batches_in(folder: Path) -> list[Batch]:
    from judges.batch import Batch
    from warehouse.documents import read_record
    from warehouse.storage import find_sound

    # A damaged document is quarantined; no requests are then sent to the judge.
    found = (find_sound(path, partial(read_record, kind=Batch)) for path in folder.glob("batch.*.json"))
    return sorted((batch for batch in found if batch is not None), key=lambda batch: (batch.since, batch.token))


def every_batch(workspace: Workspace) -> dict[tuple[str, str], list[Batch]]:
    """Return the open batches of all judges, by judge and test set."""
    asked = ((judge, testset) for judge in sorted(workspace.judges) for testset in workspace.testsets_of(judge))
    found = {(judge, testset): open_batches(workspace, judge, testset) for judge, testset in asked}
    return {place: batches for place, batches in found.items() if batches}


def batch_messages(workspace: Workspace) -> list[str]:
    """Return a message about each open batch, with its progress."""
    return [
        f"judge {judge}: a batch of {counted(batch.questions, 'question')} on {testset} has been open since "
        f"{batch.since:.16} UTC ({batch.batch_id or 'not yet confirmed'}), {batch.done:,} of {len(batch.lines):,} "
        "requests done; `care run` collects the responses"
        for (judge, testset), batches in every_batch(workspace).items()
        for batch in batches
    ]
