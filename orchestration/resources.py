"""What Dagster hands to assets: the workspace, while nobody changes it."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg
from pydantic import Field

from assets.mount import Mount
from assets.workspace import Workspace
from orchestration.locks import Say, together, workspace_alone
from orchestration.workspace import load_workspace


class WorkspaceResource(dg.ConfigurableResource[Workspace]):
    """The workspace in a folder, read anew by each run. A run waits for it while a command changes it.

    Where the database is gone, damaged or of an earlier release, the first run that comes rebuilds it.

    What assets get as ``workspace`` is the workspace, not this resource.
    """

    folder: str = Field(description="Absolute path of the folder of care.yaml.")
    key_prefix: list[str] = Field(default=[], description="Of the workspace's asset keys.")

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Workspace]:
        """Share the workspace's lock with other runs, and read the workspace once no command changes it."""
        from assets.state.rebuild import is_outdated

        root = Path(self.folder)
        say = context.log.info if context.log else print
        workspace = load_workspace(root)
        if is_outdated(workspace):
            _rebuild(root, say)
        with together(workspace, context.run.run_id if context.run else "", say):
            yield replace(load_workspace(root), mount=Mount(tuple(self.key_prefix)))


def _rebuild(root: Path, say: Say) -> None:
    """Rebuild the database while no other run is at work, unless another run has done so meanwhile."""
    from assets.state.rebuild import is_outdated, rebuild_warehouse

    with workspace_alone(root, "the rebuild of the database") as workspace:
        if is_outdated(workspace):
            say("the database is gone, damaged or of an earlier release; it is rebuilt from the parts")
            for judge, why in rebuild_warehouse(workspace).items():
                say(f"the scores of judge {judge} are left out of the database: {why}")
