"""Names of a workspace's assets in Dagster, with an optional prefix for several workspaces in one deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg


@dataclass(frozen=True)
class Mount:
    """A prefix of asset keys, which also determines all other names in Dagster.

    Attributes
    ----------
    prefix : tuple of str
        Prefix of asset keys; empty if the assets have no prefix.
    """

    prefix: tuple[str, ...] = ()

    def key(self, asset: str) -> dg.AssetKey:
        """Return the key of an asset."""
        import dagster as dg

        return dg.AssetKey([*self.prefix, asset])

    def name(self, what: str) -> str:
        """Return the name of a step, group, job, sensor, schedule, resource, pool or kind of partitions."""
        return "__".join([*self.prefix, what])

    def asset(self, name: str) -> str | None:
        """Return the asset of a key as Dagster writes it, or of a step; None for a name under another prefix."""
        for separator in ("/", "__"):
            prefix = "".join(part + separator for part in self.prefix)
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix):
                return name.removeprefix(prefix)
        return None


UNMOUNTED = Mount()
"""The only workspace of a Dagster."""
