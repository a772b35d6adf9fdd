"""Rosters: ready-made lists of judges that are used together; ``care judges new --panel`` writes their judge files.

Belongs here: reading a roster, and turning it into judge files. Belongs elsewhere: what a judge is
(``judges.spec``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from care_ops.errors import InputError
from judges.spec import load_yaml

_FOLDER = Path(__file__).parent


class Endpoint(BaseModel):
    """Where a model of a roster is asked, instead of being loaded here; the fields are those of ``OpenAIEngine``.

    A roster names no price: vendors change them. Until the user has set them, the spend limit keeps the judge from
    being asked.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str
    api_key_env: str
    price_in: None = None
    price_out: None = None
    spend_limit: float = 1.0


class RosterModel(BaseModel):
    """One language model of a roster.

    Attributes
    ----------
    name : str
        Name of the judge.
    model : str
        Repository on the hub, or the model's name at the endpoint.
    family, license : str
    gated : bool
        The repository can be read only with an account that has accepted its terms.
    instead : str, optional
        A judge of the same roster that is not gated and has about the same size.
    endpoint : Endpoint, optional
        Where the model is asked; by default it is loaded here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    model: str
    family: str
    license: str
    gated: bool = False
    instead: str | None = None
    endpoint: Endpoint | None = None


class Roster(BaseModel):
    """A list of judges that are used together: built-in programs by name, and language models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    programs: tuple[str, ...] | Literal["all"] = ()
    models: tuple[RosterModel, ...] = ()


def names() -> list[str]:
    """Names of the rosters, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def find(name: str) -> Roster:
    """The roster of this name.

    Raises
    ------
    InputError
        There is no roster of this name; the message lists those that exist.
    """
    path = _FOLDER / f"{name}.yaml"
    if not path.exists():
        raise InputError(f"no panel {name!r}; there are {', '.join(names())}")
    return Roster.model_validate(load_yaml(path))


def judge_files(roster: Roster, engine: Literal["vllm", "transformers"] = "vllm") -> dict[str, str]:
    """The text of a YAML file for each judge of a roster, by the judge's name."""
    from judges import programs

    files: dict[str, str] = {}
    for name in programs.names() if roster.programs == "all" else roster.programs:
        program = programs.find(name)
        files[name] = judge_yaml(
            description=program.description,
            family=program.family,
            scale=list(program.scale),
            engine={"kind": "program", "program": name},
        )
    for model in roster.models:
        gate = f"; gated, {model.instead} is not" if model.gated else ""
        files[model.name] = judge_yaml(
            description=f"{model.model}{gate}",
            family=model.family,
            license=model.license,
            engine={"kind": engine, "model": model.model}
            if model.endpoint is None
            else {"kind": "openai", "model": model.model, **model.endpoint.model_dump()},
        )
    return files


def judge_yaml(**fields: Any) -> str:
    """The text of a judge file with these fields; a field that is None is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return yaml.safe_dump(given, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
