"""The check ``other_solvers``: a night's fit against cvxpy and tensorly, which are not ours.

One fit a night is enough to notice a library, a machine or a release that computes wrongly, and costs a second or two
of CPU: the first one that the review sees when none was compared within twelve hours.
"""

import fcntl
import logging
import time
from datetime import UTC, datetime, timedelta

import numpy as np

from assets.fit.details import CareTensorDetails, read_details
from assets.fit.kept import read_moments, read_structure
from assets.publication.documents import CheckResult, ReviewDocument
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.models import cp
from care_ops.moments.state import shrink
from care_ops.results.other_solvers import SolverAgreement, compare_decomposition, compare_structure
from care_ops.structure.program import Structure
from care_ops.structure.views import Views
from warehouse.fits import Edition

_log = logging.getLogger(__name__)

CHECK = "other_solvers"

_APART = timedelta(hours=12)
"""Time within which no second fit is compared: more than a night takes, also across midnight, and less than a day."""

MOST_JUDGES = 40
"""Largest panel that is compared: forty judges take cvxpy three seconds of CPU, and the time grows with their cube."""

_WHAT_TO_DO = (
    "`care run` again; where this comes back, a library or this machine computes wrongly: go back to the versions of "
    "the last good night, or `care fits accept`"
)


def check_other_solvers(workspace: Workspace, testset: str, edition: Edition) -> CheckResult:
    """Compare the fit of an edition with the other solvers' answers, where it is this edition's turn."""
    structure, _ = read_structure(workspace.fit_folder(testset))
    if structure is None:
        return CheckResult(CHECK, True, "no structure to compare")
    if len(structure.sparse) > MOST_JUDGES:
        why = f"not compared: the panel has {len(structure.sparse)} judges, and more than {MOST_JUDGES} take too long"
        return CheckResult(CHECK, True, why)
    if not _takes_its_turn(workspace, testset, edition):
        hours = _APART // timedelta(hours=1)
        why = f"not compared: another fit was, less than {hours} hours ago"
        return CheckResult(CHECK, True, why)
    started, wrong = time.process_time(), False
    says, numbers = list[str](), dict[str, float]()
    comparisons = {
        "cvxpy": lambda: _structure(workspace, testset, structure),
        "tensorly": lambda: _decomposition(workspace, testset, edition),
    }
    for solver, compare in comparisons.items():
        try:
            comparison = compare()
        except FitError as error:
            says.append(f"{solver}: nothing to compare ({error})")
            continue
        numbers |= {f"{solver}_difference": comparison.difference, f"{solver}_allowed": comparison.allowed}
        says.append(f"{solver}: {comparison.difference:.1e} off, {comparison.allowed:.1e} allowed")
        wrong = wrong or not comparison.agrees
    told = "; ".join(says)
    _log.info("%s: compared with other solvers in %.1f CPU seconds: %s", testset, time.process_time() - started, told)
    return CheckResult(CHECK, not wrong, f"{told}. {_WHAT_TO_DO}" if wrong else told, numbers, blocks=wrong)


def _takes_its_turn(workspace: Workspace, testset: str, edition: Edition) -> bool:
    """Whether this edition is compared, which is then on record, so that no review of another one is at the same time.

    An edition that was compared before is compared again, so that a second review says the same, and one whose review
    was killed half-way too.
    """
    reviewed = workspace.fit_folder(testset).find(ReviewDocument)
    if reviewed is not None and reviewed.edition == edition.edition:
        return any(finding.check == CHECK and finding.numbers for finding in reviewed.findings)
    now = datetime.now(UTC)
    with (workspace.data / "compared.txt").open("a+", encoding="utf-8", errors="replace") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        told, _, last = file.read().partition(" ")
        if last != edition.edition and abs(now - _time(told)) < _APART:
            return False
        file.truncate(0)
        file.write(f"{now.isoformat(timespec='seconds')} {edition.edition}")
    return True


def _time(text: str) -> datetime:
    """The time that a text holds; long ago where it holds none, as before the first comparison."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return datetime(1970, 1, 1, tzinfo=UTC)


def _structure(workspace: Workspace, testset: str, structure: Structure) -> SolverAgreement:
    if workspace.fit_config(testset).structure.is_constrained:
        raise FitError("the structure has constraints, and was solved by cvxpy itself")
    moments = read_moments(workspace.fit_folder(testset))
    correlation, _ = shrink(moments.correlation(), moments.n)
    return compare_structure(correlation, structure)


def _decomposition(workspace: Workspace, testset: str, edition: Edition) -> SolverAgreement:
    fit_id = edition.fits.get("care_tensor")
    if fit_id is None:
        raise FitError("care_tensor gave no answer")
    folder = workspace.fit_folder(testset)
    told = read_details("care_tensor", workspace.fits.read_fit(testset, fit_id).answer.details, CareTensorDetails)
    judges, moments = sorted(folder.read_panel().judges), read_moments(folder)
    if len(told.views) != 3:
        raise FitError("care_tensor has no three views")
    first, second, third = (np.array([judges.index(judge) for judge in view], dtype=np.intp) for view in told.views)
    views = Views((first, second, third), 0.0, 0.0)
    scale = np.sqrt(np.diag(moments.covariance()))
    tensor = cp.scale_tensor(cp.augmented_moment(moments, views), (scale[first], scale[second], scale[third]))
    return compare_decomposition(tensor, views, len(told.state_weights), np.random.default_rng(0))
