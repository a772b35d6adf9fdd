"""Adaptation of CARE's assets to a workspace in a Dagster project.

Each asset is defined once, without a key prefix. ``mounted`` wraps the asset in a step that gets the workspace from a
Dagster resource, waits for slots in the pools of the judges, and returns only the selected assets and checks.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.mount import Mount
from assets.partitions import JUDGES, SLICES, TESTSETS
from assets.workers import HERE
from orchestration.dagster_internals import body_of, pool_slots
from orchestration.plan import REASON

if TYPE_CHECKING:
    from assets.workspace import Workspace

RESOURCE, PUBLISHED = "care_workspace", "care_published"

GPU = "gpu"
"""Pool of runs whose judges load a model; all workspaces of a Dagster instance share the pool."""


def mounted(
    asset: dg.AssetsDefinition, mount: Mount, root: Path, owners: Sequence[str] = (), *, in_pool: bool = True
) -> dg.AssetsDefinition:
    """Return a copy of an asset for the workspace at ``root``, with ``owners`` and with the key prefix in ``mount``.

    If ``in_pool`` is False, steps do not wait for a slot in the asset's pool; DuckDB's lock excludes other writers.
    """
    body, resource = body_of(asset), mount.name(RESOURCE)
    takes = inspect.getargs(body.__code__).args
    partitions = _partitions(asset.partitions_def, mount)

    @dg.multi_asset(
        name=mount.name(asset.op.name),
        specs=[_spec(spec, mount, root, owners, partitions) for spec in asset.specs],
        check_specs=[_check(spec, mount, partitions) if mount.prefix else spec for spec in asset.check_specs],
        partitions_def=partitions,
        backfill_policy=asset.backfill_policy,
        op_tags=asset.op.tags,
        pool=mount.name(asset.op.pool) if asset.op.pool and in_pool else None,
        can_subset=asset.can_subset or bool(asset.check_specs),
        required_resource_keys={resource},
        description=asset.op.description,
    )
    def step(context: dg.AssetExecutionContext) -> Iterator[Any]:
        workspace: Workspace = getattr(context.resources, resource)
        given = {"context": context, "workspace": workspace}
        with _pool_slots(context, workspace, asset):
            made = body(**{name: value for name, value in given.items() if name in takes})
            for result in [made] if isinstance(made, dg.MaterializeResult) else made:
                yield from _selected(context, workspace, asset, result)

    return step


def _spec(
    spec: dg.AssetSpec,
    mount: Mount,
    root: Path,
    owners: Sequence[str],
    partitions: dg.PartitionsDefinition[Any] | None,
) -> dg.AssetSpec:
    name = spec.key.to_user_string()
    changed = spec.replace_attributes(
        key=mount.key(name),
        deps=[
            dg.AssetDep(mount.key(dep.asset_key.path[-1]), partition_mapping=dep.partition_mapping) for dep in spec.deps
        ],
        tags={**spec.tags, "care/workspace": re.sub(r"[^A-Za-z0-9_.-]", "_", root.name)[:63] or "root"},
        owners=[*owners],
        group_name=mount.name(spec.group_name or "default"),
        kinds=spec.kinds or {"json"},  # a document in the fit's folder
        partitions_def=partitions,
    )
    return changed.with_io_manager_key(mount.name(PUBLISHED)) if name == "review" else changed


def _check(spec: dg.AssetCheckSpec, mount: Mount, partitions: dg.PartitionsDefinition[Any] | None) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        spec.name,
        asset=mount.key(spec.asset_key.path[-1]),
        description=spec.description,
        blocking=spec.blocking,
        partitions_def=partitions,
    )


def _partitions(definition: dg.PartitionsDefinition[Any] | None, mount: Mount) -> dg.PartitionsDefinition[Any] | None:
    if definition is None or not mount.prefix:
        return definition
    judges, testsets = (dg.DynamicPartitionsDefinition(name=mount.name(str(d.name))) for d in (JUDGES, TESTSETS))
    if definition == SLICES:
        return dg.MultiPartitionsDefinition({"judge": judges, "testset": testsets})
    return judges if definition == JUDGES else testsets


def _pool_slots(
    context: dg.AssetExecutionContext, workspace: "Workspace", asset: dg.AssetsDefinition
) -> AbstractContextManager[None]:
    """Hold a slot in the pool of each judge of a step, and a slot in the pool of GPUs if a judge loads a model."""
    judges = context.partition_keys if asset.partitions_def == JUDGES else []
    pools = [workspace.mount.name(f"judge_{judge}") for judge in judges]
    if any(workspace.judge(judge).engine.needs.model for judge in judges if judge in workspace.judges):
        pools.append(GPU)
    return pool_slots(context, sorted(pools))


def _selected(
    context: dg.AssetExecutionContext, workspace: "Workspace", asset: dg.AssetsDefinition, result: dg.MaterializeResult
) -> Iterable[dg.MaterializeResult | dg.AssetCheckResult]:
    name = result.asset_key.path[-1] if result.asset_key else asset.key.path[-1]
    key, chosen = workspace.mount.key(name), {check.name for check in context.selected_asset_check_keys}
    checks = [check for check in result.check_results or () if check.check_name in chosen]
    if key not in context.selected_asset_keys:
        return checks
    metadata = dict(result.metadata or {})
    if why := context.run.tags.get(REASON):
        metadata["built_because"] = why
    if workspace.workers.place != HERE:
        metadata["ran_on"] = workspace.workers.place
    version, tags = result.data_version, result.tags
    return [
        dg.MaterializeResult(asset_key=key, metadata=metadata, check_results=checks, data_version=version, tags=tags)
    ]
