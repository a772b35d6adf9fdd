"""``structure``: the panel's precision split into sparse minus low-rank, with its certificate."""

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.metadata import bars
from assets.workspace import Workspace


@asset_of_testsets(
    deps=["moments"],
    description="S (direct edges between judges) and L (variance by latent factors), Algorithm 1 step 2.",
)
def structure(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Solve on the stored moments, store S, L and the certificate."""
    import numpy as np

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
    values = np.linalg.eigvalsh(solved.low_rank)[::-1]
    mass = values / values.sum()
    upper = np.abs(solved.sparse[np.triu_indices(state.p, 1)])
    certificate = solved.certificate
    return dg.MaterializeResult(
        metadata={
            "gap": certificate.gap,
            "converged": certificate.converged,
            "iterations": certificate.iterations,
            "edges": int((upper > 1e-8).sum()),
            "factors": int((mass > 1e-6).sum()),
            **details,
            "factor_mass": bars(
                "share of tr L by factor", {f"factor {k + 1}": float(m) for k, m in enumerate(mass[:8])}
            ),
        }
    )
