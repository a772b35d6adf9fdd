"""Tests of conversations with tool calls, from another tool's log to the page and to a judge's prompt."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assets.report.names import page_name
from orchestration.cli.app import app
from tests.support.endpoints import Vendor
from tests.support.workspaces import QUICK, query, run

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


def text(k):
    return f'Assistant: calls weather({{"city": "Oslo {k}"}})\n\nTool: -{k} C\n\nAssistant: It is -{k} C in Oslo {k}.'


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


def care(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def test_an_imported_conversation_log_gets_a_report_page(tmp_path, log):
    out = tmp_path / "out"
    care("import", "inspect_ai", log, "--out", tmp_path / "scores.csv", "--items", tmp_path / "items.csv")
    care("fit", tmp_path / "scores.csv", "--items", tmp_path / "items.csv", "--out", out)
    page = html.unescape((out / "report.html").read_text())
    shown = [k for k in range(N) if f'Assistant: calls weather({{"city": "Oslo {k}"}})' in page]
    assert len(shown) >= 3, "items on the page are told by what was called"


@pytest.mark.slow
def test_a_run_asks_a_judge_about_the_whole_conversation(tmp_path, log, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    folder = tmp_path / "ws"
    for name in ("testsets", "judges"):
        (folder / name).mkdir(parents=True)
    (folder / "care.yaml").write_text(QUICK + "panel: {admit: all}\n")
    (folder / "testsets" / "weather.yaml").write_text(
        "source: {kind: import, tool: inspect_ai, path: ../logs}\nscale: [1, 10]\nprompt: quality\n"
    )
    with Vendor(lambda handler, body: handler.answer(str(len(body["messages"][0]["content"]) % 9 + 1))) as server:
        (folder / "judges" / "api.yaml").write_text(
            f"engine: {{kind: openai, base_url: '{server.url}', model: m, scoring: text}}\ntestsets: [weather]\n"
        )
        assert not run(folder).failures
        sent = [body["messages"][0]["content"] for body in server.bodies]
    assert len(sent) == N
    for k in range(N):
        (asked,) = [printed for printed in sent if f"User: Weather in Oslo {k}?" in printed]
        assert "System: Be brief." in asked
        assert text(k) in asked
    counts = query(folder, "SELECT judge, count(value) FROM scores JOIN judges USING (judge_ix) GROUP BY ALL")
    assert dict(counts)["api"] == N
    assert {"ada", "bob", "cy"} <= dict(counts).keys()
    page = html.unescape((folder / "data" / "report" / page_name("weather")).read_text())
    assert 'calls weather({"city": "Oslo' in page
