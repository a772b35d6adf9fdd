"""``care init`` makes a workspace, ``care schema`` says what its files may hold.

Belongs here: these commands. Does not: the text of care.yaml and its schema (``orchestration.template``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestration.cli.output import console, speaking_errors

_DEMO_YAML = """\
description: >-
  Questions about countries, answered with known quality and planted style: all of it simulated.
source:
  kind: demo
scale: [0, 10]
# What is true of these answers, so that judges can be tried: what a dress leaves as it is, and what costs right facts.
probes:
  kinds: [padding, formatting, citation, compliment, hedging, announcement,
          other_prompt, sentences, one_fact, two_facts, all_facts, negation]
"""


@speaking_errors
def init(folder: Annotated[Path, typer.Argument(help="Folder to make the workspace in.")]) -> None:
    """Make a workspace with the embedded demo: care.yaml, judges and a test set."""
    from care_ops.errors import InputError
    from judges.panels import find, judge_files
    from orchestration.template import template

    if (folder / "care.yaml").exists():
        raise InputError(f"{folder / 'care.yaml'}: there is a workspace already; delete it or choose another folder")
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in judge_files(find("demo")).items():
        (folder / "judges" / f"{name}.yaml").write_text(text, encoding="utf-8")
    (folder / "testsets" / "demo.yaml").write_text(_DEMO_YAML, encoding="utf-8")
    (folder / "care.yaml").write_text(template(), encoding="utf-8")
    console.print(f"made {folder}; next: care run --workspace {folder}", highlight=False, soft_wrap=True)


@speaking_errors
def schema(
    file: Annotated[
        Literal["care", "judge", "testset"], typer.Argument(help="care.yaml, a judge's file or a test set's.")
    ] = "care",
) -> None:
    """Print the JSON schema of a workspace's file, by which an editor completes and checks it."""
    from judges.spec import JudgeSpec
    from orchestration.template import schema as schema_of_care_yaml
    from warehouse.testsets import TestsetSpec

    kinds = {"judge": JudgeSpec.model_json_schema, "testset": TestsetSpec.model_json_schema}
    sys.stdout.write(json.dumps(kinds.get(file, schema_of_care_yaml)(), indent=1) + "\n")
