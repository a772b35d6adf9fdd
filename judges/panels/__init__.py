"""Judge presets (lists of judges), from which ``care judges new --panel`` writes judge files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from care_ops.errors import InputError
from judges import programs
from judges.settings_files import load_yaml

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Preset:
    """Judge preset: a list of judges that are used together.

    Attributes
    ----------
    programs : sequence of str
        Names of built-in programs.
    models : sequence of dict
        Language models, each with ``name`` (of the judge), ``model`` (repository or name at the endpoint), ``family``
        and ``license``. If a user must accept the repository's terms, ``gated`` is true, and ``instead`` names an
        ungated model of about the same size. A model at an endpoint has ``endpoint`` (base_url, api_key_env).
    testsets : sequence of str
        Names of the test sets that the judges scored in the paper.
    """

    programs: list[str]
    models: list[dict[str, Any]]
    testsets: list[str]


def names() -> list[str]:
    """Return the sorted names of the judge presets."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def find(name: str) -> Preset:
    """Return a judge preset by its name; raise ``InputError`` if the preset does not exist."""
    if name not in names():
        raise InputError(f"CARE has no judge preset {name!r}; choose one of {', '.join(names())}")
    given = load_yaml(_FOLDER / f"{name}.yaml")
    chosen = given.get("programs", [])
    chosen = programs.names() if chosen == "all" else chosen
    return Preset(chosen, given.get("models", []), given.get("testsets", []))


def scored_in_the_paper(judge: str) -> list[str]:
    """Return the sorted names of the test sets that a judge scored in the paper."""
    presets = [find(name) for name in names()]
    own = [p for p in presets if judge in p.programs or any(model["name"] == judge for model in p.models)]
    return sorted({testset for preset in own for testset in preset.testsets})


def judge_files(preset: Preset, engine: Mapping[str, Any] | None = None, *, as_paper: bool = False) -> dict[str, str]:
    """Return the text of a YAML file for each judge of a preset, as a mapping from judge names to texts.

    ``engine`` contains the common settings of the models, by default ``kind: vllm``. ``as_paper`` limits each judge to
    the test sets that it scored in the paper.
    """
    files: dict[str, str] = {}
    shared = engine or {"kind": "vllm"}
    for name in preset.programs:
        program = programs.find(name)
        files[name] = judge_yaml(
            description=program.description,
            family=program.family,
            scale=list(program.scale),
            testsets=scored_in_the_paper(name) if as_paper else None,
            engine={"kind": "program", "program": name},
        )
    for model in preset.models:
        endpoint = model.get("endpoint")
        gate = f"; gated model; {model['instead']} is not gated" if model.get("gated") else ""
        files[model["name"]] = judge_yaml(
            description=f"{model['model']}{gate}",
            family=model["family"],
            license=model["license"],
            testsets=scored_in_the_paper(model["name"]) if as_paper else None,
            engine=with_fence(
                {**({"kind": "openai"} if endpoint else shared), "model": model["model"]}
                | (endpoint | {"spend_limit": 1.0} if endpoint else {})
            ),
        )
    return files


def with_fence(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Add ``fence: true`` to the settings of a new language model, unless ``profile`` selects the paper's method."""
    return {**engine} if engine.get("profile", "care") != "care" else {**engine, "fence": True}


def judge_yaml(**fields: Any) -> str:
    """Return the YAML text of a judge file with the given fields; fields that are None are omitted."""
    given = {name: value for name, value in fields.items() if value is not None}
    return yaml.safe_dump(given, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
