"""What Dagster hands to assets: the workspace, while nobody changes it.

Belongs here: Dagster's resources. Does not: the workspace itself (``assets.workspace``), reading it (``workspace``),
who may work on it (``locks``).
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from pydantic import Field

from assets.state.rebuild import is_outdated, rebuild_warehouse
from assets.workspace import Workspace
from orchestration.locks import together, workspace_alone
from orchestration.workspace import load_workspace


class WorkspaceResource(dg.ConfigurableResource[Workspace]):
    """The workspace in a folder, read anew by each run. A run waits for it while a command changes it.

    Where the database is gone, damaged or of an earlier release, the first run that comes rebuilds it.

    Assets take it as ``workspace: dg.ResourceParam[Workspace]``: what they get is the workspace, not this resource.
    """

    folder: str = Field(description="Absolute path of the folder of care.yaml.")

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Workspace]:
        """Share the workspace's lock with other runs, and read the workspace once no command changes it."""
        root = Path(self.folder)
        say = context.log.info if context.log else print
        if is_outdated(load_workspace(root)):
            with workspace_alone(root, "the rebuild of the database") as loaded:
                if is_outdated(loaded):  # another run may have been faster
                    say("the database is gone, damaged or of an earlier release; it is rebuilt from the parts")
                    for judge, why in rebuild_warehouse(loaded).items():
                        say(f"the scores of judge {judge} are left out of the database: {why}")
        with together(load_workspace(root), context.run.run_id if context.run else "", say):
            yield load_workspace(root)
