"""The licences of all that is installed: ``python -m benchmarks.licences``, to benchmarks/results/licences.md.

They are what each package says of itself (its licence expression, else its classifiers, else its field), and the
smallest set of CARE's that needs it: the core, ``pipeline``, ``deploy``, or ``dev``, which nobody gets who runs CARE.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

RESULTS = Path(__file__).parent / "results" / "licences.md"
SETS = ("core", "pipeline", "deploy", "dev")
_RECIPROCAL = re.compile(r"\b[AL]?GPL|General Public|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL", re.IGNORECASE)


def main() -> None:
    """Write the table and print what is said first of it."""
    RESULTS.write_text(report())
    print(RESULTS.read_text().partition("\n## All")[0])


def licence_of(package: Distribution) -> str:
    """What a package says of its licence, in one line."""
    said = package.metadata
    classified = [
        line.rpartition(" :: ")[2] for line in said.get_all("Classifier", []) if line.startswith("License ::")
    ]
    named = [name for name in classified if name != "OSI Approved"]
    line = (said.get("License-Expression") or ", ".join(named) or said.get("License") or "not said").strip()
    return line.splitlines()[0][:120].replace("|", "/") if line else "not said"


def needed_by(extra: str) -> set[str]:
    """The packages that CARE with an extra needs, and what these need; ``core`` has none."""
    found, waiting = set[str](), [("care-eval", "" if extra == "core" else extra)]
    seen = set[tuple[str, str]]()
    while waiting:
        name, of = waiting.pop()
        if (name, of) in seen:
            continue
        seen.add((name, of))
        found.add(name)
        for line in _requires(name):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": of}):
                waiting += [(canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)]
    return found - {"care-eval"}


def _requires(name: str) -> list[str]:
    try:
        return distribution(name).requires or []
    except ModuleNotFoundError:  # not needed on this system
        return []


def report() -> str:
    """The table in Markdown; first what binds whoever passes the package on."""
    packages = {canonicalize_name(package.metadata["Name"]): package for package in distributions()}
    packages.pop("care-eval", None)
    needed = {of: needed_by(of) for of in SETS}
    of_package = {name: next((of for of in SETS if name in needed[of]), "pip") for name in packages}
    rows = {
        name: f"| {name} {p.version} | {licence_of(p)} | {of_package[name]} |" for name, p in sorted(packages.items())
    }
    reciprocal = [rows[name] for name in rows if _RECIPROCAL.search(licence_of(packages[name]))]
    silent = sum(licence_of(package) == "not said" for package in packages.values())
    counts = ", ".join(f"{of} {count}" for of, count in Counter(of_package.values()).items())
    head = ["| package | licence | needed by |", "|---|---|---|"]
    return "\n".join(
        [
            "# Licences of what is installed",
            "",
            f"`make licences`. {len(packages)} packages ({counts}); {silent} say nothing of their licence. CARE "
            "itself is under Apache-2.0, imports all of these as they are and carries none of them.",
            "",
            "## GPL, LGPL, MPL and others that bind whoever passes the package on",
            "",
            *head,
            *reciprocal,
            "",
            "## All",
            "",
            *head,
            *rows.values(),
            "",
        ]
    )


if __name__ == "__main__":
    main()
