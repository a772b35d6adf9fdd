"""The experiments as assets, and which of them are out of date."""

import time
from typing import TYPE_CHECKING

import dagster as dg

from assets.common import source_hash
from assets.workspace import Workspace

if TYPE_CHECKING:
    from assets.experiments.base import Experiment

KEYS = (
    "aggregation_tables",
    "paper_protocol",
    "quality_factor",
    "confounder_features",
    "dummy_judges",
    "injected_bias",
    "regime_sufficient",
    "regime_insufficient",
    "graph_aware_views",
    "orthogonality",
    "tensor_against_svd",
    "theory_rates",
)
"""In the order of the pages. Names alone, so that listing the assets needs no numpy."""

_OF_PANELS = KEYS[:6]


def experiments() -> "dict[str, Experiment]":
    """Every experiment by its key."""
    from assets.experiments import interpretation, protocol, rates, regimes, robustness, tables, views

    every = (
        tables.AGGREGATION,
        protocol.PROTOCOL,
        tables.FACTORS,
        interpretation.CONFOUNDERS,
        interpretation.DUMMY_JUDGES,
        robustness.ROBUSTNESS,
        regimes.SUFFICIENT,
        regimes.INSUFFICIENT,
        views.GRAPH_AWARE,
        views.ORTHOGONALITY,
        views.TWO_WAY,
        rates.RATES,
    )
    return {experiment.key: experiment for experiment in every}


def outdated(workspace: Workspace) -> list[str]:
    """Experiments that are not kept, or made from other code or inputs, or at a smaller size than asked for."""
    return [key for key, e in experiments().items() if not e.current(workspace, full=workspace.experiments == "full")]


def _asset(key: str) -> dg.AssetsDefinition:
    upstream = ("panel", "gold") if key in _OF_PANELS else ()

    @dg.asset(
        name=key,
        group_name="experiments",
        deps=[dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping()) for asset in upstream],
        kinds={"html"},
        code_version=source_hash("care_ops", "assets.experiments"),
        description=f"Experiment: {key.replace('_', ' ')}.",
    )
    def experiment(workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
        from assets.report.experiments import write_experiments

        found, full = experiments()[key], workspace.experiments == "full"
        started = time.perf_counter()
        findings = found.run(workspace, full)
        found.keep(workspace, findings, full=full, seconds=time.perf_counter() - started)
        page = write_experiments(workspace.report_folder, workspace, list(experiments().values()))[key]
        return dg.MaterializeResult(
            metadata={
                "page": dg.MetadataValue.path(str(page)),
                "size": workspace.experiments,
                "says": dg.MetadataValue.md("\n".join(f"- {line}" for line in findings.says)),
            }
        )

    return experiment


EXPERIMENTS = tuple(_asset(key) for key in KEYS)
