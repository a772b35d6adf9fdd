"""What the stages of a fit leave for the next one, as files in its folder.

Belongs here: moments and structures to files and back. Does not: computing them, what JSON documents hold
(``documents``), the folder itself (``warehouse.artifacts``).
"""

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assets.fit.documents import StructureDocument
    from care_ops.moments.state import Moments
    from care_ops.structure.program import Structure
    from warehouse.artifacts import FitFolder


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
