"""Seven nights of a team's workspace, each with exactly what must run: for `care run` and for a real daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.workspaces import JUDGES, QUICK, make, write_items, write_judge, write_testset

RESULTS = ("review", "evaluation", "intervals", "systems")
"""Assets that are made again both after labels and after a fit have changed."""

FIT = ("panel", "probes", "moments", "structure", "aggregates", *RESULTS, "factors", "report")

Ran = dict[str, set[str]]


@dataclass(frozen=True)
class PlannedNight:
    """What happens, and what must run because of it.

    Attributes
    ----------
    what : str
    happen : callable
        Changes the workspace in this folder.
    runs : dict asset -> partitions
        Exactly these are materialised; "" for an asset without partitions.
    fails : set of (asset, partition)
        Exactly these fail.
    """

    what: str
    happen: Callable[[Path], object]
    runs: Ran
    fails: frozenset[tuple[str, str]] = frozenset()


def workspace(folder: Path, care: str = QUICK) -> Path:
    """Make a workspace with two test sets and five judges."""
    make(folder, care=care)
    write_items(folder, 30, name="two")
    write_testset(folder, "two")
    return folder


def _slices(judges: tuple[str, ...], *testsets: str) -> set[str]:
    return {f"{judge}|{testset}" for judge in judges for testset in testsets}


def _fits(*testsets: str) -> Ran:
    return {**{asset: set(testsets) for asset in FIT}, "report_index": {""}}


def _nothing(folder: Path) -> None:
    """Give a file a newer date and the same content."""
    (folder / "one.csv").touch()


def _broken(folder: Path) -> None:
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: oracle}\n")


def _mended(folder: Path) -> None:
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: grade_level}\n")


def nights() -> Iterator[PlannedNight]:
    """The nights in order; each begins with the workspace that the one before has left."""
    both = ("one", "two")
    yield PlannedNight(
        "a fresh deployment",
        lambda folder: None,
        {
            "items": set(both),
            "gold": set(both),
            "judge_inference": set(JUDGES),
            "scores": _slices(JUDGES, *both),
            **_fits(*both),
        },
    )
    yield PlannedNight("nothing changed, or the same content again", _nothing, {})
    yield PlannedNight(
        "a judge comes",
        lambda folder: write_judge(folder, "readability"),
        {"judge_inference": {"readability"}, "scores": _slices(("readability",), *both), **_fits(*both)},
    )
    every = (*JUDGES, "readability")
    yield PlannedNight(
        "one test set changes",
        lambda folder: write_items(folder, edited=7),
        {
            "items": {"one"},
            "gold": {"one"},
            "judge_inference": set(every),
            "scores": _slices(every, "one"),
            **_fits("one"),
        },
    )
    yield PlannedNight(
        "a judge comes that is broken",
        _broken,
        {"panel": set(both), "probes": set(both), "report_index": {""}},
        frozenset({("judge_inference", "oracle")}),
    )
    yield PlannedNight(
        "and is mended",
        _mended,
        {"judge_inference": {"oracle"}, "scores": _slices(("oracle",), *both), **_fits(*both)},
    )
    yield PlannedNight("a judge leaves", lambda folder: (folder / "judges" / "length.yaml").unlink(), _fits(*both))
