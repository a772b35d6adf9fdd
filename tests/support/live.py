"""Workspace of ``examples/live``, and comparison of its judges in two engines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from care_ops.metrics import rank_correlation
from judges.engines.model import ModelJudgeEngine
from judges.engines.vllm import VllmBackend
from judges.items import Item
from judges.prompts import find
from judges.spec import JudgeSpec, LocalModel
from orchestration.workspace import load_workspace
from tests.support.direct_model import DirectModel

EXAMPLE = Path(__file__).parents[2] / "examples" / "live"
LONGEST = 500
"""Maximum number of characters of a comment: vLLM's cache then holds all comments from judge to judge."""

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_CPU_KVCACHE_SPACE": "4",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


QUESTIONS = 24
"""Number of questions of bias_perturb whose original and restyled answers are judged."""


def lay(folder: Path, kind: str, count: int) -> Path:
    """Write the workspace unless it exists.

    ``kind`` is ``comments`` (with ``count`` sampled items), ``answers`` or ``experiments``.
    """
    if not (folder / "care.yaml").exists():
        for name in (".", "answers", kind) if kind == "experiments" else (".", kind):
            shutil.copytree(
                EXAMPLE / name,
                folder,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("comments", "answers", "experiments", "*.py", "*.md"),
            )
        if kind == "comments":
            pq.write_table(comments(count), folder / "items.parquet")
        elif kind == "experiments":
            pq.write_table(dressed(), folder / "items.parquet")
    return folder


def comments(count: int) -> pa.Table:
    """Sample short comments of CivilComments and their gold at random, without reading scores."""
    path = Path(os.environ["CARE_DATA_DIR"]) / "care_civilcomments" / "items.parquet"
    table = pq.read_table(path, columns=["item_id", "text", "gold"])
    short = table.filter(pc.less_equal(pc.utf8_length(table["text"]), LONGEST))
    return short.take(np.random.default_rng(0).permutation(short.num_rows)[:count])


def dressed() -> pa.Table:
    """Sample questions of bias_perturb, with the original answers and the versions with beauty or authority added."""
    table = pq.read_table(Path(os.environ["CARE_DATA_DIR"]) / "bias_perturb" / "items.parquet")
    questions = np.random.default_rng(0).permutation(pc.unique(table["question_id"]).to_pylist())[:QUESTIONS]
    chosen = {"question_id": questions.tolist(), "perturbation": ["beauty", "authority"]}
    for column, values in {**chosen, "variant": ["original", "perturbed"]}.items():
        table = table.filter(pc.is_in(table[column], pa.array(values, table[column].type)))
    return table


@dataclass(frozen=True)
class Compared:
    """Difference of two engines on some items with one judge's prompt.

    Attributes
    ----------
    worst : float
        Largest difference between log probabilities of tokens that begin a valid answer.
    rank : float
        Rank correlation (Spearman) of the scores.
    """

    worst: float
    rank: float


def compare(spec: JudgeSpec, prompts: Path, ours: VllmBackend, theirs: VllmBackend, items: Sequence[Item]) -> Compared:
    """Compare two engines on one judge's prompt."""
    assert isinstance(spec.engine, LocalModel)
    template = find(spec.engine.template or "", prompts)
    here, there = (ModelJudgeEngine(spec, spec.engine, template, each) for each in (ours, theirs))
    asked = [template.render(item, spec.scale) for item in items]
    requests = [(here._tokens(prompt), here._ballot.wanted[()]) for prompt in asked]
    differences = [
        abs(a[token] - b[token])
        for a, b in zip(ours.next_logprobs(requests), theirs.next_logprobs(requests), strict=True)
        for token in a
    ]
    scores = [np.array([answer.score for answer in engine.ask(asked)]) for engine in (here, there)]
    return Compared(max(differences), rank_correlation(*scores))


def compare_all(folder: Path, count: int) -> dict[str, Compared]:
    """Compare two engines on the first ``count`` items, for each judge that is a model."""
    os.environ.update(ENVIRONMENT)
    workspace = load_workspace(folder)
    (testset,) = workspace.testsets
    stored = pq.read_table(workspace.parts.items_file(testset)).slice(0, count).to_pylist()
    items = [Item(row["item_id"], row.get("prompt"), row.get("response")) for row in stored]
    compared: dict[str, Compared] = {}
    loaded: dict[tuple[Any, ...], tuple[VllmBackend, VllmBackend]] = {}
    for name, spec in workspace.judges.items():
        if not isinstance(spec.engine, LocalModel):
            continue
        if spec.engine.loaded not in loaded:
            loaded[spec.engine.loaded] = DirectModel(spec.engine), VllmBackend(spec.engine)
        compared[name] = compare(spec, folder / "prompts", *loaded[spec.engine.loaded], items)
        print(f"{name}: {compared[name]}", flush=True)
    return compared
