"""Tests of the shell steps of ``action.yml`` in bash, with GitHub's variables.

A stand-in for ``gh`` records its arguments. The tests replace expressions ``${{ }}`` by inputs, outputs of steps, and
the event.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from orchestration.cli.rate import NOT_ENOUGH, REGRESSION
from tests.support.workspaces import write_table as write

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")

GH = """#!/bin/sh
printf '%s\\n' "$@" > "$RECORD/gh.txt"
printf '%s' "$GH_TOKEN" > "$RECORD/token.txt"
while [ "$1" != --body-file ]; do shift; done
cp "$2" "$RECORD/comment.md"
exit "${GH_CODE:-0}"
"""
CARE = """#!/bin/sh
echo "what the gate found"
exit {code}
"""
"""Replacement for a gate whose exit code is the only relevant result."""
PYTHON = """#!/bin/sh
test "$1 $2" = "-m venv"
mkdir -p "$3/bin"
ln -s "{care}" "$3/bin/care"
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" >> "{record}/pip.txt"\\n' > "$3/bin/python"
chmod +x "$3/bin/python"
"""
"""Replacement for Python that uses the environment of the tests."""


@pytest.fixture
def checkout(tmp_path):
    """Write the tables of a repository; people pass four of five answers of the good system, one of five of the bad."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "a checkout"
    folder.mkdir()
    ids = [f"{name}-{k}" for name in ("good", "bad") for k in range(150)]
    passed = {i: int(rng.random() < (0.8 if i.startswith("good") else 0.2)) for i in ids}
    write(folder / "the items.csv", ("item_id", "the model"), [(i, i.split("-")[0]) for i in ids])
    scores = [(i, *np.round(passed[i] + 0.5 * rng.normal(size=5), 3)) for i in ids]
    write(folder / "scores.csv", ("item_id", *"abcde"), scores)
    drawn = [f"{name}-{k}" for name in ("good", "bad") for k in rng.choice(150, 50, replace=False)]
    write(folder / "labels.csv", ("item_id", "label", "drawn"), [(i, passed[i], "random") for i in drawn])
    twins = [(i, name) for k, i in enumerate(ids) for name in [("one", "other")[k % 2]]]
    write(folder / "twins.csv", ("item_id", "the model"), twins)
    return folder


class Runner:
    """Runner of the steps until one fails, as on GitHub."""

    def __init__(self, folder, checkout, care=Path(sys.executable).parent / "care"):
        self.checkout, self.record = checkout, folder / "record"
        for path in (self.record, folder / "bin", folder / "temp"):
            path.mkdir()
        for name, text in (("gh", GH), ("python", PYTHON.format(care=care, record=self.record))):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        self.summary, self.output = folder / "summary.md", folder / "output.txt"
        self.summary.write_text("# Before\n")
        self.python = folder / "bin" / "python"
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": os.environ["HOME"],
            "RECORD": str(self.record),
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_REPOSITORY": "team/answers",
        }

    def run(self, pull_request="", **inputs):
        """Return the job's exit code and the output of the steps."""
        values = {f"inputs.{name}": str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        values |= {f"inputs.{name}": value for name, value in inputs.items()}
        values |= {"steps.python.outputs.python-path": str(self.python)}
        values |= {"github.event.pull_request.number": pull_request}
        printed = ""
        for step in STEPS:
            if "run" not in step:
                continue
            lines = self.output.read_text().split() if self.output.exists() else []
            values |= {f"steps.gate.outputs.{k}": v for k, v in (line.split("=", 1) for line in lines)}
            given = {name: values[EXPRESSION.fullmatch(text)[1]] for name, text in step.get("env", {}).items()}
            script = self.record / "step.sh"
            script.write_text(step["run"])
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
                cwd=self.checkout,
                env={**self.environment, **given},
                capture_output=True,
                text=True,
                check=False,
            )
            printed += done.stdout + done.stderr
            if done.returncode:
                return done.returncode, printed
        return 0, printed


@pytest.fixture
def runner(tmp_path, checkout):
    return Runner(tmp_path, checkout)


@pytest.fixture
def ended_with(tmp_path):
    """Return ``ended_with(code)``: a runner in an empty folder, whose gate exits with this code."""

    def make(code):
        folder = tmp_path / str(code)
        (folder / "checkout").mkdir(parents=True)
        gate = folder / "gate"
        gate.write_text(CARE.format(code=code))
        gate.chmod(0o755)
        return Runner(folder, folder / "checkout", gate)

    return make


TABLES = {"scores": "scores.csv", "items": "the items.csv", "labels": "labels.csv", "system": "the model"}
CASES = {
    "passing": ({**TABLES, "new": "good", "against": "bad"}, 0, "passed", "good against bad: better"),
    "failing": ({**TABLES, "new": "bad", "against": "good"}, REGRESSION, "worse", "bad against good: worse"),
    "undecided": (
        {**TABLES, "items": "twins.csv", "new": "one", "against": "other"},
        NOT_ENOUGH,
        "not decided",
        "one against other: not decided: label more items",
    ),
}


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c != "failing" else c for c in CASES])
def test_action_writes_summary_and_comment_and_exits_with_the_gates_code(runner, case):
    inputs, code, word, sentence = CASES[case]
    ended, printed = runner.run(pull_request="17", token="secret", **inputs)
    assert ended == code, printed
    before, heading, *_ = runner.summary.read_text().split("\n")
    assert (before, heading) == ("# Before", f"### CARE gate: {word}")
    reported = runner.summary.read_text().removeprefix("# Before\n")
    assert len([line for line in reported.splitlines() if line.startswith(sentence)]) == 1
    assert "read scores.csv: 300 rows" in reported.partition("<details>")[2], "how the tables were read, folded"
    called = (runner.record / "gh.txt").read_text().split("\n")
    assert called[:5] == ["pr", "comment", "17", "--repo", "team/answers"]
    assert (runner.record / "comment.md").read_text() == reported
    assert (runner.record / "token.txt").read_text() == "secret"
    assert f"code={code}" in runner.output.read_text().splitlines()
    assert sentence in printed, "in the log, too"
    assert "secret" not in printed + reported


@pytest.mark.parametrize("more", [{"pull_request": "17"}, {"token": "secret"}], ids=["no token", "no pull request"])
def test_action_writes_no_comment_without_a_token_or_a_pull_request(ended_with, more):
    runner = ended_with(0)
    assert runner.run(**CASES["passing"][0], **more)[0] == 0
    assert not (runner.record / "gh.txt").exists()
    assert "### CARE gate: passed" in runner.summary.read_text()


@pytest.mark.parametrize("code", [0, REGRESSION])
def test_a_failed_comment_does_not_change_the_outcome(ended_with, code):
    """A fork's token has no write permission."""
    runner = ended_with(code)
    runner.environment["GH_CODE"] = "1"
    ended, printed = runner.run(pull_request="17", token="secret", **CASES["passing"][0])
    assert (ended, "::warning::" in printed) == (code, True)


@pytest.mark.slow
def test_invalid_input_fails_and_the_log_shows_the_error(runner):
    ended, _ = runner.run(**{**TABLES, "labels": "none.csv", "new": "good", "against": "bad"})
    assert ended == 2
    reported = runner.summary.read_text()
    assert "### CARE gate: not run (exit code 2)" in reported
    assert "none.csv" in reported.partition("<details open>")[2]


def test_extra_options_are_passed_and_inputs_are_not_executed(runner, checkout):
    options = "--level=0.8\n--sequential\n\n  --label-bounds\n0\n1\n"
    names = {"new": "good", "against": "bad"}
    assert runner.run(**TABLES, **names, margin="0.05", options=options)[0] in (0, NOT_ENOUGH)
    assert "(80% interval valid at every look" in runner.summary.read_text()
    harm = {"new": '"; touch harmed; $(touch harmed) `touch harmed`', "against": "$(touch harmed)"}
    runner.output.unlink()
    (Path(runner.environment["RUNNER_TEMP"]) / "care" / "bin" / "care").unlink()
    assert runner.run(**TABLES, **harm, options="$(touch harmed)\n; touch harmed")[0] == 2
    assert not list(checkout.glob("harmed"))
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert not [script for script in scripts if "${{" in script], "values come as variables, never as text of a script"


def test_action_installs_its_own_core_package_from_the_lock_file(ended_with):
    runner = ended_with(0)
    runner.run(**CASES["passing"][0])
    words = (runner.record / "pip.txt").read_text().split("\n")[:-1]
    assert words.count("install") == words.count("--no-deps") == 2
    assert words[words.index("--require-hashes") + 2] == str(ROOT / "requirements-core.lock")
    assert words[-2:] == ["--no-build-isolation", str(ROOT)], "and no extra"
    assert all(re.search(r"@[0-9a-f]{40}$", step["uses"]) for step in STEPS if "uses" in step)


def test_every_action_input_is_an_option_of_the_gate_or_the_action():
    from typer.main import get_command

    from orchestration.cli.app import app

    options = {each.name for each in get_command(app).commands["gate"].params}
    assert set(ACTION["inputs"]) - options == {"options", "token"}
    assert all(each["description"] for each in ACTION["inputs"].values())
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in STEPS if "run" in step)


@pytest.mark.slow
def test_action_runs_in_its_own_environment(runner):
    """The test uses a real Python, and a copy of the action's folder for files of the build."""
    from tests.orchestration.test_installed import copied

    runner.python = Path(sys.executable).resolve()
    runner.environment["GITHUB_ACTION_PATH"] = str(copied(runner.record / "action"))
    runner.environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    ended, printed = runner.run(**CASES["failing"][0])
    assert ended == REGRESSION, printed
    programs = Path(runner.environment["RUNNER_TEMP"]) / "care" / "bin"
    listed = json.loads(subprocess.check_output([programs / "pip", "list", "--format", "json"], text=True))
    assert "dagster" not in {one["name"].lower() for one in listed}
