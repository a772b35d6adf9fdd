"""``care`` beside an earlier commit, in one measure: recorded panels by four declarations, and labels.

``make bench-before``; needs CARE_DATA_DIR.

The design, fixed before a result was seen:

- Order is the area under the ROC curve, or where gold is graded Kendall's tau with ties of an answer broken at random
  (``benchmarks.studies.panels``): tau-b, as in ``recorded.md``, rewards an answer of few whole numbers for its ties.
- Recorded panels: every view of CARE_DATA_DIR without texts, families declared by base model, by model, by vendor and
  not at all (``studies.truth.redeclared``). Gap, gain, harm: ``tests.support.panels.Summary``.
- Labels: 10, 20 and 50 items at random, ``DRAWS`` draws; measured on the items of no labelled split unit. Ordinary
  panels are draws of the study's generator by the study's seeds, with families and texts; their labels are the truth.
- Both commits get the same scores, families, texts (where the earlier one can read them) and labels, and answer in
  processes of their own by their own code: this file's ``answer`` is all that runs there.

Tables go to ``benchmarks/results/before.md``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

ROOT = Path(__file__).parents[2]
RESULT = Path("benchmarks/results/before.md")
BEFORE = "818e32e"
DECLARED = ("base model", "model", "vendor", "none")
LABELS = (10, 20, 50)
DRAWS, ORDINARY = 20, 100


@dataclass(frozen=True)
class Job:
    """A panel in plain arrays, which any commit can read, and what is asked: labels by row, or none."""

    values: Array
    items: tuple[str, ...]
    judges: tuple[str, ...]
    families: dict[str, str]
    features: dict[str, Array]
    cut: float | None
    scale: tuple[float, float] | None
    labels: Sequence[Mapping[str, float]]


def answer(job: Job) -> list[Array]:
    """The order of ``care`` for each set of labels, by the code that is first on the path."""
    from care_ops.anchors import Anchors
    from care_ops.config import FitConfig
    from care_ops.fit import fit_panel
    from care_ops.scores import ScoreMatrix

    seen = {"features": job.features} if "features" in {field.name for field in fields(ScoreMatrix)} else {}
    scores = ScoreMatrix(job.values, job.items, job.judges, job.families, **seen)
    config = FitConfig(aggregators=("care",), cut=job.cut, scale=job.scale)
    answers: list[Array] = []
    for labels in job.labels:
        fitted = fit_panel(scores, config, Anchors(dict(labels)), solve="not").aggregates["care"]
        answers.append(fitted.estimate if fitted.latent is None else fitted.latent)
    return answers


def answers_of(checkout: Path, jobs: Sequence[Job], folder: Path) -> list[list[Array]]:
    """What the code of a checkout answers to each job, in a process of its own."""
    folder.mkdir()
    plain = [{field.name: getattr(job, field.name) for field in fields(Job)} for job in jobs]
    (folder / "jobs").write_bytes(pickle.dumps(plain))
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--answer", str(folder)]
    subprocess.run(command, cwd=checkout, env=environment, check=True)
    return pickle.loads((folder / "answers").read_bytes())


def answer_all(folder: Path) -> None:
    """Answer the jobs that lie in a folder."""
    jobs = [Job(**job) for job in pickle.loads((folder / "jobs").read_bytes())]
    (folder / "answers").write_bytes(pickle.dumps([answer(job) for job in jobs]))


def checkout(commit: str, folder: Path) -> Path:
    """The sources of a commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


@dataclass(frozen=True)
class Case:
    """A job, its truth, and for each set of labels the rows that are measured."""

    job: Job
    gold: Array
    measured: Sequence[Rows]
    binary: bool

    def order(self, answers: Sequence[Array]) -> list[float]:
        """AUC or tau with ties broken at random, for each set of labels."""
        return [self._order(a, rows) for a, rows in zip(answers, self.measured, strict=True)]

    def mean(self) -> list[float]:
        """The same of the plain mean."""
        return [self._order(np.nanmean(self.job.values, axis=1), rows) for rows in self.measured]

    def _order(self, estimate: Array, rows: Rows) -> float:
        from benchmarks.studies.panels.__main__ import order
        from care_ops.metrics import auc

        filled, gold = np.where(np.isnan(estimate), np.nanmean(estimate), estimate)[rows], self.gold[rows]
        return (auc(filled, gold) or 0.0) if self.binary else order(filled, gold)


def recorded(how: str, labels: Sequence[int]) -> Iterator[tuple[object, Case]]:
    """Each recorded view with its families declared in a way; the first set of labels is empty."""
    from benchmarks.studies.truth import redeclared
    from tests.support.panels import prepare, views

    for raw in views():
        panel = prepare(redeclared(raw, how))
        view, config, all_rows = panel.view, panel.problem.config, np.arange(len(panel.view.gold))
        sets: list[Mapping[str, float]] = [{}]
        measured = [all_rows]
        for m in labels:
            for seed in range(DRAWS):
                rows = np.random.default_rng([seed, m]).choice(len(all_rows), min(m, len(all_rows) // 2), replace=False)
                sets.append({view.scores.item_ids[row]: float(view.gold[row]) for row in rows.tolist()})
                measured.append(all_rows[~np.isin(view.units, view.units[rows])])
        scores = view.scores
        job = Job(
            scores.values, scores.item_ids, scores.judges, dict(scores.families), {}, config.cut, config.scale, sets
        )
        yield view, Case(job, view.gold, measured, view.binary)


def ordinary(draws: int) -> Iterator[Case]:
    """Ordinary panels of the study, without labels and with."""
    from benchmarks.studies.panels.rivals import labelled, panel, seed_of_the_study

    seed = seed_of_the_study()
    for k in range(draws):
        drawn = panel("ordinary", k, seed)
        scores, all_rows = drawn.scores, np.arange(len(drawn.truth))
        chosen = [np.empty(0, dtype=np.intp), *(labelled(drawn, m, k, seed) for m in LABELS)]
        sets = [{scores.item_ids[row]: float(drawn.truth[row]) for row in rows.tolist()} for rows in chosen]
        measured = [np.setdiff1d(all_rows, rows) for rows in chosen]
        families, features = dict(scores.families), {name: np.array(x) for name, x in scores.features.items()}
        job = Job(scores.values, scores.item_ids, scores.judges, families, features, None, None, sets)
        yield Case(job, drawn.truth, measured, binary=False)


def both(cases: Sequence[Case], before: Path, folder: Path) -> tuple[list[list[float]], list[list[float]]]:
    """Orders by the earlier commit and by this one."""
    folder.mkdir()
    jobs = [case.job for case in cases]
    with ThreadPoolExecutor(2) as pool:
        places = ((before, folder / "before"), (ROOT, folder / "now"))
        old, new = pool.map(lambda place: answers_of(place[0], jobs, place[1]), places)
    pairs = zip(cases, old, new, strict=True)
    orders = [(case.order(a), case.order(b)) for case, a, b in pairs]
    return [a for a, _ in orders], [b for _, b in orders]


def declarations(before: Path, commit: str, folder: Path) -> list[str]:
    """Tables of the recorded panels: a summary by declaration, each view, and labels under the first declaration."""
    from tests.support.panels import View, cross_fitted, summarise

    lines = [f"| families by | gap: {commit}, now | gain | harm | worst on |", "|---|---|---|---|---|"]
    by_view: dict[str, list[str]] = {}
    with_labels: list[str] = []
    for how in DECLARED:
        pairs = list(recorded(how, LABELS if how == DECLARED[0] else ()))
        views: list[View] = [view for view, _ in pairs]  # type: ignore[misc]
        cases = [case for _, case in pairs]
        old, new = both(cases, before, folder / how.replace(" ", "-"))
        mean = {view.name: case.mean()[0] for view, case in zip(views, cases, strict=True)}
        ceiling = {v.name: c.order([cross_fitted(v)] * len(c.measured))[0] for v, c in zip(views, cases, strict=True)}
        vote = {v.name: c.order([modal(c.job.values)] * len(c.measured))[0] for v, c in zip(views, cases, strict=True)}
        told = [
            summarise(
                {v.name: m[0] for v, m in zip(views, orders, strict=True)}, views, mean=mean, vote=vote, ceiling=ceiling
            )
            for orders in (old, new)
        ]
        cells = [", ".join(f"{getattr(s, name):+.4f}" for s in told) for name in ("gap", "gain", "harm")]
        lines.append(f"| {how} | {' | '.join(cells)} | {', '.join(s.worst for s in told)} |")
        for view, a, b in zip(views, old, new, strict=True):
            by_view.setdefault(f"{view.name} | {mean[view.name]:.3f}", []).append(f"{a[0]:.3f}, {b[0]:.3f}")
        if how == DECLARED[0]:
            with_labels = labels_of(views, cases, old, new, commit)
    lines += ["", f"By view: {commit}, now", "", f"| view | mean | {' | '.join(DECLARED)} |", "|---" * 6 + "|"]
    lines += [f"| {view} | {' | '.join(cells)} |" for view, cells in by_view.items()]
    return [*lines, "", "## Recorded panels with labels, families by base model", "", *with_labels]


def modal(values: Array) -> Array:
    """The most frequent grade of each item."""
    from care_ops.aggregators.votes import modal_grade

    return modal_grade(values)


def labels_of(views, cases: Sequence[Case], old, new, commit: str) -> list[str]:
    """Mean order over the draws by view and number of labels, and the mean over the families of data."""
    lines = [f"| view | {' | '.join(f'{m} labels: {commit}, now' for m in LABELS)} |", "|---" * (len(LABELS) + 1) + "|"]
    by_family: dict[str, list[Array]] = {}
    for view, a, b in zip(views, old, new, strict=True):
        parts = [(np.mean(a[at : at + DRAWS]), np.mean(b[at : at + DRAWS])) for at in range(1, len(a), DRAWS)]
        lines.append(f"| {view.name} | {' | '.join(f'{x:.3f}, {y:.3f}' for x, y in parts)} |")
        by_family.setdefault(view.family, []).append(np.array(parts))
    means = np.mean([np.mean(parts, axis=0) for parts in by_family.values()], axis=0)
    apart = np.concatenate([np.array(parts) for parts in by_family.values()])
    worst = (apart[:, :, 1] - apart[:, :, 0]).min(axis=0)
    lines.append(f"| mean of families of data | {' | '.join(f'{x:.4f}, {y:.4f}' for x, y in means)} |")
    return [*lines, f"| worst view, now less {commit} | {' | '.join(f'{w:+.3f}' for w in worst)} |"]


def ordinary_table(before: Path, commit: str, folder: Path, draws: int) -> list[str]:
    """Mean order on ordinary panels, without labels and with."""
    cases = list(ordinary(draws))
    old, new = (np.array(orders) for orders in both(cases, before, folder / "ordinary"))
    mean = np.array([case.mean() for case in cases])
    lines = [
        "| labels | mean of the judges | " + f"{commit} | now | now, 5 % of draws below |",
        "|---|---|---|---|---|",
    ]
    for k, m in enumerate((0, *LABELS)):
        low = np.quantile(new[:, k], 0.05)
        lines.append(f"| {m} | {mean[:, k].mean():.3f} | {old[:, k].mean():.3f} | {new[:, k].mean():.3f} | {low:.3f} |")
    return lines


def main() -> None:
    """Answer, measure, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.before")
    parser.add_argument("--commit", default=BEFORE, help="the earlier commit")
    parser.add_argument("--draws", type=int, default=ORDINARY, help="of ordinary panels")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer is not None:
        answer_all(given.answer)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = checkout(given.commit, folder / "checkout")
        labels = ordinary_table(before, given.commit, folder, given.draws)
        lines = [
            f"# `care` beside commit {given.commit}",
            "",
            "Written by `make bench-before`; the docstring of `benchmarks/studies/before.py` has the design. AUC, or",
            "Kendall's tau with ties broken at random where gold is graded.",
            "",
            f"## Ordinary panels, {given.draws} draws: tau on the items without a label",
            "",
            *labels,
            "",
            "## Recorded panels without labels",
            "",
            *declarations(before, given.commit, folder),
            "",
        ]
    RESULT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
