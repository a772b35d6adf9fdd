"""Which factor or order of states probes point ``care_svd`` and ``care_tensor`` to: ``make bench-probe-factor``.

The rule before this study took the factor with the largest d' and harmed ``procedures`` (.361 to .056 with eleven
judges). A look at the factors there said why. With eleven judges no factor responds: d' is -.10 and .05, and the larger
is taken for being the larger. With all judges a factor of long sentences falls by 2.5 standard deviations where
sentences are exchanged, which is what the exchange does to their length; one gross kind decides.

Design, written before any of its figures was seen
--------------------------------------------------
``d'``                   the rule before: the strong factor of the largest d'
``surely greater d'``    the same, if its d' exceeds that of the leading factor in 97.5 % of 200 resamples of items
``nearest``              the strong factor whose score correlates most with the score by the probes' own weights
``nearest of all``       the same among all factors, as labels choose
``own weights``          of ``care_tensor`` alone: states are ordered by their means under the probes' own weights

Every rule leaves the leading factor where probes say nothing, and where no factor has a positive merit. ``nearest`` was
thought of while looking at the factors of the reported rows (probes of seed 0); so the choice is made on others:
the demo and ``procedures`` from three other seeds of their generators, with twelve judges and with all, probed with
seeds 10 and 11; and 60 simulated panels for each of three strengths of style, seeds from 1000 on.

Decision, for each of the two aggregators: the rule with the largest mean gain over the rows, of those that on no row
lose more than .01 on average; if every rule does, the one whose greatest loss is least.

What came of it: ``care_svd`` takes ``nearest``, whose greatest loss is .053 (that of d' .204), and ``care_tensor``
``nearest of all``, which loses nowhere.

Belongs here: this choice. Belongs elsewhere: what probes are worth (``studies.probes``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_svd import fit_structure
from care_ops.aggregators.care_tensor import CareTensor, Fitted
from care_ops.config import StructureConfig
from care_ops.errors import FitError
from care_ops.models import mixture
from care_ops.models.probes import ORDINARY_NUISANCE, FallsAndMoves, measured, nearness
from care_ops.moments.state import accumulate
from care_ops.probes import ProbeResponses
from care_ops.scores import ScoreMatrix
from care_ops.structure.factors import Factors, extract
from tests.support.probed_draws import Probing, item_id, probed_panel
from tests.support.probed_sets import DEMO_JUDGES, generated_set

Array = NDArray[np.float64]
Measure = Callable[[Array], float]

DRAWS, FIRST_SEED, STYLES = 60, 1000, (0.4, 0.8, 1.2)
GENERATORS, PROBE_SEEDS = (1, 2, 3), (10, 11)
RESAMPLES = 200
RULES = ("d'", "surely greater d'", "nearest", "nearest of all", "own weights")


def directions(factors: Factors, evidence: FallsAndMoves, judges: Array) -> dict[str, Array]:
    """The direction by which each rule orders items or states, shape (p,)."""
    strong = factors.candidates()
    leading = factors.directions[:, 0]
    merit = discriminability(evidence, factors.directions, judges)
    by_merit = int(strong[np.argmax(merit[strong])])
    own = evidence.own_weights()
    follows = nearness(evidence, factors.directions, judges)
    nearest, of_all = int(strong[np.argmax(follows[strong])]), int(np.argmax(follows))
    own_direction = np.zeros(len(leading))
    own_direction[evidence.asked] = own
    sure = by_merit != 0 and merit[by_merit] > 0 and surely_greater(factors, evidence, judges, by_merit)
    return {
        "d'": factors.directions[:, by_merit] if merit[by_merit] > 0 else leading,
        "surely greater d'": factors.directions[:, by_merit] if sure else leading,
        "nearest": factors.directions[:, nearest] if follows[nearest] > 0 else leading,
        "nearest of all": factors.directions[:, of_all] if follows[of_all] > 0 else leading,
        "own weights": own_direction if own.any() else leading,
    }


def discriminability(evidence: FallsAndMoves, directions: Array, judges: Array) -> Array:
    """d' of each direction: its mean fall over the root of its mean square move and of the ordinary nuisance."""
    asked = judges[:, evidence.asked]
    scores = directions[evidence.asked] / np.maximum((asked @ directions[evidence.asked]).std(axis=0), 1e-12)
    falls, moves = np.nan_to_num(evidence.falls) @ scores, np.nan_to_num(evidence.moves) @ scores
    spoilt, kept = ~np.isnan(evidence.falls).all(axis=2), ~np.isnan(evidence.moves).all(axis=2)
    return falls[spoilt].mean(axis=0) / np.sqrt((moves[kept] ** 2).mean(axis=0) + ORDINARY_NUISANCE)


def surely_greater(factors: Factors, evidence: FallsAndMoves, judges: Array, chosen: int) -> bool:
    """Whether a factor's d' exceeds that of the leading one in 97.5 % of the resamples."""
    rng = np.random.default_rng(0)
    pair = factors.directions[:, [0, chosen]]
    greater = 0
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(evidence.falls), len(evidence.falls))
        merit = discriminability(
            replace(evidence, falls=evidence.falls[rows], moves=evidence.moves[rows]), pair, judges
        )
        greater += int(merit[1] > merit[0])
    return greater >= 0.975 * RESAMPLES


def log_odds(fitted: Fitted, direction: Array) -> Array:
    """log-odds of the upper half of the states, ordered by their means along a direction."""
    score = fitted.means @ direction
    upper = np.zeros(len(score), dtype=bool)
    upper[np.argsort(score, kind="stable")[len(score) // 2 :]] = True
    return mixture.log_sum(fitted.log_joint[:, upper]) - mixture.log_sum(fitted.log_joint[:, ~upper])


def gains(scores: ScoreMatrix, told: list[ProbeResponses], measure: Measure) -> Array:
    """Figure without probes and gain by each rule, of ``care_svd`` and ``care_tensor``, shape (2, 1 + rules)."""
    moments = accumulate(scores.values)
    structure = fit_structure(moments, StructureConfig(), scores.judges)[0]
    problem = Problem(scores, moments, structure, np.random.default_rng(0))
    factors = extract(structure.low_rank, problem.correlation)
    fitted = CareTensor().states(problem).fitted
    z = np.nan_to_num(problem.standardised)
    leading = factors.directions[:, 0]
    before = np.array([measure(z @ leading), measure(log_odds(fitted, leading))])
    gained = np.zeros((2, len(RULES)))
    for probes in told:
        evidence = measured(probes.of_judges(scores.judges), problem.scale)
        if evidence is None or evidence.signal == 0:
            continue
        for k, direction in enumerate(directions(factors, evidence, z).values()):
            after = np.array([measure(z @ direction), measure(log_odds(fitted, direction))])
            gained[:, k] += (after - before) / len(told)
    return np.column_stack([before, gained])


def rows() -> Iterator[tuple[str, Array]]:
    """A name and the gains of each row of the table."""
    for name in ("demo", "procedures"):
        for seed in GENERATORS:
            panel = generated_set(name, seed)
            twelve = panel.of_judges([judge for judge in DEMO_JUDGES if judge in panel.scores.judges])
            for of_judges in (twelve, panel):
                probes = [of_judges.probes(seed=of_probes) for of_probes in PROBE_SEEDS]
                label = f"{name} {seed}, {len(of_judges.scores.judges)} judges"
                yield label, gains(of_judges.scores, probes, of_judges.measure)
    for style in STYLES:
        yield f"simulated, style {style}", simulated(style)


def simulated(style: float) -> Array:
    """Mean gains over draws in correlation with quality; draws without any factor are left out."""
    by_draw: list[Array] = []
    for seed in range(FIRST_SEED, FIRST_SEED + DRAWS):
        draw = probed_panel(np.random.default_rng([seed, 31]), Probing(), style=style)
        scores = ScoreMatrix(draw.scores, tuple(item_id(k) for k in range(len(draw.scores))), draw.probes.judges)
        try:
            by_draw.append(gains(scores, [draw.probes], lambda s, q=draw.quality: float(np.corrcoef(s, q)[0, 1])))
        except FitError as error:
            print(f"left out: seed {seed}: {error}", file=sys.stderr)
    return np.mean(by_draw, axis=0)


def main() -> None:
    """Print the gains over the leading factor, a table for each aggregator."""
    argparse.ArgumentParser(description=main.__doc__).parse_args()
    tables: tuple[list[str], list[str]] = ([], [])
    with threadpool_limits(limits=1, user_api="blas"):
        for name, figures in rows():
            for lines, of_aggregator in zip(tables, figures, strict=True):
                lines.append(f"| {name} | " + " | ".join(f"{figure:.3f}" for figure in of_aggregator) + " |")
            print(tables[0][-1], tables[1][-1], file=sys.stderr, flush=True)
    for aggregator, lines in zip(("care_svd", "care_tensor"), tables, strict=True):
        print(f"\n| {aggregator}: gain over the leading factor | leading | " + " | ".join(RULES) + " |")
        print("|---" * (len(RULES) + 2) + "|")
        print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
