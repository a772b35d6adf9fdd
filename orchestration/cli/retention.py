"""``care gc`` and ``care forget``: what is deleted, and only here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import console, show, speaking_errors


@speaking_errors
def gc(
    workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path(),
    yes: Annotated[bool, typer.Option("--yes", help="Delete; otherwise it is only listed.")] = False,
    editions: Annotated[int, typer.Option(help="Latest fits of a test set that are kept.", min=1)] = 30,
    months: Annotated[int, typer.Option(help="And the last fit of each of so many months.", min=0)] = 24,
    days: Annotated[float, typer.Option(help="Parts that nothing reads are kept for so many days.", min=0)] = 90,
) -> None:
    """Delete old fits, and scores of judges that are gone or were specified otherwise."""
    from assets.state.retention import removable, remove
    from orchestration.locks import workspace_alone

    with workspace_alone(workspace, "care gc") as loaded:
        doomed = removable(loaded, editions=editions, months=months, days=days)
        rows = [{"what": r.what, "why": r.why, "bytes": r.size or None} for r in doomed]
        if not doomed:
            console.print("nothing to delete")
            return
        show(rows, "deleted" if yes else "would be deleted", as_json=False)
        if yes:
            console.print(f"{remove(loaded, doomed) / 2**20:.1f} MiB freed", highlight=False)
        else:
            console.print("nothing was deleted; --yes does it")


@speaking_errors
def forget(
    item: Annotated[str, typer.Argument(help="item_id.")],
    testset: Annotated[str, typer.Option(help="The test set it belongs to.")],
    workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path(),
) -> None:
    """Remove an item from items, scores, fits, database and pages, and never read it again."""
    from assets.state.retention import forget as remove_item
    from assets.state.retention import still_held
    from orchestration.locks import workspace_alone

    with workspace_alone(workspace, "care forget") as loaded:
        removed = remove_item(loaded, testset, item)
    rows = ", ".join(f"{count} in {what}" for what, count in removed.items())
    console.print(f"{item} is forgotten: {rows}. `care run` writes the pages anew")
    held = ", ".join(still_held(loaded, testset)) or "the source of the test set"
    console.print(f"may still hold it, since CARE does not touch your own files: {held}; backups and copies of data/")
