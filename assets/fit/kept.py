"""What the stages of a fit leave for the next one, as files in its folder.

Belongs here: moments and structures to files and back. Belongs elsewhere: computing them, what JSON documents hold
(``documents``), the folder itself (``warehouse.artifacts``).
"""

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assets.fit.documents import FitDocument, StructureDocument
    from care_ops.moments.state import Moments
    from care_ops.probes import ProbeResponses
    from care_ops.scores import ScoreMatrix
    from care_ops.structure.program import Structure
    from warehouse.artifacts import FitFolder


def panel_is_newer(folder: "FitFolder") -> bool:
    """Whether the panel has been made anew since the fit; False where one of the two is not there."""
    from assets.fit.documents import FitDocument, PanelDocument

    panel, fit = PanelDocument.find(folder), FitDocument.find(folder)
    return panel is not None and fit is not None and panel.panel != fit.panel


def read_fitted(folder: "FitFolder") -> "tuple[ScoreMatrix, FitDocument]":
    """The panel and the fit that was made from it.

    Raises
    ------
    FitError
        The panel has been made anew since: a run of Dagster is between the two, or was stopped there.
    """
    from assets.fit.documents import FitDocument
    from care_ops.errors import FitError

    if panel_is_newer(folder):
        raise FitError(
            "the panel has been made anew since the fit, so nothing can be said of the two together; the run that made "
            "it, or the next `care run`, makes the fit and then this"
        )
    return folder.read_panel(), FitDocument.read(folder)


def read_responses(folder: "FitFolder") -> "ProbeResponses":
    """The stored responses to probes; of no version where the stage left none, as before there were any."""
    from assets.fit.documents import ProbesDocument
    from care_ops.probes import NO_PROBES

    document = ProbesDocument.find(folder)
    return NO_PROBES if document is None else document.responses()


def write_moments(folder: "FitFolder", state: "Moments", name: str = "moments") -> None:
    """Store a state."""
    import numpy as np

    arrays: dict[str, Any] = {f.name: np.asarray(getattr(state, f.name)) for f in fields(state)}
    folder.write_arrays(name, arrays)


def read_moments(folder: "FitFolder", name: str = "moments") -> "Moments":
    """The stored state."""
    from care_ops.moments.state import Moments

    arrays = folder.read_arrays(name)
    return Moments(**{**arrays, "n": int(arrays["n"])})  # type: ignore[arg-type]


def write_structure(
    folder: "FitFolder", solved: "Structure | None", details: dict[str, float], failures: dict[str, str]
) -> None:
    """Store a solution, or why there is none."""
    from assets.fit.documents import CertificateRecord, SolutionRecord, StructureDocument

    solution = None
    if solved is not None:
        folder.write_arrays("structure", {"sparse": solved.sparse, "low_rank": solved.low_rank})
        certificate = CertificateRecord(**asdict(solved.certificate))
        solution = SolutionRecord(solved.program, solved.lambda_s, solved.lambda_l, certificate)
    StructureDocument(details, failures, solution).write(folder)


def read_structure(folder: "FitFolder") -> "tuple[Structure | None, StructureDocument]":
    """The stored solution (None where there is none) and its document."""
    from assets.fit.documents import StructureDocument
    from care_ops.structure.program import Certificate, Structure

    document = StructureDocument.read(folder)
    solution = document.solution
    if solution is None:
        return None, document
    arrays = folder.read_arrays("structure")
    certificate = Certificate(**asdict(solution.certificate))
    solved = Structure(
        arrays["sparse"], arrays["low_rank"], solution.program, solution.lambda_s, solution.lambda_l, certificate
    )
    return solved, document
