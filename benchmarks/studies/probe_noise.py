"""How far an answer may follow probes whose responses are hardly more than noise: ``make bench-probe-noise``.

The table over the declared sets (``studies.probes``) asks that probes never cost more than .01. FRANK lost .013 on one
of its four seeds: no program there sees the article that its gold is about, so that what moves a score from one summary
to another is chance, and on that seed the largest of 17 chances passed a test at 5 % by a hair (2.98 standard errors
for 2.97). The answer then followed that judge by the share of the responses that was not noise on average, .19.

Design, written before any of its figures was seen
--------------------------------------------------
The answer is (1 - s) times `care` without probes plus s times the mean over the hypotheses as probes weigh them. The
candidates are rules for s:

``now``       zero unless a judge surely falls (5 %, Bonferroni), else the share of the mean falls that is not noise
``bagged``    the mean of ``now`` over 50 resamples of the items
``flipped``   1 - q / S, at least zero: S is the sum over judges of the squared t of those that fall, and q its 95 %
              quantile over 999 random signs of the items, which keep what judges share and how heavy their tails are
``held out``  how surely the probes' own weights order items that they were not made from: the lower end of the 95 %
              interval of the mean log-likelihood gained over chance, in units of that mean, at least zero
``bayes``     posterior probability, from one half, that judges respond at all: mean falls are normal with a variance
              that is estimated, against a variance of zero

Panels: those of ``studies.probes`` without responses, as they are and where versions are other items' answers, with
normal noise and with heavy tails (400 draws each, quality of `care` without probes between fair and good: style .2 to
.8); and those of ``studies.probes`` with responses, 200 draws. All draws are others than those that are reported (seeds
from 1000 on). Generated corpora: the demo and ``procedures`` from three other seeds of their generators each, with
twelve judges and with all, probed with seeds 10 to 13, with 60 items and with 15. No set of the declared table is used
but through these generators, and no seed of it.

Decision: of the candidates whose 1 % quantile of gain is at least -.01 on each kind of panel without responses, the one
with the largest mean gain over all panels and corpora with responses. If none is: the one with the least harm.

Amendment, written when the figures above were known but not those of what it adds. A judge whose score falls by next to
nothing, but always, has a large t; the answer must not follow it. Added are panels on which one judge that is blind to
quality loses .03 standard deviations by every exchanged fact and nothing else responds (``a trace``), and a candidate:

``flipped, sd``  as ``flipped``, of squared mean falls in standard deviations of the judges in place of squared t

The decision stays as it is, over all panels and candidates.

What came of it: ``flipped``, ``flipped, sd`` and ``held out`` alone lose less than .01 at the 1 % quantile on the first
three panels. A trace misleads every rule (``now`` .078, ``flipped`` .215, ``held out`` .167), and ``flipped, sd`` least
(.037), with .193 of gain on average for .202 now. It is the one in use.

Belongs here: this choice. Belongs elsewhere: what probes are worth (``studies.probes``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care import candidates_of
from care_ops.aggregators.defensible import defensible
from care_ops.least import LEAST_ITEMS
from care_ops.models.probes import FallsAndMoves, doubted, measured, unit_variance, weigh
from care_ops.moments.state import accumulate
from care_ops.probes import ProbeResponses
from care_ops.scores import ScoreMatrix
from tests.support.probed_draws import ProbedDraw, Probing, item_id, probed_panel
from tests.support.probed_sets import DEMO_JUDGES, ProbedSet, generated_set

Array = NDArray[np.float64]
Rule = Callable[[FallsAndMoves, Array], float]

NULL_DRAWS, DRAWS, FIRST_SEED = 400, 200, 1000
NULL_STYLES = (0.2, 0.4, 0.8)
GENERATORS = (1, 2, 3)
PROBE_SEEDS = (10, 11, 12, 13)
SIZES = (60, 15)
RESAMPLES, FLIPS = 50, 999
TRACE = 0.03
FOLDS = 5

NULLS = {
    "no response": Probing(respond=False),
    "no response, other answers": Probing(respond=False, exchanged=True),
    "no response, other answers, heavy tails": Probing(respond=False, exchanged=True, heavy_tails=True),
}
RESPONDING = {
    "true": Probing(),
    "true, other answers": Probing(exchanged=True),
    "true, 15 items": Probing(items=15, exchanged=True),
    "a small loss": Probing(loss=0.15, exchanged=True),
    "gross": Probing(gross=1.5),
    "a dress costs as much as a fact": Probing(dress_costs=0.7),
    "a dress costs three times that": Probing(dress_costs=2.0),
    "spoilt versions lose .7 sd of each style": Probing(betrays=0.7),
    "spoilt versions lose 1.5 sd of each style": Probing(betrays=1.5),
}


def by_item(evidence: FallsAndMoves) -> Array:
    """Mean fall over the kinds of an item, shape (items, judges); 0 where there is none."""
    present = ~np.isnan(evidence.falls)
    return np.where(present, evidence.falls, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)


def now(evidence: FallsAndMoves, _: Array) -> float:
    """The rule before this study."""
    present = ~np.isnan(evidence.falls).all(axis=1)
    falls, count = by_item(evidence), present.sum(axis=0)
    mean = falls.sum(axis=0) / np.maximum(count, 1)
    squares = np.where(present, (falls - mean) ** 2, 0.0).sum(axis=0)
    error = np.sqrt(squares / np.maximum(count - 1, 1) / np.maximum(count, 1))
    known = (count >= LEAST_ITEMS) & (error > 0)
    surely = norm.ppf(1 - 0.05 / (2 * max(int(known.sum()), 1)))
    if not (mean[known] > surely * error[known]).any():
        return 0.0
    size = float((mean**2).sum())
    return max(0.0, 1.0 - float((error**2).sum()) / size) if size > 0 else 0.0


def bagged(evidence: FallsAndMoves, covariance: Array) -> float:
    """The mean of ``now`` over resamples of the items."""
    rng = np.random.default_rng(0)
    total = 0.0
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(evidence.falls), len(evidence.falls))
        total += now(FallsAndMoves(evidence.asked, evidence.falls[rows], evidence.moves[rows]), covariance)
    return total / RESAMPLES


def flipped(evidence: FallsAndMoves, _: Array) -> float:
    """One less the 95 % quantile of the sum of squared falls under random signs, over that sum."""
    falls = by_item(evidence)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (FLIPS, len(falls)))
    squares = (falls**2).sum(axis=0)

    def size(sums: Array) -> Array:
        spread = np.sqrt(np.maximum(squares - sums**2 / len(falls), 1e-300))
        return (np.maximum(sums / spread, 0.0) ** 2 * (squares > 0)).sum(axis=-1)

    size_here = float(size(falls.sum(axis=0)))
    return max(0.0, 1.0 - float(np.quantile(size(signs @ falls), 0.95)) / size_here) if size_here > 0 else 0.0


def held_out(evidence: FallsAndMoves, covariance: Array) -> float:
    """The lower end of the interval of what held-out items gain over chance, over the mean."""
    falls = by_item(evidence)
    fold = np.arange(len(falls)) % FOLDS
    gained = np.zeros(len(falls))
    for k in range(FOLDS):
        weights = unit_variance(evidence.own_weights(fold != k), covariance)
        gained[fold == k] = log_ndtr(falls[fold == k] @ weights) - np.log(0.5)
    mean, error = float(gained.mean()), float(gained.std(ddof=1)) / np.sqrt(len(gained))
    return max(0.0, 1.0 - norm.ppf(0.975) * error / mean) if mean > 0 else 0.0


def bayes(evidence: FallsAndMoves, _: Array) -> float:
    """Posterior probability that judges respond, with the variance of mean falls at its likeliest."""
    falls = by_item(evidence)
    mean, error = falls.mean(axis=0), falls.std(axis=0, ddof=1) / np.sqrt(len(falls))
    mean, error = mean[error > 0], error[error > 0]
    variances = np.geomspace(1e-4, 10.0, 60)[:, None] + error**2
    log_factor = norm.logpdf(mean, scale=np.sqrt(variances)).sum(axis=1) - norm.logpdf(mean, scale=error).sum()
    return float(1.0 / (1.0 + np.exp(-np.clip(log_factor.max(), -500, 500))))


def flipped_sd(evidence: FallsAndMoves, _: Array) -> float:
    """As ``flipped``, in standard deviations of the judges."""
    falls = by_item(evidence)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (FLIPS, len(falls)))
    size_here = float((np.maximum(falls.mean(axis=0), 0.0) ** 2).sum())
    by_chance = (np.maximum(signs @ falls / len(falls), 0.0) ** 2).sum(axis=1)
    return max(0.0, 1.0 - float(np.quantile(by_chance, 0.95)) / size_here) if size_here > 0 else 0.0


RULES: dict[str, Rule] = {
    "now": now,
    "bagged": bagged,
    "flipped": flipped,
    "flipped, sd": flipped_sd,
    "held out": held_out,
    "bayes": bayes,
}


def answers(scores: ScoreMatrix, probes: ProbeResponses) -> tuple[Array, dict[str, Array]]:
    """``care`` without probes, and the answer by each rule."""
    problem = Problem(scores, accumulate(scores.values), None, np.random.default_rng(0), probes=probes)
    hypotheses = candidates_of(defensible(problem)).hypotheses
    without = next(h.score for h in hypotheses if h.name == "care")
    evidence = measured(problem.panel_probes, problem.scale)
    if evidence is None:
        return without, dict.fromkeys(RULES, without)
    z = np.nan_to_num(problem.standardised)
    told = weigh(hypotheses, evidence, z)
    asked = z[:, evidence.asked]
    by_rule: dict[str, Array] = {}
    for name, rule in RULES.items():
        share = rule(evidence, asked.T @ asked / len(asked))
        by_rule[name] = np.sum([h.prior * h.score for h in doubted(told, share, {"care": 1.0})], axis=0)
    return without, by_rule


def with_trace(draw: ProbedDraw) -> ProbedDraw:
    """The draw with facts exchanged alone, on which the judge that follows quality least always falls a little."""
    judge = int(np.argmin(draw.loadings[:, 0]))
    is_kept = np.array([kind != "other" for kind in draw.probes.kinds])
    facts = np.array([{"one": 1.0, "three": 3.0}.get(kind, 0.0) for kind in draw.probes.kinds])
    changes = draw.probes.changes.copy()
    changes[facts > 0, judge] = -TRACE * draw.scores[:, judge].std() * facts[facts > 0]
    kept = np.flatnonzero(is_kept)
    item_ids, kinds = (tuple(names[k] for k in kept) for names in (draw.probes.item_ids, draw.probes.kinds))
    probes = ProbeResponses(item_ids, kinds, draw.probes.spoils, draw.probes.judges, changes[is_kept])
    return replace(draw, probes=probes)


def simulated(probing: Probing, draws: int, styles: tuple[float, ...], *, trace: bool = False) -> Array:
    """Gain by each rule in correlation with quality, shape (draws, rules)."""
    gains: list[list[float]] = []
    for seed in range(FIRST_SEED, FIRST_SEED + draws):
        rng = np.random.default_rng([seed, 20])
        draw = probed_panel(rng, probing, style=float(rng.choice(styles)))
        draw = with_trace(draw) if trace else draw
        scores = ScoreMatrix(draw.scores, tuple(item_id(k) for k in range(len(draw.scores))), draw.probes.judges)
        without, told = answers(scores, draw.probes)
        reference = float(np.corrcoef(without, draw.quality)[0, 1])
        gains.append([float(np.corrcoef(told[name], draw.quality)[0, 1]) - reference for name in RULES])
    return np.array(gains)


def corpora() -> Iterator[tuple[str, ProbedSet]]:
    """Generated corpora from other seeds than the declared ones, with twelve judges and with all."""
    for name in ("demo", "procedures"):
        for seed in GENERATORS:
            panel = generated_set(name, seed)
            twelve = [judge for judge in DEMO_JUDGES if judge in panel.scores.judges]
            yield f"{name} {seed}, {len(twelve)} judges", panel.of_judges(twelve)
            yield f"{name} {seed}, {len(panel.scores.judges)} judges", panel


def generated(panel: ProbedSet, items: int) -> Array:
    """Gain by each rule in Kendall's tau, shape (seeds, rules)."""
    gains: list[list[float]] = []
    for seed in PROBE_SEEDS:
        without, told = answers(panel.scores, panel.probes(seed=seed, items=items))
        gains.append([panel.measure(told[name]) - panel.measure(without) for name in RULES])
    return np.array(gains)


def show(name: str, gains: Array, quantile: float) -> None:
    """Print the mean gain and a low quantile of it by each rule."""
    low = np.quantile(gains, quantile, axis=0)
    cells = [f"{mean:.3f} ({least:.3f})" for mean, least in zip(gains.mean(axis=0), low, strict=True)]
    print("| " + " | ".join([name, *cells]) + " |", flush=True)


def main() -> None:
    """Print both tables and the mean over what responds."""
    argparse.ArgumentParser(description=main.__doc__).parse_args()
    with threadpool_limits(limits=1, user_api="blas"):
        print("| panels without responses: gain, 1 % quantile | " + " | ".join(RULES) + " |")
        print("|---" * (len(RULES) + 1) + "|")
        for name, probing in NULLS.items():
            show(name, simulated(probing, NULL_DRAWS, NULL_STYLES), 0.01)
        show("a trace", simulated(NULLS["no response"], NULL_DRAWS, NULL_STYLES, trace=True), 0.01)
        print("\n| with responses: gain, 5 % quantile | " + " | ".join(RULES) + " |")
        print("|---" * (len(RULES) + 1) + "|")
        means: list[Array] = []
        for name, probing in RESPONDING.items():
            gains = simulated(probing, DRAWS, (0.4, 0.8, 1.2))
            show(name, gains, 0.05)
            means.append(gains.mean(axis=0))
        for name, panel in corpora():
            for items in SIZES:
                gains = generated(panel, items)
                show(f"{name}, {items} items", gains, 0.0)
                means.append(gains.mean(axis=0))
        show("mean over the rows", np.array(means), 0.0)


if __name__ == "__main__":
    sys.exit(main())
