"""``care admin backup``: a copy of a workspace in one file, while nobody else changes it."""

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import Root, console


def backup(
    file: Annotated[Path, typer.Argument(help="The tar file to write, on another disk; one of that name is replaced.")],
    workspace: Root = Path(),
) -> None:
    """Copy the workspace into one file: settings, your files, scores and fits; what CARE makes again is left out."""
    from assets.state.backup import write_backup
    from orchestration.locks import workspace_alone

    with workspace_alone(workspace, "care admin backup") as loaded:
        written = write_backup(loaded, file)
    console.print(
        f"{file} holds {written.files} files, {written.size / 2**20:.1f} MiB. To restore it, unpack it into an empty "
        "folder with `tar -xf` and type `care run` there; no judge is asked again"
    )
