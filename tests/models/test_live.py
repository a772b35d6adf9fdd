"""Tests of `make live` with 48 items and real weights: four prompts, and vLLM compared with transformers.

Missing models in build/live/models are converted from Python packages; Gemma is included if its folder exists.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not here: `make test-vllm` builds an environment that has it")
pytest.importorskip("gguf", reason="gguf is not here: `make test-vllm` installs it")

from judges.spec import LocalModel
from orchestration.workspace import load_workspace
from tests.support.live import ENVIRONMENT, compare_all, lay
from tests.support.workspaces import query, score_rows

MODELS = Path(__file__).parents[2] / "build" / "live" / "models"
ITEMS = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Create the workspace with 48 answers of the demo and the available models."""
    made = [sys.executable, "examples/live/weights.py", str(MODELS), "smollm2-135m-instruct"]
    subprocess.run(made, check=True, cwd=MODELS.parents[2])
    root = lay(tmp_path_factory.mktemp("live") / "workspace", "answers", ITEMS)
    testset = root / "testsets" / "answers.yaml"
    testset.write_text(testset.read_text().replace("{kind: demo}", "{kind: demo, countries: 4}"))
    (root / "models").symlink_to(MODELS)
    for path in (root / "judges").glob("gemma3-*.yaml"):
        if not (MODELS / "gemma3-270m").is_dir():
            path.unlink()
    return root


@pytest.fixture(scope="module")
def judged(folder):
    """Return the output of `care run`, typed in another folder than the workspace's."""
    command = [sys.executable, "-m", "orchestration.cli", "run", "--verbose", "--workspace", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **ENVIRONMENT})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_real_weights_score_every_item_and_are_loaded_once_for_all_prompts(folder, judged):
    workspace = load_workspace(folder)
    asked = [spec.engine for spec in workspace.judges.values() if isinstance(spec.engine, LocalModel)]
    assert len(asked) >= 4
    assert len(re.findall(r"has loaded the model", judged)) == len({engine.model for engine in asked})
    assert len(score_rows(folder)) == len(set(score_rows(folder))) == ITEMS * len(workspace.judges)
    sql = "SELECT judge, count(value) FROM scores JOIN judges USING (judge_ix) GROUP BY judge"
    counts = dict(query(folder, sql))
    assert {counts[name] for name, spec in workspace.judges.items() if spec.engine.needs.model} == {ITEMS}
    fits = query(folder, "SELECT aggregator, count(estimate) FROM latest_aggregates GROUP BY ALL")
    assert dict(fits)["care"] == ITEMS


def test_vllm_and_transformers_read_the_same_of_real_weights(folder, judged):
    compared = compare_all(folder, ITEMS)
    assert len(compared) >= 4
    assert max(found.worst for found in compared.values()) < 1e-3
    assert min(found.rank for found in compared.values()) >= 0.999
