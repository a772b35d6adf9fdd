"""Tests of conversations with tool calls, from another tool's log to the page."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from tests.support.workspaces import typed

LOG = Path(__file__).parents[1] / "warehouse" / "imported" / "inspect_ai" / "graded.json"
N = 24


def talk(k):
    call = {"id": "1", "function": "weather", "type": "function", "arguments": {"city": f"Oslo {k}"}}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Weather in Oslo {k}?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": f"-{k} C", "function": "weather", "tool_call_id": "1"},
        {"role": "assistant", "content": f"It is -{k} C in Oslo {k}."},
    ]


@pytest.fixture
def log(tmp_path):
    """Write a log of inspect_ai with conversations that three scorers scored differently."""
    document = json.loads(LOG.read_text())
    sample = document["samples"][0]
    document["eval"]["task"] = "weather"
    document["samples"] = [
        sample
        | {"id": f"q{k}", "epoch": 1, "messages": talk(k), "input": talk(k)[:2]}
        | {"scores": {judge: {"value": (7 * k + j * k // 3) % 10} for j, judge in enumerate(("ada", "bob", "cy"))}}
        for k in range(N)
    ]
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "weather.json"
    path.write_text(json.dumps(document))
    return path


def test_an_imported_conversation_log_gets_a_report_page(tmp_path, log):
    out = tmp_path / "out"
    typed("import", "inspect_ai", log, "--out", tmp_path / "scores.csv", "--items", tmp_path / "items.csv")
    typed("fit", tmp_path / "scores.csv", "--items", tmp_path / "items.csv", "--out", out)
    page = html.unescape((out / "report.html").read_text())
    shown = [k for k in range(N) if f'Assistant: calls weather({{"city": "Oslo {k}"}})' in page]
    assert len(shown) >= 3, "items on the page are told by what was called"
