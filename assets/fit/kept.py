"""What the stages of a fit leave for the next one, as files in its folder.

Belongs here: moments and structures to files and back. Does not: computing them, the folder itself
(``warehouse.artifacts``).
"""

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from care_ops.structure.program import Certificate, Structure

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
