"""Names of a workspace's assets in Dagster, with an optional prefix for several workspaces in one deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg


@dataclass(frozen=True)
class Mount:
    """Prefix of asset keys and of all other names of a workspace in Dagster.

    Attributes
    ----------
    prefix : tuple of str
        Prefix of asset keys; empty if the assets have no prefix.
    """

    prefix: tuple[str, ...] = ()

    def key(self, asset: str) -> dg.AssetKey:
        """Return the Dagster key of an asset."""
        import dagster as dg

        return dg.AssetKey([*self.prefix, asset])

    def name(self, what: str) -> str:
        """Return the prefixed Dagster name of a step, group, job, sensor, schedule, resource, pool or partitions."""
        return "__".join([*self.prefix, what])

    def asset(self, name: str) -> str | None:
        """Return the asset that a Dagster key or step name belongs to; None if the name has another prefix."""
        for separator in ("/", "__"):
            prefix = "".join(part + separator for part in self.prefix)
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix):
                return name.removeprefix(prefix)
        return None


UNMOUNTED = Mount()
"""Mount without a prefix, for a deployment with a single workspace."""
