"""Tests that warnings of a run reach the terminal and Dagster."""

import logging
import os
import subprocess
import sys

import dagster as dg
import pytest

from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import make


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
