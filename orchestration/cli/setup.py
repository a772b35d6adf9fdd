"""``care init``: make a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import console, speaking_errors

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
