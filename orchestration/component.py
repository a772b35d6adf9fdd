"""Dagster component that adds a CARE workspace to a Dagster project."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from care_ops.errors import InputError
from orchestration.definitions import build_defs
from orchestration.workspace import CARE_YAML


class CareWorkspaceComponent(dg.Component, dg.Model, dg.Resolvable):
    """Component with the assets, sensors, schedules and asset checks of a CARE workspace.

    Attributes
    ----------
    workspace : str
        Folder of care.yaml; a relative path is relative to the folder of the component's ``defs.yaml``.
    key_prefix : str or tuple of str
        Prefix of the workspace's asset keys, for several workspaces in one project.
    watch : bool
        Whether to start the sensors for partitions and alerts even without `nightly` or `on_change` in care.yaml.
    """

    workspace: str
    key_prefix: str | tuple[str, ...] = ()
    watch: bool = False

    @property
    def prefix(self) -> tuple[str, ...]:
        """Components of the asset key prefix, as a tuple."""
        return (self.key_prefix,) if isinstance(self.key_prefix, str) else self.key_prefix

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the Dagster definitions of the workspace.

        Raises ``InputError`` if there is no workspace in the folder, or another component has the same prefix.
        """
        folder = (Path(context.path) / self.workspace).resolve()
        if not (folder / CARE_YAML).is_file():
            raise InputError(
                f"{folder} has no {CARE_YAML}; correct `workspace`, or create a workspace with `care init {folder}`"
            )
        every = context.component_tree.get_all_components(type(self))
        if [each.prefix for each in every].count(self.prefix) > 1:
            raise InputError(f"{folder}: two workspaces have the same key prefix; give each a different `key_prefix`")
        return build_defs(folder, key_prefix=self.prefix, watch=self.watch)
