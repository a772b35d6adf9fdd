"""Long work shows a progress bar on standard error, only on a terminal."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestration.cli import output
from orchestration.cli.app import app
from tests.support.workspaces import make


@pytest.fixture
def files(tmp_path) -> Path:
    """Scores, items with gold and systems, labels, a log of another tool, and a workspace with one judge."""
    rng = random.Random(7)
    items = [(f"i{k}", k % 2, ("old", "new")[k % 3 > 0]) for k in range(80)]
    quality = {item: gold + rng.gauss(0, 0.3) for item, gold, _ in items}
    judges = {f"j{k}": {item: 5 + quality[item] + rng.gauss(0, 0.5) for item in quality} for k in range(5)}
    scores = [(item, judge, f"{values[item]:.3f}") for judge, values in judges.items() for item in quality]
    for name, header, rows in (
        ("scores.csv", ("item_id", "judge", "score"), scores),
        ("items.csv", ("item_id", "gold", "model"), items),
        ("labels.csv", ("item_id", "label", "drawn"), [(item, gold, "random") for item, gold, _ in items[:60]]),
    ):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    record = {"instruction": "why", "output_1": "a", "output_2": "b", "generator_1": "x", "generator_2": "y"}
    annotations = [{**record, "annotator": judge, "preference": 1.2} for judge in ("one", "two", "three")]
    (tmp_path / "annotations.json").write_text(json.dumps(annotations))
    make(tmp_path / "ws", judges=("reference_recall",))
    return tmp_path


COMMANDS = {
    "fit": ("fit scores.csv --items items.csv --out out --intervals 20", "intervals of the weights"),
    "select": ("select scores.csv --items items.csv", "measuring the choice"),
    "rate": ("rate scores.csv --labels labels.csv --items items.csv --system model", "rates"),
    "import": ("import alpaca_eval annotations.json --out imported.csv", "reading annotations.json"),
    "judges test": ("judges test reference_recall --workspace ws", "asking reference_recall"),
}
"""A command as it is typed, and what its bar says last."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_shows_how_far_the_work_is(files, monkeypatch, command):
    typed, message = COMMANDS[command]
    terminal = io.StringIO()
    monkeypatch.setattr(output, "errors", Console(file=terminal, force_terminal=True, width=120))
    monkeypatch.chdir(files)
    result = CliRunner().invoke(app, typed.split())
    assert result.exit_code == 0, result.output
    shown = terminal.getvalue()
    assert message in shown
    assert "━" in shown, "a bar"
