"""Tests of a run's logs: on the terminal on request, and always in Dagster."""

import logging
import os
import subprocess
import sys

import dagster as dg
import pytest

from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import make


def run_in_a_process(folder, *options: str) -> str:
    """Return the text that ``care run`` prints on standard error."""
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


@pytest.mark.slow
def test_a_verbose_run_logs_what_is_built_and_why(workspace_after_run):
    page = workspace_after_run / "data" / "report" / "testset-one.html"
    page.unlink()
    printed = run_in_a_process(workspace_after_run, "--verbose")
    assert "orchestration.locks: `care run` holds the workspace" in printed
    assert "orchestration.runner: report one is to be materialised: it is missing" in printed
    page.unlink()
    assert "orchestration." not in run_in_a_process(workspace_after_run)
    assert page.exists()


def test_warnings_reach_the_log_of_dagsters_run(tmp_path):
    @dg.op
    def reads() -> None:
        logging.getLogger("warehouse.storage").warning("a part is damaged")

    @dg.job
    def reading() -> None:
        reads()

    with workspace_instance(load_workspace(make(tmp_path / "ws"))) as instance:
        result = reading.execute_in_process(instance=instance)
        messages = [
            record.event_log_entry.user_message for record in instance.get_records_for_run(result.run_id).records
        ]
    assert "a part is damaged" in messages


@pytest.mark.slow
def test_a_warning_during_a_step_is_printed_in_the_terminal(tmp_path):
    """Dagster captures output and shows it with ``tail``; here, ``tail`` is too slow to show anything."""
    slow = tmp_path / "bin" / "tail"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    code = (
        "import logging, pathlib, sys\n"
        "import dagster as dg\n"
        "from orchestration.cli.output import keep_standard_error, print_logs\n"
        "from orchestration.instance import workspace_instance\n"
        "from orchestration.workspace import load_workspace\n"
        "@dg.op\n"
        "def reads(): logging.getLogger('warehouse.storage').warning('a part is damaged')\n"
        "@dg.job\n"
        "def reading(): reads()\n"
        "keep_standard_error()\n"
        "print_logs(verbose=False)\n"
        "with workspace_instance(load_workspace(pathlib.Path(sys.argv[1]))) as instance:\n"
        "    reading.execute_in_process(instance=instance)\n"
    )
    command = [sys.executable, "-c", code, str(make(tmp_path / "ws"))]
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PATH": path})
    assert "warning: a part is damaged\n" in run.stderr, run.stderr
