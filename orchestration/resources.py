"""Dagster resource: the workspace, read while no command changes it."""

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
    """The workspace in a folder, read by each run, which waits while a command changes it.

    The first run rebuilds a database that is missing, damaged or of an earlier release. Assets get the ``Workspace``,
    not this resource.
    """

    folder: str = Field(description="Absolute path of the folder of care.yaml.")
    key_prefix: list[str] = Field(default=[], description="Prefix of the workspace's asset keys.")

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Workspace]:
        """Share the workspace's lock with other runs, then read the workspace."""
        from assets.state.rebuild import is_outdated

        root = Path(self.folder)
        say = context.log.info if context.log else print
        workspace = load_workspace(root)
        if is_outdated(workspace):
            _rebuild(root, say)
        with together(workspace, context.run.run_id if context.run else "", say):
            yield replace(load_workspace(root), mount=Mount(tuple(self.key_prefix)))


def _rebuild(root: Path, say: Say) -> None:
    """Rebuild the database under the exclusive lock, unless another run has done so meanwhile."""
    from assets.state.rebuild import is_outdated, rebuild_warehouse

    with workspace_alone(root, "the rebuild of the database") as workspace:
        if is_outdated(workspace):
            say("the database is gone, damaged or of an earlier release; it is rebuilt from the parts")
            for judge, why in rebuild_warehouse(workspace).items():
                say(f"the scores of judge {judge} are left out of the database: {why}")
