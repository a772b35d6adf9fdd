"""Dagster definitions of a workspace.

``defs`` is for the workspace in ``CARE_WORKSPACE`` (default: the current folder); other projects call ``build_defs``.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg

from assets.experiments.registry import experiment_pages
from assets.fit.aggregates import aggregates
from assets.fit.made import FIT
from assets.fit.moments import moments
from assets.fit.panel import panel
from assets.fit.structure import structure
from assets.inputs.items import items
from assets.judging.canary import canary
from assets.judging.judge_inference import judge_inference
from assets.judging.scores import scores
from assets.mount import Mount
from assets.publication.review import review
from assets.report.report import report
from assets.report.report_index import report_index
from assets.results.evaluation import evaluation
from assets.results.factors import factors
from assets.results.intervals import intervals
from assets.results.systems import systems
from assets.state.night import night
from assets.workspace import Workspace
from orchestration.mounted import PUBLISHED, RESOURCE, mounted
from orchestration.plan import REASON
from orchestration.resources import PublishedScores, WorkspaceResource
from orchestration.sensors import build_sensors
from orchestration.workspace import CARE_YAML, NightlySettings, Settings, load_workspace, read_settings

ASSETS = (
    items,
    judge_inference,
    scores,
    panel,
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

JOBS = {
    "night": (("night",), "Begins a nightly run, which also materialises failed partitions again."),
    "judge": (("judge_inference",), "Lets one judge score all items without a score, in all its test sets."),
    "refit": (FIT, "Materialises a test set's fit and report page again, even if nothing is stale."),
}
"""Assets and description of each job; all assets of a job have the same partitions."""


def build_defs(
    root: str | Path | None = None,
    workspace: Workspace | WorkspaceResource | None = None,
    *,
    key_prefix: str | Sequence[str] = (),
    watch: bool = False,
) -> dg.Definitions:
    """Return the Dagster definitions of a workspace, without an executor.

    Parameters
    ----------
    root : str or Path, optional
        Folder of care.yaml; by default ``CARE_WORKSPACE``, or the current folder. Each run and sensor tick reads the
        folder again, so a new judge needs no restart; changes to `nightly`, `on_change` or `owners` need a reload.
    workspace : Workspace or WorkspaceResource, optional
        Workspace that the assets use, instead of one read from the folder.
    key_prefix : str or sequence of str
        Prefix of asset keys and of the names of sensors, schedules, jobs, resources, pools and partitions. Different
        prefixes allow several workspaces in one code location.
    watch : bool
        Whether to start the sensors for partitions and alerts even without `nightly` or `on_change`. These sensors send
        no requests to judges.
    """
    mount = Mount((key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix))
    folder = Path(root or os.environ.get("CARE_WORKSPACE", ".")).absolute()
    settings = read_settings(folder) if (folder / CARE_YAML).exists() else Settings.model_construct()

    def load() -> Workspace:
        return replace(load_workspace(folder), mount=mount)

    assets = [*ASSETS, experiment_pages, canary, night]
    is_locked = isinstance(workspace, Workspace)  # the caller has locked the workspace
    reads = WorkspaceResource(folder=str(folder), key_prefix=list(mount.prefix))
    return dg.Definitions(
        assets=[mounted(asset, mount, folder, settings.owners, in_pool=not is_locked) for asset in assets],
        resources={
            mount.name(RESOURCE): workspace or reads,
            mount.name(PUBLISHED): PublishedScores(folder=str(folder)),
        },
        jobs=[
            dg.define_asset_job(mount.name(job), [mount.key(asset) for asset in selected], description=description)
            for job, (selected, description) in JOBS.items()
        ],
        sensors=build_sensors(folder, mount, load, settings, watch=watch),
        schedules=[nightly_schedule(mount, settings.nightly)],
    )


def nightly_schedule(mount: Mount, nightly: NightlySettings | None) -> dg.ScheduleDefinition:
    """Return the schedule of nightly runs, which is stopped if care.yaml has no `nightly`."""
    status, settings = dg.DefaultScheduleStatus, nightly or NightlySettings.model_construct()
    return dg.ScheduleDefinition(
        name=mount.name("nightly"),
        job_name=mount.name("night"),
        cron_schedule=settings.cron(),
        execution_timezone=settings.zone,
        tags={REASON: "nightly"},
        default_status=status.STOPPED if nightly is None else status.RUNNING,
        description="Begins a nightly run; `stale_assets_sensor` then requests all stale assets.",
    )


defs = dg.Definitions.merge(build_defs(watch=True), dg.Definitions(executor=dg.in_process_executor))
