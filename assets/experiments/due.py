"""Which experiments a night makes again, where care.yaml asks for them when what they were made from changes.

A night on which nothing changed must not pay for finding that out: it compares one hash of settings, code, and the
sizes and times of a few files with the one under which everything was last up to date.
"""

from collections.abc import Collection
from pathlib import Path

from assets.code import code_version
from assets.experiments.registry import KEYS, LEDGER, experiments
from assets.hashing import content_hash
from assets.workspace import Workspace
from warehouse.storage import file_state, write_bytes


def is_settled(workspace: Workspace) -> bool:
    """Whether nothing has changed since the experiments were last seen to be up to date."""
    file = _file(workspace)
    return file.exists() and file.read_text(encoding="utf-8") == _settled(workspace)


def settle(workspace: Workspace) -> None:
    """Note that all experiments are up to date with the present inputs."""
    write_bytes(_file(workspace), _settled(workspace).encode())


def cheapest_first(workspace: Workspace, keys: Collection[str]) -> list[tuple[str, float]]:
    """These experiments with the seconds that each took last, the quickest first.

    One that was never made counts as no time at all, or it would never be; the ledger comes last, since it reads the
    others.
    """
    every = experiments()
    seconds: dict[str, float] = {}
    for key in keys:
        kept = every[key].kept(workspace)
        seconds[key] = 0.0 if kept is None else kept.seconds
    return sorted(seconds.items(), key=lambda entry: (entry[0] == LEDGER, entry[1], KEYS.index(entry[0])))


def _file(workspace: Workspace) -> Path:
    return workspace.data / "experiments" / "settled.txt"


def _settled(workspace: Workspace) -> str:
    """Hash of what experiments are made from, and of which of them are kept: what is gone is made again."""
    kept = [key for key in KEYS if workspace.experiment_file(key).exists()]
    return content_hash([inputs_version(workspace), kept])


def inputs_version(workspace: Workspace) -> str:
    """Hash of everything that an experiment is made from: files by size and time, the rest by content."""
    testsets = {
        name: [
            repr(workspace.testset(name)),
            workspace.fit_config(name).fingerprint(),
            file_state(workspace.parts.items_file(name)),
            file_state(workspace.fit_folder(name).panel_file),
        ]
        for name in sorted(workspace.testsets)
    }
    code = {key: code_version(f"{__package__}.{key}", "care_ops") for key in KEYS}
    return content_hash([code, workspace.experiments, testsets])
