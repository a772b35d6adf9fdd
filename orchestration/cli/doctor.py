"""Command ``care doctor``, which checks whether a workspace can run."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.errors import CareError, counted, how_to_install
from orchestration.cli.output import Json, Root, show

if TYPE_CHECKING:
    from assets.workspace import Workspace

_NEEDED = ("dagster", "dask", "ray", "numpy", "scipy", "cvxpy", "tensorly", "duckdb", "pyarrow")
_LOW_DISK_GB = 5.0


def doctor(
    workspace: Root = Path(),
    json: Json = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Quarantine damaged files; the next run writes them again.")
    ] = False,
) -> None:
    """Check packages, the disk and every file of the workspace."""
    rows = [*map(_package, _NEEDED), *_workspace(workspace, repair)]
    show(rows, "care doctor", as_json=json)
    if any(row["state"] == "fails" for row in rows):
        raise typer.Exit(1)


def _row(check: str, state: str, sentence: str) -> dict[str, str]:
    return {"check": check, "state": state, "what": sentence}


def _package(name: str) -> dict[str, str]:
    try:
        return _row(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return _row(name, "fails", f"not installed; {how_to_install('pipeline')}")


def _workspace(folder: Path, repair: bool) -> list[dict[str, str]]:
    from orchestration.stores import read_workspace

    try:
        loaded = read_workspace(folder)
    except CareError as error:
        return [_row("workspace", "fails", str(error))]
    size = f"{counted(len(loaded.testsets), 'test set')}, {counted(len(loaded.judges), 'judge')}"
    rows = [_row("workspace", "ok", size)]
    rows += [_row("labels", "fails", wrong)] if (wrong := loaded.labels_of_nobody()) else []
    existing = next(p for p in (loaded.data, *loaded.data.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 1e9
    writable = os.access(existing, os.W_OK)
    denied = f"CARE cannot write to {existing}; give your user write permission for this folder"
    state, place = ("ok", f"{loaded.data}") if writable else ("fails", denied)
    rows.append(_row("data folder", state, place))
    space = "ok" if free > _LOW_DISK_GB else "warns" if free else "fails"
    rows.append(_row("disk", space, f"{free:.0f} GB free" if free else "the disk is full; delete files to free space"))
    rows += [*_store(loaded), _ray(loaded), *_damage(loaded, repair)]
    texts = dict[str, set[str]]()
    rows += [row for name in sorted(loaded.testsets) for row in _testset(loaded, name, texts)]
    rows += [row for name in sorted(loaded.judges) for row in _judge(loaded, name, texts)]
    return rows + [row for name in sorted(loaded.testsets) for row in _readings(loaded, name)]


def _damage(loaded: Workspace, repair: bool) -> list[dict[str, str]]:
    from assets.state.repair import findings
    from orchestration.locks import exclusive_lock, hold_daemon_lock

    if not loaded.data.exists():
        return []
    try:
        with exclusive_lock(loaded, "care doctor --repair") if repair else nullcontext():
            daemon = hold_daemon_lock(loaded) if repair else None
            try:
                files = findings(loaded, repair=repair)
            finally:
                if daemon is not None:
                    os.close(daemon)
    except CareError as error:
        return [_row("files", "fails", str(error))]
    return [_row("file", file.state, f"{file.path.relative_to(loaded.data)}: {file.message}") for file in files]


def _testset(loaded: Workspace, name: str, texts: dict[str, set[str]]) -> list[dict[str, str]]:
    from assets.judging.forecast import available_texts
    from assets.sources import has_all_scored, read_source

    rows: list[dict[str, str]] = []
    try:
        texts[name] = available_texts(read_source(loaded, name))
        has_all_scored(loaded, name)
    except CareError as error:
        texts.pop(name, None)
        rows.append(_row(f"test set {name}", "fails", str(error)))
    wrong = (loaded.contradiction(name), loaded.unread_labels(name))
    rows += [_row(f"test set {name}", "fails", message) for message in wrong if message]
    warning = loaded.testset(name).unverified()
    return [*rows, _row(f"test set {name}", "warns", warning)] if warning else rows


def _readings(loaded: Workspace, name: str) -> list[dict[str, str]]:
    from assets.sources import readings

    return [
        _row(f"{file} of {name}", "ok", "; ".join(reading.sentences()))
        for file, reading in readings(loaded, name).items()
    ]


def _judge(loaded: Workspace, name: str, texts: Mapping[str, set[str]]) -> list[dict[str, str]]:
    from assets.judge_keys import judge_key
    from assets.judging.failures import why_nothing_came
    from assets.judging.forecast import check_texts, scale_warning
    from judges.engines.checks import checks

    spec = loaded.judge(name)
    states = list[tuple[str, str]]()
    for testset in loaded.testsets_of(name):
        if spec.engine.needs.recordings and testset not in texts:
            continue  # the row of the test set has the reason
        try:
            judge_key(loaded, name, testset)
            if testset in texts:
                check_texts(loaded, name, testset, texts[testset])
            if warning := scale_warning(loaded, name, testset):
                states.append(("warns", warning))
            if reason := why_nothing_came(loaded, name, testset):
                states.append(("warns", f"test set {testset}: {reason}"))
        except CareError as error:
            states.append(("fails", str(error)))
    states += checks(spec, loaded.ray, loaded.root)
    return [_row(f"judge {name}", state, sentence) for state, sentence in dict.fromkeys(states)]


def _ray(loaded: Workspace) -> dict[str, str]:
    cluster = loaded.ray.cluster()
    embedded = "care.yaml names no Ray cluster; judging with `mode: ray` starts a local one"
    return _row("ray cluster", "ok", embedded if cluster is None else f"{cluster}, from {loaded.ray.source()}")


def _store(loaded: Workspace) -> list[dict[str, str]]:
    if loaded.copy is None:
        return []
    lease, _ = loaded.copy.lease()
    writer = f"{lease['who']} writes to it" if lease else "no process writes to it"
    return [_row("store", "ok", f"{loaded.data} is the local copy of {loaded.store}; {writer}")]
