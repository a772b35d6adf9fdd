"""Readers and writers of the files that the stages of a fit exchange."""

from dataclasses import fields
from typing import Any

import numpy as np

from assets.fit.documents import FitDocument, PanelDocument, SolutionRecord, StructureDocument
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.moments.state import Moments
from care_ops.records import Aggregate
from care_ops.scores import ScoreMatrix
from care_ops.structure.program import Structure
from warehouse.artifacts import FitFolder


def panel_is_newer(folder: FitFolder) -> bool:
    """Return whether the panel was rebuilt after the fit; return False if the panel or the fit is missing."""
    panel, fit = folder.find(PanelDocument), folder.find(FitDocument)
    return panel is not None and fit is not None and panel.panel != fit.panel


def read_fitted(folder: FitFolder) -> tuple[ScoreMatrix, FitDocument]:
    """Read a test set's panel and the document of its fit; raise ``FitError`` if the panel is newer than the fit."""
    if panel_is_newer(folder):
        raise FitError(
            "the stored fit does not match the panel, because the panel was rebuilt later; run `care run` to rebuild "
            "the fit"
        )
    return folder.read_panel(), folder.read(FitDocument)


def read_answers(
    workspace: Workspace, testset: str, scores: ScoreMatrix, fit: "FitDocument", lead: str = ""
) -> dict[str, Aggregate]:
    """Read a fit's aggregates, with arrays in the panel's order; read estimates only for the aggregate ``lead``."""
    kept = {name: workspace.fits.read_fit(testset, fit_id, with_items=name == lead) for name, fit_id in fit.fit_ids}
    ids = {lead: scores.item_ids}
    return {name: record.in_order(ids.get(name, ()), scores.judges) for name, record in kept.items()}


def write_moments(folder: FitFolder, state: Moments) -> None:
    """Store the moments of a panel."""
    arrays: dict[str, Any] = {f.name: np.asarray(getattr(state, f.name)) for f in fields(state)}
    folder.write_arrays("moments", arrays)


def read_moments(folder: FitFolder) -> Moments:
    """Read the stored moments of a panel."""
    arrays = folder.read_arrays("moments")
    return Moments(**{**arrays, "n": int(arrays["n"])})  # type: ignore[arg-type]


def write_structure(
    folder: FitFolder, solved: Structure | None, details: dict[str, float], failures: dict[str, str]
) -> None:
    """Store an estimated structure, or the reason why there is none."""
    solution = None
    if solved is not None:
        folder.write_arrays("structure", {"sparse": solved.sparse, "low_rank": solved.low_rank})
        solution = SolutionRecord(solved.lambda_s, solved.lambda_l, solved.certificate)
    folder.write(StructureDocument(details, failures, solution))


def read_structure(folder: FitFolder) -> tuple[Structure | None, StructureDocument]:
    """Read the stored structure (None if no structure was estimated) and the structure's document."""
    document = folder.read(StructureDocument)
    solution = document.solution
    if solution is None:
        return None, document
    arrays = folder.read_arrays("structure")
    penalties = (solution.lambda_s, solution.lambda_l)
    return Structure(arrays["sparse"], arrays["low_rank"], *penalties, solution.certificate), document
