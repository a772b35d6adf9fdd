"""``care_tensor_paper`` beside ``care_tensor``: the paper's planted regimes, and recorded panels.

``python -m benchmarks.studies.tensor_paper`` (CARE_DATA_DIR must be set) writes
benchmarks/results/study-tensor-paper.md;
``make bench-tensor`` runs it. Rows that build/tensor-paper has are not made again; names of rows choose some of them.

Fixed before a result was seen: the two regimes of the paper's figure, the first with each declared table of means and
5,000 items (the paper has 50,000, which took too long), the second with 3,000;
the graph-aware mixture with 10,000 items, where Q = 1 in its last two states; and
every recorded folder named below. Five seeds: of the draw and of the starts where panels are drawn, of the starts where
they are recorded. With labels, 150 random items of a drawn panel and 30 of a recorded one are anchors, drawn anew with
each seed. Accuracy is that of an aggregate's own decisions (P(Q = 1) above one half) on all other items. *Below .6* and
*no answer* are shares of the seeds; a seed without an answer is in neither of the other figures. No constant of either
aggregator was chosen on these rows.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_tensor import CareTensor
from care_ops.aggregators.care_tensor_paper import care_tensor_paper
from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import FitConfig, TensorConfig
from care_ops.errors import FitError
from care_ops.fit import try_structure
from care_ops.moments.state import accumulate
from care_ops.records import Aggregate
from care_ops.scores import ScoreMatrix, content_seed
from care_ops.simulate import (
    SUFFICIENT_TABLES,
    grouped_mixture,
    second_order_insufficient,
    second_order_sufficient,
)
from tests.support.panels import PreparedView, prepare, views

Array = NDArray[np.float64]

MADE = Path("build/tensor-paper")

RESULT = Path(__file__).parents[1] / "results" / "study-tensor-paper.md"

SEEDS = range(5)
DRAWN_LABELS, RECORDED_LABELS, BAD = 150, 30, 0.6
SUFFICIENT, INSUFFICIENT, NOISE = (0.0, 0.5, 1.0), (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0), (0.1, 0.5, 1.0)
VIEWS = ("care_civilcomments", "dices350", "llmbar 36", "triviaqa_judges_v1")

METHODS: dict[str, tuple[Callable[[Problem], Aggregate], TensorConfig]] = {
    "care_tensor_paper": (care_tensor_paper, TensorConfig()),
    "care_tensor": (CareTensor().fit, TensorConfig()),
    "care_tensor, full covariance": (CareTensor().fit, TensorConfig(covariance="full")),
}

_HEAD = """# CARE-Tensor as the paper writes it, beside ours

By `python -m benchmarks.studies.tensor_paper` ({day}), which also says what was fixed before a result was seen.
Accuracy is the mean over five seeds, with the least; *below .6* and *none* are how many of the five were below .6
or had no answer; CPU seconds of a fit are medians, its structure not counted.
"""


@dataclass(frozen=True)
class Panel:
    """One seed of a row: the problem, and Q of its items."""

    problem: Problem
    quality: Array


def drawn(scores: Array, quality: NDArray[np.intp], seed: int) -> Panel:
    """A drawn panel as aggregators see it."""
    n, p = scores.shape
    matrix = ScoreMatrix(scores, tuple(f"i{k:06}" for k in range(n)), tuple(f"j{k:02}" for k in range(p)))
    moments, config = accumulate(scores), FitConfig(cut=float(scores.mean()))
    structure, _, _ = try_structure(moments, config.structure, matrix.judges)
    return Panel(Problem(matrix, moments, structure, np.random.default_rng(seed), config), quality.astype(float))


def sufficient(name: str, k: int, seed: int) -> Panel:
    """A draw of the first regime."""
    rng = np.random.default_rng([seed, k])
    draw = second_order_sufficient(rng, SUFFICIENT[k], SUFFICIENT_TABLES[name], truth=seed, n=5_000)
    return drawn(draw.scores, draw.quality, seed)


def insufficient(k: int, seed: int) -> Panel:
    """A draw of the second regime."""
    draw = second_order_insufficient(np.random.default_rng([seed, k]), INSUFFICIENT[k], truth=seed)
    return drawn(draw.scores, draw.quality, seed)


def graph_aware(noise: float, seed: int) -> Panel:
    """A draw of the mixture with edges within views."""
    draw, _ = grouped_mixture(np.random.default_rng([seed, 4]), n=10_000, p=12, noise=noise)
    return drawn(draw.scores, (draw.states >= 2).astype(np.intp), seed)


def recorded(name: str, seed: int) -> Panel:
    """A recorded panel with the starts of this seed."""
    panel = _prepared(name)
    rng = np.random.default_rng([content_seed(panel.problem.scores), seed])
    return Panel(replace(panel.problem, rng=rng), panel.view.gold)


@cache
def _prepared(name: str) -> PreparedView:
    return prepare(next(view for view in views() if view.name == name))


PLANTED: dict[str, Callable[[int], Panel]] = {
    **{f"insufficient, c = {c:g}": partial(insufficient, k) for k, c in enumerate(INSUFFICIENT)},
    **{
        f"sufficient, {name}, g = {g:g}": partial(sufficient, name, k)
        for name in SUFFICIENT_TABLES
        for k, g in enumerate(SUFFICIENT)
    },
    **{f"graph-aware, noise {noise:g}": partial(graph_aware, noise) for noise in NOISE},
}
RECORDED: dict[str, Callable[[int], Panel]] = {name: partial(recorded, name) for name in VIEWS}


def cell(panels: list[Panel], name: str, labels: int) -> str:
    """Accuracy, how many seeds fell below .6 or had no answer, and CPU seconds of one method on one row."""
    fit, tensor = METHODS[name]
    right, seconds, why = list[float](), list[float](), ""
    for seed, panel in enumerate(panels):
        ids = panel.problem.scores.item_ids
        chosen = np.random.default_rng([seed, 31]).choice(len(ids), labels, replace=False)
        anchors = Anchors({ids[i]: float(panel.quality[i]) for i in chosen}) if labels else NO_ANCHORS
        config = replace(panel.problem.config, tensor=tensor)
        rng = np.random.default_rng(panel.problem.rng.bit_generator.seed_seq)  # type: ignore[attr-defined]
        started = time.process_time()
        try:
            found = fit(replace(panel.problem, config=config, anchors=anchors, rng=rng))
        except FitError as error:
            why = str(error)
            continue
        seconds.append(time.process_time() - started)
        others = np.setdiff1d(np.flatnonzero(~np.isnan(found.estimate)), chosen)
        decided = found.estimate[others] > (found.threshold or 0.0)
        right.append(float(np.mean(decided == (panel.quality[others] > 0.5))))
    if not right:
        return f"no answer ({why})"
    bad, none = sum(r < BAD for r in right), len(panels) - len(right)
    return f"{np.mean(right):.3f} ({min(right):.3f}); {bad}, {none}; {np.median(seconds):.1f}"


def table(title: str, rows: dict[str, Callable[[int], Panel]], labels: int, wanted: list[str]) -> list[str]:
    """A table of markdown: accuracy (least); below .6, none; CPU seconds, by method with and without labels."""
    ways = [(name, count) for count in (0, labels) for name in METHODS]
    heads = [f"{name}, {count or 'no'} labels" for name, count in ways]
    lines = [f"## {title}", "", f"| panel | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for name, make in rows.items():
        kept = MADE / f"{name}.md"
        if not kept.exists() and (not wanted or name in wanted):
            panels = [make(seed) for seed in SEEDS]
            kept.write_text(f"| {name} | " + " | ".join(cell(panels, *way) for way in ways) + " |", encoding="utf-8")
        lines.append(kept.read_text(encoding="utf-8") if kept.exists() else f"| {name} | not made yet |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def main() -> None:
    """Write the page."""
    assert os.environ.get("CARE_DATA_DIR"), "set CARE_DATA_DIR to the folder of recorded scores"
    MADE.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:]
    with threadpool_limits(limits=1, user_api="blas"):
        lines = table("Recorded panels", RECORDED, RECORDED_LABELS, wanted)
        lines = table("The paper's planted regimes", PLANTED, DRAWN_LABELS, wanted) + lines
    told = "Cells: accuracy (least); below .6, none; CPU seconds.\n"
    RESULT.write_text("\n".join([_HEAD.format(day=time.strftime("%Y-%m-%d")), told, *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
