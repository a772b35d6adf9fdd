"""``care migrate``: bring what an earlier release of CARE wrote to this one, before a deployment starts.

Belongs here: this command. Belongs elsewhere: Dagster's own storage, which ``dagster instance migrate`` brings up to
date; how the database is rebuilt (``assets.state.rebuild``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import console, errors, speaking_errors


@speaking_errors
def migrate(workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path()) -> None:
    """Rebuild the database where an earlier release made it; no judge is asked, and a later one is refused."""
    from assets.state.rebuild import is_outdated, rebuild_warehouse
    from orchestration.locks import workspace_alone

    with workspace_alone(workspace, "care migrate") as loaded:
        if not is_outdated(loaded):
            console.print("the database is of this release; nothing is to be migrated")
            return
        left_out = rebuild_warehouse(loaded)
    for judge, why in left_out.items():
        errors.print(
            f"warning: the scores of judge {judge} are left out of the database: {why}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    console.print(f"{loaded.warehouse.path} was rebuilt from the parts", highlight=False, soft_wrap=True)
