"""The leading direction as quality, with and without orthogonal loadings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table

if TYPE_CHECKING:
    from assets.workspace import Workspace


def orthogonality(_workspace: Workspace, *, seeds: int, items: int) -> ExperimentFindings:
    """Turn the confounder's loadings towards quality's, and see where the leading direction goes."""
    from care_ops.aggregators.care_svd import fit_structure
    from care_ops.config import StructureConfig
    from care_ops.moments.state import accumulate

    p, rows = 30, list[dict[str, float]]()
    for overlap in (0.0, 0.2, 0.4, 0.6, 0.8):
        population, fitted = [], []
        for seed in range(seeds):
            rng = np.random.default_rng([seed, 14])
            basis, _ = np.linalg.qr(np.column_stack([rng.uniform(0.5, 1.0, p), rng.standard_normal(p)]))
            quality = basis[:, 0] * np.sign(basis[:, 0].sum())
            other = overlap * quality + np.sqrt(1 - overlap**2) * basis[:, 1]
            low_rank = 2.0 * np.outer(quality, quality) + 1.0 * np.outer(other, other)
            precision = (1.0 + np.linalg.eigvalsh(low_rank)[-1]) * np.eye(p) - low_rank
            leading = np.linalg.eigh(low_rank)[1][:, -1]
            population.append(float(np.linalg.norm(leading - np.sign(leading @ quality) * quality)))
            covariance = np.linalg.inv(precision)
            spread = np.sqrt(np.diag(covariance))
            scores = rng.standard_normal((items, p)) @ np.linalg.cholesky(covariance).T
            structure, _ = fit_structure(accumulate(scores), StructureConfig())
            direction = np.linalg.eigh(structure.low_rank / np.outer(spread, spread))[1][:, -1]
            fitted.append(float(np.linalg.norm(direction - np.sign(direction @ quality) * quality)))
        rows.append(
            {
                "overlap of the loadings": overlap,
                "deviation, known L": float(np.mean(population)),
                f"deviation, fitted on {items:,} items": float(np.mean(fitted)),
            }
        )
    first, last = rows[0], rows[-1]
    known, estimated = list(first)[1:]
    return ExperimentFindings(
        [
            f"With orthogonal loadings the leading direction is {first[known]:.3f} from quality's where L is known, "
            f"{first[estimated]:.3f} where it is fitted.",
            f"At an overlap of {last['overlap of the loadings']:g} it is {last[known]:.3f} and {last[estimated]:.3f}.",
        ],
        [Table("Distance of unit vectors between the leading direction of L and quality's loadings", rows)],
    )


EXPERIMENT = Experiment(
    key="orthogonality",
    title="The leading direction as quality, with and without orthogonal loadings",
    asks="How far is the leading direction of L from quality's loadings when the confounder's overlap with them?",
    paper="The heuristic holds for orthogonal loadings and degrades otherwise (figure, SVD weighting heuristic).",
    protocol="Thirty judges, quality of strength 2 and one confounder of strength 1, S diagonal; default penalties.",
    run=orthogonality,
    small={"seeds": 6, "items": 10_000},
    full={"seeds": 25, "items": 10_000},
)
