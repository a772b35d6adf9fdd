"""``structure``: the panel's precision split into sparse minus low-rank, with its certificate."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.common import bars, source_hash
from assets.external import fit_settings
from assets.moments import moments, read_moments
from assets.partitions import TESTSETS
from assets.workspace import Workspace

if TYPE_CHECKING:
    from care_ops.structure import Structure
    from warehouse.artifacts import FitFolder


@dg.asset(
    partitions_def=TESTSETS,
    deps=[moments, fit_settings],
    group_name="fit",
    code_version=source_hash("care_ops", __file__),
    description="S (direct edges between judges) and L (what latent factors explain), Algorithm 1 step 2.",
)
def structure(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Solve on the stored moments, store S, L and the certificate."""
    import numpy as np

    from care_ops.fit import try_structure

    testset = context.partition_key
    folder = workspace.fit_folder(testset)
    state = read_moments(folder)
    judges = sorted(folder.read_panel().judges)
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
        },
    )


def write_structure(
    folder: "FitFolder", solved: "Structure | None", details: dict[str, float], failures: dict[str, str]
) -> None:
    """Store a solution, or why there is none."""
    document: dict[str, Any] = {"details": details, "failures": failures, "solution": None}
    if solved is not None:
        folder.write_arrays("structure", {"sparse": solved.sparse, "low_rank": solved.low_rank})
        document["solution"] = {
            "program": solved.program,
            "lambda_s": solved.lambda_s,
            "lambda_l": solved.lambda_l,
            "certificate": asdict(solved.certificate),
        }
    folder.write_json("structure", document)


def read_structure(folder: "FitFolder") -> "tuple[Structure | None, dict[str, Any]]":
    """The stored solution (None where there is none) and its document."""
    from care_ops.structure import Certificate, Structure

    document = folder.read_json("structure")
    solution = document["solution"]
    if solution is None:
        return None, document
    arrays = folder.read_arrays("structure")
    certificate = Certificate(**solution["certificate"])
    return (
        Structure(
            arrays["sparse"],
            arrays["low_rank"],
            solution["program"],
            solution["lambda_s"],
            solution["lambda_l"],
            certificate,
        ),
        document,
    )
