"""``care init`` and ``care doctor``: make a workspace, and see whether it can run."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import console, show, speaking_errors

_CARE_YAML = """\
# A CARE workspace. Every setting has this default; delete what you do not change.
data: data            # parts, warehouse, fits, report
judges: judges        # one YAML a judge
testsets: testsets    # one YAML a test set

panel:
  admit: rule         # `all` turns admission off
  max_missing: 0.10   # share missing or out of range
  max_mode_share: 0.95
  min_entropy: 0.20   # bits

fit:
  aggregators: [care, mv, avg, uws, care_svd, care_tensor]  # care is the recommended answer
  program: frobenius  # or dtrace
  gamma: 1.0
  tau: 0.5
  seed: 0

judging:
  mode: auto          # models on Ray, the rest in this process; or inline, ray
  actors: 1           # of a judge
  side_by_side: 1     # judges at a time

moments:
  dask_workers: 0     # above 0: a local cluster for test sets of threshold_rows and more
  threshold_rows: 5000000
"""
_DEMO_YAML = """\
description: >-
  Questions about countries, answered with known quality and planted style: all of it simulated.
source:
  kind: demo
scale: [0, 10]
"""
_NEEDED = ("dagster", "dask", "ray", "numpy", "scipy", "cvxpy", "tensorly", "duckdb", "pyarrow")
_LOW_DISK_GB = 5.0


@speaking_errors
def init(folder: Annotated[Path, typer.Argument(help="Folder to make the workspace in.")]) -> None:
    """Make a workspace with the embedded demo: care.yaml, judges and a test set."""
    from care_ops.errors import InputError
    from judges.panels import find, judge_files

    if (folder / "care.yaml").exists():
        raise InputError(f"{folder / 'care.yaml'}: there is a workspace already; delete it or choose another folder")
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in judge_files(find("demo")).items():
        (folder / "judges" / f"{name}.yaml").write_text(text, encoding="utf-8")
    (folder / "testsets" / "demo.yaml").write_text(_DEMO_YAML, encoding="utf-8")
    (folder / "care.yaml").write_text(_CARE_YAML, encoding="utf-8")
    console.print(f"made {folder}; next: care run --workspace {folder}", highlight=False, soft_wrap=True)


@speaking_errors
def doctor(
    workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Check versions, the workspace and the disk before a night is spent."""
    rows = [_python(), *(_package(name) for name in _NEEDED), *_workspace(workspace), _ray()]
    show(rows, "care doctor", as_json=json)
    if any(row["state"] == "fails" for row in rows):
        raise typer.Exit(1)


def _row(check: str, state: str, what: str) -> dict[str, str]:
    return {"check": check, "state": state, "what": what}


def _python() -> dict[str, str]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] < (3, 13)
    return _row("python", "ok" if fits else "fails", version if fits else f"{version}; use 3.11 or 3.12")


def _package(name: str) -> dict[str, str]:
    try:
        return _row(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return _row(name, "fails", "not installed; pip install care-eval")


def _workspace(folder: Path) -> list[dict[str, str]]:
    from care_ops.errors import CareError
    from orchestration.workspace import load_workspace

    try:
        loaded = load_workspace(folder)
        for testset in loaded.testsets:
            loaded.read_source(testset)
        for judge in loaded.judges:
            for testset in loaded.testsets_of(judge):
                loaded.judge_key(judge, testset)
    except CareError as error:
        return [_row("workspace", "fails", str(error))]
    rows = [_row("workspace", "ok", f"{len(loaded.testsets)} test sets, {len(loaded.judges)} judges")]
    existing = next(p for p in (loaded.data, *loaded.data.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 1e9
    writable = os.access(existing, os.W_OK)
    rows.append(
        _row(
            "data folder",
            "ok" if writable else "fails",
            f"{loaded.data}" if writable else f"{existing} is not writable",
        )
    )
    rows.append(_row("disk", "ok" if free > _LOW_DISK_GB else "warns", f"{free:.0f} GB free"))
    return rows


def _ray() -> dict[str, str]:
    address = os.environ.get("RAY_ADDRESS")
    return _row("ray cluster", "ok", address or "none named; judging with mode ray starts an embedded one")
