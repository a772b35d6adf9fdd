"""Dagster asset ``structure``: the sparse and the low-rank part of the panel's precision matrix."""

from dataclasses import asdict

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.workspace import Workspace


@asset_of_testsets(
    deps=["moments"],
    description="Matrices S (direct edges between judges) and L (latent factors): step 2 of the paper's Algorithm 1.",
)
def structure(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Estimate the sparse matrix S and the low-rank matrix L from the stored moments, and store S and L."""
    from assets.fit.kept import read_moments, write_structure
    from care_ops.fit import try_structure

    testset = context.partition_key
    folder = workspace.fit_folder(testset)
    state = read_moments(folder)
    judges = sorted(folder.panel_summary().present)
    solved, details, failures = try_structure(state, workspace.fit_config(testset).structure, judges)
    write_structure(folder, solved, details, failures)
    if solved is None:
        return dg.MaterializeResult(metadata={"no_structure": failures["structure"]})
    return dg.MaterializeResult(metadata={**asdict(solved.certificate), **details})
