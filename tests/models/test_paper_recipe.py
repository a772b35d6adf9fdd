"""Tests of the recipe of docs/paper.md, line by line, with a local hub of invented data sets and weights.

`datasets` and vLLM read the hub at the commits that `care testsets pin` and `care judges pin` wrote. The models count
words, because the tests are about the workflow.
"""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

pytest.importorskip("vllm", reason="vLLM is not here: `make test-vllm` builds an environment that has it")
pytest.importorskip("datasets", reason="datasets is not here: `make test-vllm` installs it")

from assets.experiments.base import read_stored
from assets.experiments.ledger import NEEDS_MODELS, NOT_RUN, as_printed, ledger_rows
from assets.experiments.registry import KEYS
from judges import panels
from orchestration.workspace import load_workspace
from tests.models import counting_model, hub, paper_sets

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CARE = "fit: {resamples: 0, aggregators: [avg]}\npanel: {admit: all}\njudging: {mode: inline}\nreview: {hold: false}\n"
"""Fits compute only the mean, and the models that count words are admitted, all in one process."""

ALL = bool(os.environ.get("CARE_WHOLE_RECIPE"))
"""Whether all judges and experiments take part, as this environment variable states.

Otherwise eight judges without gated models take part, without two experiments that permute features and choose programs
on fifteen sets.
"""

EIGHT = (
    *("mistral-7b-instruct-v0.3", "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", "phi-4-mini-instruct"),
    *("qwen2.5-1.5b-instruct", "yi-1.5-6b-chat"),
)

LEFT_OUT = () if ALL else ("confounder_features", "program_integration")

ENVIRONMENT = {
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_OFFLINE": "0",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


def recipe() -> list[str]:
    """Return the lines of the recipe without comments."""
    page = (ROOT / "docs" / "paper.md").read_text().partition("## The recipe")[2]
    block = re.search(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    return [line.partition("  #")[0].strip() for line in block[1].splitlines() if line.strip()]


def on_this_machine(workspace: Path) -> None:
    """Change the judges of the panels for a machine without a GPU."""
    for path in (workspace / "judges").glob("*.yaml"):
        judge = yaml.safe_load(path.read_text())
        if judge["engine"]["kind"] == "vllm" and not ALL and path.stem not in EIGHT:
            path.unlink()
        elif judge["engine"]["kind"] == "vllm":
            judge["engine"]["num_gpus"] = 0
            path.write_text(yaml.safe_dump(judge))


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Return the workspace after the last line, and the output of each line."""
    folder = tmp_path_factory.mktemp("recipe")
    models = {
        model["model"] for name in ("scoring", "classification", "loadings") for model in panels.find(name).models
    }
    paper_sets.write(folder, scored=60, paired=200 if ALL else 84)  # ten items a judge, which Algorithm 2 needs
    counting_model.build(folder / "models", sorted(models))
    (folder / "examples").symlink_to(ROOT / "examples")
    output: dict[str, str] = {}
    with hub.hub(folder) as address:
        environment = {**os.environ, **ENVIRONMENT, "HF_ENDPOINT": address, "HF_HOME": str(folder / "cache")}
        for line in recipe():
            words = shlex.split(line)
            if words[0] in ("pip", "git"):
                continue
            program = {"care": [sys.executable, "-m", "orchestration.cli"], "python": [sys.executable]}[words[0]]
            left = [re.sub(rf" or key:({'|'.join(LEFT_OUT)})\b", "", word) if LEFT_OUT else word for word in words[1:]]
            began = time.monotonic()
            done = subprocess.run(
                [*program, *left], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            print(f"{time.monotonic() - began:.0f} s: {line}")
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            output[line] = done.stdout + done.stderr
            if words[1] == "init":
                (folder / "mine" / "care.yaml").write_text(CARE)
            if "new" in words:
                on_this_machine(folder / "mine")
    return folder / "mine", output


def test_every_line_is_typed_and_everything_is_pinned(walked):
    folder, output = walked
    assert len(output) == len(recipe()) - 2
    workspace = load_workspace(folder)
    of_the_hub = [t.source for t in workspace.testsets.values() if t.source.kind == "huggingface"]
    assert {s.revision for s in of_the_hub if s.dataset != "humans_llms_judgment_bias"} == {hub.SHA}
    assert {j.engine.revision for j in workspace.judges.values() if j.engine.needs.model} == {hub.SHA}
    assert {j.engine.kind for j in workspace.judges.values()} == {"vllm", "program"}
    (forecast,) = [text for line, text in output.items() if "--dry-run" in line]
    assert "qwen3-4b" in forecast


def test_every_cell_of_the_papers_tables_is_filled(walked):
    folder, _ = walked
    workspace = load_workspace(folder)
    stored = {key: read_stored(workspace, key) for key in KEYS}
    measures = {key: found.findings.measures for key, found in stored.items() if found is not None}
    asked = {
        (row.place, row.claim) for row in ledger_rows({}) if row.verdict == NEEDS_MODELS and row.asset not in LEFT_OUT
    }
    rows = {(row.place, row.claim): row for row in ledger_rows(measures)}
    assert len(asked) == (155 if ALL else 143)
    empty = {key: rows[key].verdict for key in asked if rows[key].verdict in (NEEDS_MODELS, NOT_RUN)}
    assert empty == {}
    without = [key for key in sorted(asked) if rows[key].ours is None and rows[key].as_written is None]
    assert {place for place, _ in without} <= {"tab:heuristic_validation", "tab:confounding_appendix"}, without
    for key in ("paper_tables", "injected_bias", "adversarial_answers"):  # Tables 1 to 4
        for table in as_printed(key, measures[key]):
            cells: dict[tuple[str, str], set[str]] = {}
            for row in table.rows:
                for column, cell in row.items():
                    cells.setdefault((row[""].removesuffix(", ours"), column), set()).add(cell)
            assert not [key for key, found in cells.items() if found == {"--"}], table
    page = (workspace.report_folder / "experiment-paper_tables.html").read_text()
    titles = [table.title for table in as_printed("paper_tables", measures["paper_tables"])]
    assert any(title.startswith("tab:results_scoring, ") for title in titles)
    assert [title for title in titles if title not in html.unescape(page)] == []
    print(json.dumps({"filled": len(asked) - len(without), "of": len(asked), "without": [w[1] for w in without]}))
