"""Tests that the JSON of each command is valid by ``docs/schemas.json``."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import typer
from jsonschema import Draft202012Validator

from orchestration.cli.app import app
from tests.support.workspaces import typed_json

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart"
SCHEMAS = json.loads((ROOT / "docs" / "schemas.json").read_text())

ITEMS, LABELS = ("--items", QUICKSTART / "items.csv"), ("--labels", QUICKSTART / "labels.csv")
SYSTEMS = (*ITEMS, *LABELS, "--system", "system")
TABLES = {
    "care fit": ("fit", QUICKSTART / "scores.csv", *ITEMS, "--intervals", 0, "--out", "out"),
    "care rate": ("rate", QUICKSTART / "scores.csv", *SYSTEMS, "--width", 0.05),
    "care gate": ("gate", QUICKSTART / "scores.csv", "v2", "--against", "v1", *SYSTEMS),
    "care judges report": ("judges", "report", QUICKSTART / "scores.csv", *ITEMS, *LABELS, "--cut", 5.5),
    "care select": ("select", QUICKSTART / "scores.csv", *ITEMS),
    "care testsets list": ("testsets", "list"),
}
NIGHTLY = {
    "care run": ("run",),
    "care status": ("status",),
    "care history": ("history",),
    "care doctor": ("doctor",),
    "care fits list": ("fits", "list", "one"),
}
MAY_BE_EMPTY = ("history", "run")
"""Commands whose output may be empty, because runs in the test's process are not in the history."""

NOT_RUN = {
    "care judges test": "asks a model; its record is open",
    "care fits diff": "takes two fits; tests/orchestration/test_fit_versions.py",
}


def refuse_what_does_not_fit(command: str, *words: object) -> list[dict]:
    printed = typed_json(*words)
    schema = {"$ref": f"#/$defs/{command}", "$defs": SCHEMAS["$defs"]}
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(printed)]
    assert not errors, errors
    assert printed or words[0] in MAY_BE_EMPTY, "an empty answer would fit any schema"
    return printed


@pytest.mark.parametrize("command", TABLES)
def test_json_output_of_table_commands_matches_its_schema(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse_what_does_not_fit(command, *TABLES[command])


def test_json_output_of_workspace_commands_matches_its_schema(workspace_after_run):
    version = refuse_what_does_not_fit("care fits list", *NIGHTLY["care fits list"], "--workspace", workspace_after_run)
    for command, words in NIGHTLY.items():
        typed = [version[0]["fit_version"] if word == "FIT_VERSION" else word for word in words]
        refuse_what_does_not_fit(command, *typed, "--workspace", workspace_after_run)
    refuse_what_does_not_fit("care run", "run", "--dry-run", "--workspace", workspace_after_run)


def test_exactly_the_commands_with_json_have_a_schema():
    def with_json(command, name):
        for word, sub in getattr(command, "commands", {}).items():
            yield from with_json(sub, f"{name} {word}")
        if any("--json" in parameter.opts for parameter in command.params):
            yield name

    Draft202012Validator.check_schema(SCHEMAS)
    schemas = {name for name in SCHEMAS["$defs"] if name.startswith("care ")}
    assert {*with_json(typer.main.get_command(app), "care")} == schemas == {*TABLES, *NIGHTLY, *NOT_RUN}


@pytest.mark.parametrize("page", ["AGENTS.md", "llms.txt"])
def test_links_and_targets_of_the_pages_for_agents_exist(page):
    text = (ROOT / page).read_text()
    paths = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r"`((?:[\w.]+/)+[\w.]*|\w+\.(?:md|json|py))`", text)
    command = ["git", "ls-files"]
    tracked = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split("\n")
    names = {Path(name).name for name in tracked}
    assert [path for path in paths if not ((ROOT / path).exists() if "/" in path else path in names)] == []
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in re.findall(r"`make (\w+)`", text))
