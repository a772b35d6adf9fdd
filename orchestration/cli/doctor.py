"""``care doctor``: whether a workspace can run, before a night is spent.

Belongs here: the checks. Does not: the errors of a run (each stage has its own).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import show, speaking_errors

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from judges.spec import LocalModel, OpenAIEngine

_NEEDED = ("dagster", "dask", "ray", "numpy", "scipy", "cvxpy", "tensorly", "duckdb", "pyarrow")
_LOW_DISK_GB = 5.0
_FIRST_TOKEN_ROOM = 1.25
"""Memory a model takes beside its weights, as a factor."""


@speaking_errors
def doctor(
    workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Check versions, the workspace and the disk before a night is spent."""
    rows = [_python(), *(_package(name) for name in _NEEDED), _ray(), *_workspace(workspace)]
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
    from assets.experiments.asset import experiments
    from care_ops.errors import CareError
    from orchestration.workspace import load_workspace

    try:
        loaded = load_workspace(folder)
        for experiment in experiments().values() if loaded.experiment_sizes else ():
            experiment.size(loaded)
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
    rows += [row for name in sorted(loaded.testsets) for row in _testset(loaded, name)]
    return rows + [row for name in sorted(loaded.judges) for row in _judge(loaded, name)]


def _testset(loaded: Workspace, name: str) -> list[dict[str, str]]:
    """What is wrong with a test set; nothing to say of one that can be read and is verified."""
    from care_ops.errors import CareError

    rows: list[dict[str, str]] = []
    try:
        loaded.read_source(name)
    except CareError as error:
        rows.append(_row(f"test set {name}", "fails", str(error)))
    warning = loaded.testset(name).unverified()
    return [*rows, _row(f"test set {name}", "warns", warning)] if warning else rows


def _judge(loaded: Workspace, name: str) -> list[dict[str, str]]:
    """What may keep a judge from running; nothing to say of built-in programs and recorded scores that are there."""
    from care_ops.errors import CareError
    from judges.sandbox import available
    from judges.spec import LanguageModel, LocalModel, OpenAIEngine, ProgramEngine

    spec = loaded.judge(name)
    engine, rows = spec.engine, list[tuple[str, str]]()
    try:
        for testset in loaded.testsets_of(name):
            loaded.judge_key(name, testset)
    except CareError as error:
        rows.append(("fails", str(error)))
    if isinstance(engine, ProgramEngine) and engine.file is not None:
        kind = available()
        if engine.unsafe:
            rows.append(("warns", "runs without a sandbox, with all your rights"))
        elif kind == "none":
            rows.append(("fails", "there is no sandbox on this machine; install bubblewrap"))
        else:
            rows.append(("ok", f"sandbox {kind}"))
    if isinstance(engine, LanguageModel) and spec.license is None:
        rows.append(("warns", "no license is declared; add license: to its file once you have read the model's terms"))
    if isinstance(engine, OpenAIEngine):
        rows.append(_endpoint(engine))
    if isinstance(engine, LocalModel):
        rows += [_engine_installed(engine), _model_there(engine), _memory(engine)]
    return [_row(f"judge {name}", state, what) for state, what in rows]


def _endpoint(engine: OpenAIEngine) -> tuple[str, str]:
    import httpx

    key = os.environ.get(engine.api_key_env or "", "")
    if engine.api_key_env and not key:
        return "fails", f"the environment variable {engine.api_key_env} is not set"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(f"{engine.base_url.rstrip('/')}/models", headers=headers, timeout=10.0)
    except httpx.HTTPError as error:
        return "fails", f"{engine.base_url} cannot be reached ({type(error).__name__})"
    if answer.status_code in (401, 403):
        return "fails", f"{engine.base_url} refuses the key in {engine.api_key_env}"
    return "ok", f"{engine.base_url} answers"


def _engine_installed(engine: LocalModel) -> tuple[str, str]:
    needed = ("vllm",) if engine.kind == "vllm" else ("torch", "transformers")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        return "fails", f"{', '.join(missing)} not installed; pip install 'care-eval[{engine.kind}]'"
    return "ok", f"engine {engine.kind} is installed"


def _model_there(engine: LocalModel) -> tuple[str, str]:
    folder = _model_folder(engine)
    if folder is not None:
        missing = [name for name in ("config.json", "tokenizer_config.json") if not (folder / name).exists()]
        if missing or not list(folder.glob("*.safetensors")):
            return "fails", f"{folder} lacks {', '.join(missing) or 'safetensors weights'}"
        return "ok", f"model in {folder}"
    if engine.revision is None:
        return "fails", f"{engine.model} is no folder here, and a repository needs its revision"
    if os.environ.get("HF_HUB_OFFLINE"):
        return "fails", f"{engine.model} is not in the local cache and HF_HUB_OFFLINE is set; fetch it first"
    return "warns", f"{engine.model} is not in the local cache and will be fetched"


def _memory(engine: LocalModel) -> tuple[str, str]:
    folder = _model_folder(engine)
    weights = sum(p.stat().st_size for p in folder.glob("*.safetensors")) / 1e9 if folder else 0.0
    wanted = weights * _FIRST_TOKEN_ROOM
    if engine.num_gpus == 0:
        there, what = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, "memory of this machine"
    elif os.environ.get("RAY_ADDRESS"):
        return "ok", "runs on the cluster in RAY_ADDRESS"
    else:
        there, what = _gpu_memory() * engine.gpu_memory, "GPU memory given to it"
        if there == 0:
            return "fails", f"asks for {engine.num_gpus:g} GPU(s), there is none; set num_gpus: 0 to run it on the CPU"
    state = "ok" if wanted <= there else "fails"
    return state, f"weights {weights:.1f} GB, {what} {there:.1f} GB"


def _gpu_memory() -> float:
    """GB of the first GPU; 0 where there is none."""
    if shutil.which("nvidia-smi") is None:
        return 0.0
    asked = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    first = done.stdout.strip().splitlines()[:1]
    return float(first[0]) * 2**20 / 1e9 if first and first[0].strip().isdigit() else 0.0


def _model_folder(engine: LocalModel) -> Path | None:
    """The model's folder, or its snapshot in the local cache of the hub."""
    if Path(engine.model).is_dir():
        return Path(engine.model)
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    snapshot = cache / f"models--{engine.model.replace('/', '--')}" / "snapshots" / (engine.revision or "")
    return snapshot if engine.revision and snapshot.is_dir() else None


def _ray() -> dict[str, str]:
    address = os.environ.get("RAY_ADDRESS")
    return _row("ray cluster", "ok", address or "none named; judging with mode ray starts an embedded one")
