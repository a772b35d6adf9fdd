"""Dagster resources for a workspace and its published scores."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from assets.mount import Mount
from assets.workspace import Workspace
from care_ops.errors import InputError
from orchestration.locks import Say, locked_workspace, shared_lock
from orchestration.workspace import load_workspace

if TYPE_CHECKING:
    import pyarrow

_PUBLISHED = (
    "SELECT item_id, aggregator, estimate, sd, p_quality, fit_id FROM latest_aggregates WHERE testset = ? "
    "ORDER BY item_id, aggregator"
)


class WorkspaceResource(dg.ConfigurableResource[Workspace]):
    """Dagster resource that reads the ``Workspace`` in a folder for each run.

    A run waits while a command changes the workspace. If the database is missing, damaged or from an earlier release,
    the run first rebuilds it.
    """

    folder: str = Field(description="Absolute path of the folder of care.yaml.")
    key_prefix: list[str] = Field(default=[], description="Prefix of the workspace's asset keys.")

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Workspace]:
        """Yield the workspace while holding its shared lock."""
        from assets.state.rebuild import needs_rebuild

        root = Path(self.folder)
        say = context.log.info if context.log else print
        workspace = load_workspace(root)
        if needs_rebuild(workspace):
            _rebuild(root, say)
        with shared_lock(workspace, context.run.run_id if context.run else "", say):
            workspace = replace(load_workspace(root), mount=Mount(tuple(self.key_prefix)))
            with closing(workspace.workers):
                yield workspace


class PublishedScores(dg.ConfigurableIOManager):
    """IO manager that loads a test set's published scores (the asset `review`) as an Arrow table.

    Columns: item_id and aggregator (string), estimate, sd and p_quality (double; null if the aggregator gives none),
    fit_id (string). The rows are sorted by item_id and aggregator.
    """

    folder: str = Field(description="Absolute path of the folder of care.yaml.")

    def load_input(self, context: dg.InputContext) -> "pyarrow.Table":
        """Return the published scores of the partition's test set."""
        from orchestration.stores import read_workspace

        with read_workspace(Path(self.folder)).warehouse.reader() as connection:
            return connection.sql(_PUBLISHED, params=[context.asset_partition_key]).to_arrow_table()

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Raise ``InputError``, because CARE's assets write their own files and return no value."""
        raise InputError(
            f"{context.asset_key.to_user_string()} was not stored, because CARE's IO manager can only load published "
            "scores; use another IO manager"
        )


def _rebuild(root: Path, say: Say) -> None:
    from assets.state.rebuild import needs_rebuild, rebuild_warehouse

    with locked_workspace(root, "the rebuild of the database") as workspace:
        if needs_rebuild(workspace):  # another run may have rebuilt it meanwhile
            say("CARE rebuilds the database, because it is missing, damaged or from an earlier release")
            for judge, why in rebuild_warehouse(workspace).items():
                say(f"the scores of judge {judge} are left out of the database: {why}")
