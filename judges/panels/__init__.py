"""Panels: lists of judges that belong together, as data; ``care judges new --panel`` writes them out.

Belongs here: reading a panel into judge files. Does not: what a judge is (``judges.spec``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from care_ops.errors import InputError
from judges.spec import load_yaml

_FOLDER = Path(__file__).parent


class PanelModel(BaseModel):
    """One model of a panel.

    Attributes
    ----------
    gated : bool
        The repository wants an account and its terms accepted.
    instead : str, optional
        A judge of the panel, not gated, of much the same size.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    model: str
    family: str
    license: str
    gated: bool = False
    instead: str | None = None


class Panel(BaseModel):
    """Judges that belong together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    programs: tuple[str, ...] | Literal["all"] = ()
    models: tuple[PanelModel, ...] = ()


def names() -> list[str]:
    """Names of the panels, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def find(name: str) -> Panel:
    """A panel by name; ``InputError`` if there is none."""
    path = _FOLDER / f"{name}.yaml"
    if not path.exists():
        raise InputError(f"no panel {name!r}; there are {', '.join(names())}")
    return Panel.model_validate(load_yaml(path))


def judge_files(panel: Panel, engine: Literal["vllm", "transformers"] = "vllm") -> dict[str, str]:
    """Name and YAML of each judge of a panel."""
    from judges import programs

    files: dict[str, str] = {}
    for name in programs.names() if panel.programs == "all" else panel.programs:
        program = programs.find(name)
        files[name] = judge_yaml(
            description=program.description,
            family=program.family,
            scale=list(program.scale),
            engine={"kind": "program", "program": name},
        )
    for model in panel.models:
        gate = f"; gated, {model.instead} is not" if model.gated else ""
        files[model.name] = judge_yaml(
            description=f"{model.model}{gate}",
            family=model.family,
            license=model.license,
            engine={"kind": engine, "model": model.model},
        )
    return files


def judge_yaml(**fields: Any) -> str:
    """A judge file's text; what is None is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return yaml.safe_dump(given, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
