"""Recorded panels with gold from CARE_DATA_DIR, and measures of an estimator on all panels.

Each folder has ``items.parquet`` and ``scores.parquet`` (a long table). Some folders are analysed as several views, and
each other folder as one view.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from care_ops.admission import check_panel
from care_ops.aggregators.base import Problem
from care_ops.config import LABEL_FREE, AdmissionRule, FitConfig
from care_ops.fit import try_structure
from care_ops.metrics import auc, tau
from care_ops.moments.state import accumulate
from care_ops.results.interpret import counted
from care_ops.scales import share_scale
from care_ops.scores import ScoreMatrix, content_seed
from warehouse.sources.files import read_scores

Array = NDArray[np.float64]

SPLIT_UNITS = {
    "care_asset": "example_index",
    "hanna": "prompt_id",
    "prd_vicuna80": "question_id",
    "triviaqa_judges_v1": "question_id",
}

SINGLE_STAGE = ("Vanilla", "Vanilla_NoRules", "CoT", "Metrics", "Reference", "Metrics_Reference")

CUTS = {"care_civilcomments": 4.5}
SCALES = {"care_asset": (0.0, 100.0), "care_civilcomments": (0.0, 9.0), "hanna": (1.0, 5.0), "frank": None}
"""Declared scales of the folders."""

FRANK_FAMILIES = {
    "overlap": ("Rouge 1", "Rouge 2", "Rouge L", "Bleu", "Meteor"),
    "bertscore": ("BertScore P", "BertScore R", "BertScore F1"),
    "bertscore-article": ("BertScore P Art", "BertScore R Art", "BertScore F1 Art"),
    "entailment": ("FactCC", "FEQA", "Dep Entail", "QAGS"),
}


@dataclass(frozen=True)
class View:
    """Recorded panel, or a part of its judges or items, for analysis.

    Attributes
    ----------
    family : str
        Name of the folder; views of one folder are not independent evidence.
    name : str
    scores : ScoreMatrix
        The scores, with the judges' declared families.
    gold : (n,) array
        Gold label of each item, without NaN.
    units : (n,) array
        Split unit of each item.
    binary : bool
        Whether gold is binary, so that AUC measures order; otherwise Kendall's tau does.
    """

    family: str
    name: str
    scores: ScoreMatrix
    gold: Array
    units: NDArray[np.str_]
    binary: bool

    def measure(self, estimate: Array, rows: NDArray[np.bool_] | None = None) -> float:
        """Return AUC or tau-b over the items (all by default); an item without an estimate counts as the mean."""
        filled = np.where(np.isnan(estimate), np.nanmean(estimate), estimate)
        e, g = (filled, self.gold) if rows is None else (filled[rows], self.gold[rows])
        order = auc(e, g) if self.binary else tau(e, g)
        return float("nan") if self.binary and order is None else order or 0.0


def views(folder: Path | None = None) -> list[View]:
    """Yield all views of all folders with gold and scores."""
    root = folder or Path(os.environ["CARE_DATA_DIR"])
    all_views: list[View] = []
    for path in sorted(p for p in root.iterdir() if (p / "scores.parquet").exists()):
        all_views.extend(_views_of(path))
    return all_views


def _views_of(path: Path) -> list[View]:
    items = pq.read_table(path / "items.parquet").to_pydict()
    name = path.name
    gold = np.array([np.nan if g is None else g for g in items["gold"]], dtype=float)
    if np.isnan(gold).all():
        return []
    units = np.array([str(u) for u in items[SPLIT_UNITS.get(name, "item_id")]])
    long = pq.read_table(path / "scores.parquet", columns=["item_id", "judge", "score"])

    def view(label: str, *, keep: NDArray[np.bool_] | None = None, judges: Callable[[str], bool] = bool) -> View:
        return _view(name, label, items["item_id"], gold, units, long, keep, judges)

    if name == "llmbar":
        subset = np.array(items["subset"])
        adversarial = np.array([s.startswith("Adversarial") for s in subset])
        thirty_six = _single_stage(("GPT-4", "ChatGPT", "ChatGPT-0301", "LLaMA2", "PaLM2", "Falcon"))
        thirty = _single_stage(("ChatGPT", "ChatGPT-0301", "LLaMA2", "PaLM2", "Falcon"))
        return [
            view("llmbar 36", judges=thirty_six),
            view("llmbar 36 adversarial", keep=adversarial, judges=thirty_six),
            view("llmbar 36 natural", keep=~adversarial, judges=thirty_six),
            view("llmbar 30", judges=thirty),
            view("llmbar 30 adversarial", keep=adversarial, judges=thirty),
            view("llmbar 65"),
        ]
    if name == "hanna":
        criterion = np.array(items["criterion"])
        return [view(f"hanna {c}", keep=criterion == c) for c in sorted(set(items["criterion"]))]
    if name == "prd_vicuna80":
        by_order = pq.read_table(path / "scores_by_order.parquet").to_pydict()
        joined = {
            "item_id": by_order["item_id"],
            "judge": [f"{j}/{o}" for j, o in zip(by_order["judge"], by_order["order"], strict=True)],
            "score": by_order["score"],
        }
        decided = gold != 0.5
        binary = np.where(np.isnan(gold), np.nan, (gold > 0.5).astype(float))
        both = _view(name, "prd x order", items["item_id"], binary, units, joined, decided, bool)
        return [_view(name, "prd", items["item_id"], binary, units, long, decided, bool), both]
    if name == "frank":
        dataset = np.array(items["dataset"])
        return [view("frank"), *(view(f"frank {d}", keep=dataset == d) for d in sorted(set(items["dataset"])))]
    return [view(name)]


def _single_stage(models: Sequence[str]) -> Callable[[str], bool]:
    wanted = {f"{model}/{prompt}" for model in models for prompt in SINGLE_STAGE}
    return lambda judge: judge in wanted


def _view(
    family: str,
    label: str,
    item_ids: Sequence[str],
    gold: Array,
    units: NDArray[np.str_],
    long: object,
    keep: NDArray[np.bool_] | None,
    judges: Callable[[str], bool],
) -> View:
    columns: Mapping[str, Sequence[object]] = long if isinstance(long, dict) else long.to_pydict()  # type: ignore[attr-defined]
    kept = ~np.isnan(gold) if keep is None else keep & ~np.isnan(gold)
    row = {item: k for k, item in enumerate(np.array(item_ids)[kept])}
    names = sorted({str(j) for j in columns["judge"] if judges(str(j))})
    place = {judge: k for k, judge in enumerate(names)}
    values = np.full((len(row), len(names)), np.nan)
    for item, judge, score in zip(columns["item_id"], columns["judge"], columns["score"], strict=True):
        if item in row and judge in place and score is not None:
            values[row[item], place[str(judge)]] = score  # type: ignore[call-overload]
    varied = np.array([len(np.unique(c[~np.isnan(c)])) > 1 for c in values.T])
    names = [judge for judge, v in zip(names, varied, strict=True) if v]
    scores = ScoreMatrix(values[:, varied], tuple(row), tuple(names), {j: declared_family(family, j) for j in names})
    kept_gold = gold[kept]
    return View(family, label, scores, kept_gold, units[kept], bool(np.isin(kept_gold, (0.0, 1.0)).all()))


def declared_family(folder: str, judge: str) -> str:
    """Return the family of a judge: the base model or vendor in its name."""
    if folder == "frank":
        return next(f for f, members in FRANK_FAMILIES.items() if judge in members)
    if folder == "dices350":
        return judge  # people
    if "/" in judge and folder in ("llmbar", "hanna", "prd_vicuna80"):
        model = judge.split("/")[0]
        return "ChatGPT" if model.startswith("ChatGPT") and folder == "llmbar" else model
    vendor = judge.removeprefix("Meta-").split("-")[0].lower()
    return vendor.rstrip("0123456789.") or vendor


def supervised(view: View) -> float:
    """Measure ``cross_fitted``, as an estimate of what is possible with labels."""
    return view.measure(cross_fitted(view))


def cross_fitted(view: View, folds: int = 5, seed: int = 0) -> Array:
    """Predict gold by a ridge regression on the scores, cross-fitted by split unit, shape (n,)."""
    values = view.scores.values
    mean, sd = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    z = np.nan_to_num((values - mean) / np.where(sd > 0, sd, 1.0))
    distinct = np.unique(view.units)
    fold_of_unit = dict(zip(distinct, np.random.default_rng(seed).permutation(len(distinct)) % folds, strict=True))
    fold_of_item = np.array([fold_of_unit[u] for u in view.units])
    predicted = np.zeros(len(z))
    for k in range(folds):
        train, test = fold_of_item != k, fold_of_item == k
        predicted[test] = ridge(z[train], view.gold[train], z[test])
    return predicted


def ridge(x: Array, y: Array, new: Array) -> Array:
    """Fit a ridge regression; the penalty minimises the generalised cross-validation error."""
    centre, level = x.mean(axis=0), y.mean()
    u, s, vt = np.linalg.svd(x - centre, full_matrices=False)
    projected = u.T @ (y - level)
    best, answer = np.inf, np.zeros(len(new))
    for penalty in np.geomspace(1e-2, 1e5, 29):
        shrink = s**2 / (s**2 + penalty)
        residual = y - level - u @ (shrink * projected)
        error = float(residual @ residual) / (len(y) - 1 - shrink.sum()) ** 2
        if error < best:
            best = error
            coefficient = vt.T @ (np.where(s > 0, s / (s**2 + penalty), 0.0) * projected)
            answer = level + (new - centre) @ coefficient
    return answer


@dataclass(frozen=True)
class PreparedView:
    """View with its admitted judges in canonical order, and the problem that the aggregators solve."""

    view: View
    problem: Problem

    @property
    def name(self) -> str:
        return self.view.name


def prepare(view: View) -> PreparedView:
    """Admit judges, sort items and judges, and compute moments and structure."""
    admitted = [c.judge for c in check_panel(view.scores, AdmissionRule()) if c.admitted]
    scores = view.scores.select_judges(tuple(sorted(admitted)))
    order = np.argsort(np.array(scores.item_ids), kind="stable")
    scores = scores.canonical()
    view = View(view.family, view.name, scores, view.gold[order], view.units[order], view.binary)
    moments = accumulate(scores.values)
    config = FitConfig(
        aggregators=LABEL_FREE,
        cut=CUTS.get(view.family, 0.5 if view.binary else None),
        scale=SCALES.get(view.family, (0.0, 1.0)),
    )
    structure, _, _ = try_structure(moments, config.structure, scores.judges)
    rng = np.random.default_rng(content_seed(scores))
    return PreparedView(view, Problem(scores, moments, structure, rng, config))


def recorded_correlation(folder: Path) -> Array:
    """Return the pairwise-complete correlation of a folder of recorded scores."""
    return accumulate(read_scores(folder / "scores.parquet").scores.values).correlation()


PANELS = (
    "care_asset",
    "care_civilcomments",
    "dices350",
    "frank bbc",
    "frank cnndm",
    "hanna Complexity",
    "hanna Relevance",
    "llmbar 36 adversarial",
    "llmbar 30 adversarial",
    "llmbar 36 natural",
    "llmbar 65",
    "prd",
    "triviaqa_judges_v1",
)
"""Thirteen panels of nine data sets, which decided the defaults of ``care``."""

NEARLY_BEST, WORST = 0.02, -0.005
"""Largest gain of a regression at which the average counts as nearly the best, and largest permitted loss."""

_TEXTS = {
    "care_asset": ("simplification",),
    "care_civilcomments": ("text",),
    "dices350": ("response",),
    "frank": ("response",),
    "llmbar": ("response_1", "response_2"),
    "prd_vicuna80": ("response_1", "response_2"),
}
"""Columns of the items with the judged text, or with both answers of a pair."""


@dataclass(frozen=True)
class Panel:
    """Recorded panel: its view, the texts of its items by role, and the plain average."""

    view: View
    texts: Mapping[str, Sequence[str]]
    plain: Array

    @property
    def name(self) -> str:
        """Name of the view."""
        return self.view.name

    def gain(self, estimate: Array, rows: np.ndarray | None = None) -> float:
        """Return the gain over the plain average, on all items or on some rows."""
        return self.view.measure(estimate, rows) - self.view.measure(self.plain, rows)

    def scores(self, *, families: bool, texts: bool) -> ScoreMatrix:
        """Return the scores with or without declared families and features of the texts."""
        features = counted(self.texts["response"], self.texts.get("response_b")) if texts and self.texts else {}
        return replace(self.view.scores, families=self.view.scores.families if families else {}, features=features)


def plain_average(values: Array) -> Array:
    """Return the mean of the scores, standardised first if the judges have different scales."""
    if not share_scale(values):
        values = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    return np.nanmean(values, axis=1)


def panels() -> Iterator[Panel]:
    """Yield the recorded panels of ``PANELS``."""
    for view in views():
        if view.name not in PANELS:
            continue
        items = pq.read_table(Path(os.environ["CARE_DATA_DIR"]) / view.family / "items.parquet").to_pydict()
        row = {item: k for k, item in enumerate(items["item_id"])}
        columns = _TEXTS.get(view.family, ())
        roles = ("response_a", "response_b") if len(columns) == 2 else ("response",)
        texts = {
            role: [items[column][row[item]] for item in view.scores.item_ids]
            for role, column in zip(roles, columns, strict=False)
        }
        if "response_a" in texts:
            texts["response"] = texts.pop("response_a")
        yield Panel(view, texts, plain_average(view.scores.values))
