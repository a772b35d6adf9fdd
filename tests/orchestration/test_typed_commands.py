"""Tests that the commands that a verdict recommends work in order."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from assets.report.verdicts import remedies
from orchestration.cli.app import app
from orchestration.workspace import load_workspace
from tests.support.workspaces import JUDGES, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_again")]


def test_the_commands_of_a_verdict_work_in_order(workspace_after_run, monkeypatch):
    """They work in each state of the test set, from another folder, and with a space in the folder's name."""
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    folder = workspace_after_run.rename(workspace_after_run.with_name("a workspace"))

    def in_this_process(command: str) -> None:
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, f"{command}:\n{done.output}"

    advised = remedies(load_workspace(folder), "one")
    for step in (advised.again, advised.use):
        in_this_process(str(step.command))
    assert f"care label one --workspace '{folder}'" in str(advised.label.command)
    (folder / "judges" / f"{JUDGES[0]}.yaml").unlink()
    run(folder)  # whose fit waits for a person, or is published: both are two fits to compare
    named, _ = re.findall(r"`(care [^`]*)`", advised.decide.sentence)
    for command in (named, str(advised.decide.command)):
        in_this_process(command)
