"""Dagster assets of the experiments, and detection of stale experiments."""

import hashlib
import importlib
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from assets.code import code_version
from assets.metadata import bullets, failure
from assets.workspace import Workspace

if TYPE_CHECKING:
    from assets.experiments.base import Experiment

MODULES = {
    "paper_tables": "paper_tables",
    "quality_factor": "factors",
    "confounder_features": "factors",
    "dummy_judges": "factors",
    "program_integration": "program_integration",
    "injected_bias": "versions",
    "adversarial_answers": "versions",
    "regime_sufficient": "regimes",
    "regime_insufficient": "regimes",
    "graph_aware_views": "third_moments",
    "orthogonality": "theory",
    "tensor_against_svd": "third_moments",
    "theory_rates": "theory",
    "ledger": "ledger",
}
"""Module of each experiment, in page order; the ledger is last because it reads all other findings."""

KEYS = tuple(MODULES)

OF_PANELS = KEYS[:7]
"""Experiments that read the panels and gold of the workspace."""

LEDGER = "ledger"


def experiments() -> "dict[str, Experiment]":
    """Return all experiments by key."""
    modules = [importlib.import_module(f"{__package__}.{name}") for name in {*MODULES.values()}]
    found = {each.key: each for module in modules for each in module.EXPERIMENTS}
    return {key: found[key] for key in KEYS}


def stale(workspace: Workspace, among: Collection[str] = KEYS) -> list[str]:
    """Return the experiments whose findings are missing or stale.

    The experiment ``ledger`` is also stale if any other experiment is stale.
    """
    versions, every = versions_now(workspace, among), experiments()
    keys = [key for key in KEYS if key in among and not every[key].is_current(workspace, versions[key])]
    return [*keys, LEDGER] if keys and LEDGER in among and LEDGER not in keys else keys


def stale_findings(workspace: Workspace) -> list[str]:
    """Return the experiments whose stored findings are stale."""
    stored = [key for key in KEYS if workspace.experiment_file(key).exists()]
    return stale(workspace, stored) if stored else []


def versions_now(workspace: Workspace, keys: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the current versions of each experiment's code and inputs."""
    from assets.experiments.ledger import NUMBERS
    from assets.experiments.panels import panel_versions

    panels = panel_versions(workspace) if {*keys} & {*OF_PANELS} else {}
    versions = {key: {"code": _code(), **(panels if key in OF_PANELS else {})} for key in keys}
    if LEDGER in keys:
        files = {key: workspace.experiment_file(key) for key in KEYS if key != LEDGER}
        files["numbers of the paper"] = NUMBERS
        versions[LEDGER] |= {
            key: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for key, file in files.items() if file.exists()
        }
    return versions


def _code() -> str:
    return code_version("assets/experiments", "care_ops")


def _spec(key: str) -> dg.AssetSpec:
    mapping = None if key == LEDGER else dg.AllPartitionMapping()
    upstream = KEYS[:-1] if key == LEDGER else ("aggregates", "gold") if key in OF_PANELS else ("aggregates",)
    return dg.AssetSpec(
        key,
        group_name="experiments",
        deps=[dg.AssetDep(asset, partition_mapping=mapping) for asset in upstream],
        kinds={"html"},
        code_version=_code(),
        description=f"Experiment: {key.replace('_', ' ')}.",
    )


@dg.multi_asset(name="experiments", specs=[_spec(key) for key in KEYS], can_subset=True)
def experiment_pages(
    context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]
) -> Iterator[dg.MaterializeResult]:
    """Run the selected experiments in page order, and write their pages."""
    selected = {key.path[-1] for key in context.selected_asset_keys}
    for key in KEYS:
        if key in selected:
            yield _run(key, workspace)


def _run(key: str, workspace: Workspace) -> dg.MaterializeResult:
    from assets.experiments.ledger import as_printed
    from assets.experiments.pages import write_experiments

    registered = experiments()[key]
    parameters = registered.parameters(workspace.experiments)
    version = versions_now(workspace, [key])[key]
    started = time.perf_counter()
    try:
        findings = registered.run(workspace, **parameters)
    except Exception as error:
        raise failure({key: str(error) or type(error).__name__}) from error
    findings = replace(findings, tables=[*as_printed(key, findings.measures), *findings.tables])
    registered.store(workspace, findings, version, seconds=time.perf_counter() - started)
    page = write_experiments(workspace.report_folder, workspace, experiments().values(), stale_findings(workspace))[key]
    return dg.MaterializeResult(
        asset_key=key,
        metadata={
            "page": dg.MetadataValue.path(str(page)),
            "parameters": json.dumps(parameters),
            "conclusions": bullets(findings.conclusions),
        },
    )
