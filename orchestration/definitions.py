"""CARE's Dagster definitions over one workspace.

``defs`` reads the workspace named by ``CARE_WORKSPACE`` (by default the current folder); a team that has
a Dagster of its own calls ``build_defs`` with its folder.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from assets.experiments.registry import experiment_pages
from assets.fit.aggregates import aggregates
from assets.fit.moments import moments
from assets.fit.panel import panel
from assets.fit.probes import probes
from assets.fit.structure import structure
from assets.inputs.items import items
from assets.judging.canary import canary
from assets.judging.judge_inference import judge_inference
from assets.judging.scores import scores
from assets.publication.review import review
from assets.report.report import report
from assets.report.report_index import report_index
from assets.results.evaluation import evaluation
from assets.results.factors import factors
from assets.results.intervals import intervals
from assets.results.systems import systems
from assets.state.night import night
from assets.workspace import Workspace
from orchestration.resources import WorkspaceResource
from orchestration.schedules import build_schedules
from orchestration.sensors import build_sensors
from orchestration.workspace import CARE_YAML, NightlySettings, Settings, load_workspace, read_settings

ASSETS = (
    items,
    judge_inference,
    scores,
    panel,
    probes,
    moments,
    structure,
    aggregates,
    review,
    evaluation,
    intervals,
    systems,
    factors,
    report,
    report_index,
)


def build_defs(root: Path | None = None, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """Definitions over the workspace at ``root``.

    Parameters
    ----------
    root : Path, optional
        Folder of care.yaml; by default ``CARE_WORKSPACE``, or the current folder. Each run and each tick reads it
        anew, so a new judge needs no restart; a new hour of the night, new owners and the seconds between two looks of
        the daemon need the definitions to be reloaded.
    resources : mapping, optional
        Takes the place of resources by name; a ``workspace`` is a ``Workspace`` or a ``WorkspaceResource``.
    """
    folder = (root or Path(os.environ.get("CARE_WORKSPACE", "."))).absolute()
    settings = read_settings(folder) if (folder / CARE_YAML).exists() else Settings()

    def load() -> Workspace:
        return load_workspace(folder)

    assets = [*ASSETS, experiment_pages, canary, nightly_check(settings.nightly)]
    return dg.Definitions(
        assets=[owned(asset, settings.owners) for asset in assets] if settings.owners else assets,
        resources={"workspace": WorkspaceResource(folder=str(folder)), **(resources or {})},
        sensors=build_sensors(folder, load, lambda: (folder, read_settings(folder)), settings.watch_seconds),
        schedules=build_schedules(load, settings.nightly),
        executor=dg.in_process_executor,
    )


def owned(asset: dg.AssetsDefinition | dg.AssetSpec, owners: Sequence[str]) -> dg.AssetsDefinition | dg.AssetSpec:
    """Give an asset the owners that care.yaml names."""
    if isinstance(asset, dg.AssetSpec):
        return asset.replace_attributes(owners=owners)
    return asset.map_asset_specs(lambda spec: spec.replace_attributes(owners=owners))


def nightly_check(nightly: NightlySettings | None) -> dg.AssetsDefinition:
    """The asset `night`, with a freshness policy for the hour by which it must have been made, where there is one."""
    if nightly is None:
        return night
    given = timedelta(hours=nightly.deadline_hours, minutes=1)
    policy = dg.FreshnessPolicy.cron(nightly.deadline_cron(), given, nightly.zone)
    return night.map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=policy))


defs = build_defs()
