"""Tests of progress bars, which appear on standard error, only on a terminal."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from orchestration.cli import output
from tests.support.workspaces import make, typed

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


@pytest.fixture
def files(tmp_path) -> Path:
    """Write the tables of the quickstart, and create a workspace with one judge."""
    make(tmp_path / "ws", judges=("reference_recall",))
    return shutil.copytree(QUICKSTART, tmp_path, dirs_exist_ok=True)


COMMANDS = {
    "fit": ("fit scores.csv --items items.csv --out out --intervals 20", "intervals of the weights"),
    "select": ("select scores.csv --items items.csv", "measuring the choice"),
    "rate": ("rate scores.csv --labels labels.csv --items items.csv --system system", "rates"),
    "judges test": ("judges test reference_recall --workspace ws", "testing reference_recall"),
}
"""Commands, and the last description of the bar of each."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_shows_progress(files, monkeypatch, command):
    words, message = COMMANDS[command]
    terminal = io.StringIO()
    monkeypatch.setattr(output, "errors", Console(file=terminal, force_terminal=True, width=120))
    monkeypatch.chdir(files)
    typed(*words.split())
    shown = terminal.getvalue()
    assert message in shown
    assert "━" in shown, "a bar"
