"""Demo workspace with simulated judges and three small test sets; each test set gets a different verdict."""

from __future__ import annotations

import random
from pathlib import Path
from string import Template
from typing import Any

from judges.panels import judge_yaml
from judges.settings_files import load_yaml
from warehouse.sources.demo import FACTS

_FOLDER = Path(__file__).parent

JUDGES: dict[str, dict[str, Any]] = load_yaml(_FOLDER / "judges.yaml")
"""Parameters of each simulated judge; ``judges.yaml`` explains them."""


def testset_files() -> dict[str, str]:
    """Return the YAML text of each test set, keyed by the name of the test set."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((_FOLDER / "testsets").glob("*.yaml"))}


def judge_files(seed: int = 0) -> dict[str, str]:
    """Return the YAML files and programs of the simulated judges, keyed by file name.

    The ``seed`` determines which facts each judge believes, and the noise in the scores.
    """
    files: dict[str, str] = {}
    for name, judge in JUDGES.items():
        engine = {"kind": "program", "file": f"judges/{name}.py", "unsafe": True}
        declared = {"description": "Simulated.", "family": name.split("-")[0], "scale": [0, 10]}
        files[f"{name}.yaml"] = judge_yaml(**declared, testsets=judge["testsets"], engine=engine)
        files[f"{name}.py"] = _program(name, judge, seed)
    return files


def _program(name: str, judge: dict[str, Any], seed: int) -> str:
    voice = f"{seed} {judge.get('voice', name)}"
    rng, believes = random.Random(voice), ""
    for country, facts in FACTS.items():
        held = [fact if rng.random() < judge["knows"] else _wrong(rng, k, fact) for k, fact in enumerate(facts)]
        believes += f"    {country!r}: {held!r},\n"
    given = (
        {"cares": 1.0, "likes": 0.0} | judge | {"believes": believes, "voice": voice, "name": f"{seed} {name} alone"}
    )
    return Template((_FOLDER / "program.txt").read_text(encoding="utf-8")).substitute(given)


def _wrong(rng: random.Random, aspect: int, fact: str) -> str:
    return rng.choice(sorted({facts[aspect] for facts in FACTS.values()} - {fact}))
