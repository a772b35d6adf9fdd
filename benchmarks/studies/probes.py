"""What probes are worth: ``make bench-probes`` prints the tables of benchmarks/results/bench-probes.md.

The sets, the kinds that are declared true of them, sample sizes and seeds are those of
``tests.support.declared_probes``, which was written before any estimator that reads probes. Constants of the estimator
were chosen on other draws of the simulated panels, and how far an answer may move by ``studies.probe_noise``.

Belongs here: measuring. Belongs elsewhere: the sets (``tests.support.probed_sets``), the estimator
(``care_ops.models.probes``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.probes import NO_PROBES, ProbeResponses
from care_ops.results.drift import response_drift
from care_ops.scores import ScoreMatrix
from tests.support.declared_probes import DECLARED
from tests.support.panels import ridge
from tests.support.probed_draws import ProbedDraw, Probing, item_id, probed_panel
from tests.support.probed_sets import DEMO_JUDGES, ProbedSet, probed_set

Array = NDArray[np.float64]

SEEDS = (0, 1, 2, 3)
FOLDS = 5
LABELS = (5, 10, 20, 40, 80)
LABEL_DRAWS = 40
SIZES = (10, 15, 20, 30, 60, 120)
SIMULATIONS = 200

FURTHER_SEEDS = range(4, 44)
DRIFT_NIGHTS, MOVED = 500, (0.25, 0.5)

NOISES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal, .5 sd": lambda rng, size: 0.5 * rng.standard_normal(size),
    "heavy tails, .5 sd": lambda rng, size: 0.5 * rng.standard_t(3, size) / np.sqrt(3.0),
    "one answer in ten differs, by 1 sd": lambda rng, size: rng.choice([-1.0, 0.0, 1.0], size, p=[0.05, 0.9, 0.05]),
}
"""What is added anew to a judge's responses each night."""

SETTINGS = {
    "true": Probing(),
    "judges that see gross spoiling alone among them": Probing(gross=1.5),
    "a dress costs as much as an exchanged fact": Probing(dress_costs=0.7),
    "a dress costs three times that": Probing(dress_costs=2.0),
    "spoilt versions lose .7 sd of each style": Probing(betrays=0.7),
    "spoilt versions lose 1.5 sd of each style": Probing(betrays=1.5),
    "judges do not respond": Probing(respond=False),
}


def estimate(
    scores: ScoreMatrix, probes: ProbeResponses = NO_PROBES, anchors: Anchors | None = None, name: str = "care"
) -> Array:
    """The answer of one aggregator."""
    solve = "exactly" if name in ("care_svd", "care_tensor") else "not"
    config = FitConfig(aggregators=(name,), quality="probes" if len(probes) else "leading")
    return fit_panel(scores, config, anchors or Anchors({}), solve=solve, probes=probes).aggregates[name].estimate


def supervised(panel: ProbedSet) -> float:
    """Order by a ridge regression on all labels, cross-fitted by question."""
    values = panel.scores.values
    z = np.nan_to_num((values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0))
    questions = np.array([record.prompt or record.split_unit or record.item_id for record in panel.records])
    distinct = np.unique(questions)
    fold_of = dict(zip(distinct, np.random.default_rng(0).permutation(len(distinct)) % FOLDS, strict=True))
    fold = np.array([fold_of[question] for question in questions])
    known = ~np.isnan(panel.gold)
    predicted = np.zeros(len(z))
    for k in range(FOLDS):
        train = known & (fold != k)
        predicted[fold == k] = ridge(z[train], panel.gold[train], z[fold == k])
    return panel.measure(predicted)


def best_judge(panel: ProbedSet) -> float:
    """Order of the judge that follows gold best, as all labels show it."""
    return max(panel.measure(np.nan_to_num(column, nan=np.nanmean(column))) for column in panel.scores.values.T)


def row(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(f"{c:.3f}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def header(*names: str) -> None:
    """Print the head of a table."""
    print()
    row(*names)
    print("|---" * len(names) + "|")


def corpora() -> list[tuple[str, ProbedSet]]:
    """The generated corpora by the twelve judges of the demo and by all."""
    named: list[tuple[str, ProbedSet]] = []
    for name in ("demo", "procedures", "elements"):
        panel = probed_set(name)
        twelve = panel.of_judges([judge for judge in DEMO_JUDGES if judge in panel.scores.judges])
        named += [(f"{name}, {len(twelve.scores.judges)} judges", twelve)]
        named += [(f"{name}, {len(panel.scores.judges)} judges", panel)]
    return named


def generated() -> None:
    """Without labels, beside avg, the best judge and ridge."""
    seeds = [f"probes, seed {seed}" for seed in SEEDS]
    header(
        "corpus",
        "avg",
        "families",
        "care",
        *seeds,
        "care_svd",
        "with probes",
        "care_tensor",
        "with probes",
        "best",
        "ridge",
    )
    for name, panel in corpora():
        probes = [panel.probes(seed=seed) for seed in SEEDS]
        row(
            name,
            *(panel.measure(estimate(panel.scores, name=name)) for name in ("avg", "families", "care")),
            *(panel.measure(estimate(panel.scores, of_seed)) for of_seed in probes),
            *(
                panel.measure(estimate(panel.scores, given, name=aggregator))
                for aggregator in ("care_svd", "care_tensor")
                for given in (NO_PROBES, probes[0])
            ),
            best_judge(panel),
            supervised(panel),
        )


def declared_table() -> None:
    """Gain and harm over every declared set; the least of the four seeds is the harm."""
    header("set", "judges", "avg", "care", *(f"seed {seed}" for seed in SEEDS), "least gain", "ridge")
    for name in DECLARED:
        panel = probed_set(name)
        without = panel.measure(estimate(panel.scores))
        told = [panel.measure(estimate(panel.scores, panel.probes(seed=seed))) for seed in SEEDS]
        average = panel.measure(estimate(panel.scores, name="avg"))
        row(name, len(panel.scores.judges), average, without, *told, min(told) - without, supervised(panel))


def with_labels() -> None:
    """Few labels with and without probes, on items whose question has no label; means over draws."""
    header("corpus", "labels", "care with labels", "with labels and probes", "with probes alone")
    for name, panel in corpora():
        probes = panel.probes()
        questions = np.array([record.prompt for record in panel.records])
        alone = estimate(panel.scores, probes)
        for count in LABELS:
            measured: list[tuple[float, ...]] = []
            for draw in range(LABEL_DRAWS):
                rows = np.random.default_rng([draw, count]).choice(len(panel.gold), count, replace=False)
                anchors = Anchors({panel.scores.item_ids[k]: float(panel.gold[k]) for k in rows})
                rest = ~np.isin(questions, questions[rows]) if count <= LABELS[2] else _others(len(questions), rows)
                answers = [estimate(panel.scores, given, anchors) for given in (NO_PROBES, probes)]
                measured.append(tuple(panel.measure(answer, rest) for answer in (*answers, alone)))
            row(name, count, *map(float, np.mean(measured, axis=0)))


def _others(count: int, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """All but these rows: so many labels leave hardly a question without one."""
    others = np.ones(count, dtype=bool)
    others[rows] = False
    return others


def sizes() -> None:
    """How few items suffice; mean and least over the seeds."""
    header("corpus", *(f"{size} items" for size in SIZES))
    for name, panel in corpora():
        cells: list[str] = []
        for size in SIZES:
            told = [panel.measure(estimate(panel.scores, panel.probes(seed=seed, items=size))) for seed in SEEDS]
            cells.append(f"{np.mean(told):.3f} ({min(told):.3f})")
        row(name, *cells)


def simulated() -> None:
    """Gain over care without probes on panels with planted loadings, in correlation with quality."""
    header("probes are", "care", "gain", "5 % quantile", "with 10 labels: gain of probes", "5 % quantile")
    for name, probing in SETTINGS.items():
        measured = [_simulated_gain(probing, seed) for seed in range(SIMULATIONS)]
        without, gain, beside_labels = (np.array(column) for column in zip(*measured, strict=True))
        quantiles = (float(np.quantile(gain, 0.05)), float(np.quantile(beside_labels, 0.05)))
        row(name, float(without.mean()), float(gain.mean()), quantiles[0], float(beside_labels.mean()), quantiles[1])


def _simulated_gain(probing: Probing, seed: int) -> tuple[float, float, float]:
    rng = np.random.default_rng([seed, 20])
    draw = probed_panel(rng, probing, style=float(rng.choice([0.4, 0.8, 1.2])))
    scores = ScoreMatrix(draw.scores, tuple(item_id(k) for k in range(len(draw.scores))), draw.probes.judges)
    rows = rng.choice(len(draw.quality), 10, replace=False)
    anchors = Anchors({item_id(int(k)): float(draw.quality[k] + 0.5 * rng.standard_normal()) for k in rows})
    follows = _follower(draw)
    without = follows(estimate(scores))
    labelled = follows(estimate(scores, anchors=anchors))
    return (
        without,
        follows(estimate(scores, draw.probes)) - without,
        follows(estimate(scores, draw.probes, anchors)) - labelled,
    )


def _follower(draw: ProbedDraw) -> Callable[[Array], float]:
    return lambda answer: float(np.corrcoef(answer, draw.quality)[0, 1])


def further_seeds() -> None:
    """Harm on samples beyond the declared ones, of the sets where probes gain little: how safe the table is."""
    header("set", "seeds", "care", "least gain", "mean gain", "largest gain", "samples that change it")
    for name in ("llmbar", "prd_vicuna80", "care_asset", "frank"):
        panel = probed_set(name)
        without = panel.measure(estimate(panel.scores))
        gains = [panel.measure(estimate(panel.scores, panel.probes(seed=seed))) - without for seed in FURTHER_SEEDS]
        changed = sum(gain != 0 for gain in gains)
        row(name, len(gains), without, min(gains), float(np.mean(gains)), max(gains), changed)


def drift_alarms() -> None:
    """How often the nightly check tells of drift: on nights without any, and where one judge comes to like a dress."""
    header("noise of an answer", "false alarms", *(f"told, moved by {moved} sd" for moved in MOVED))
    for name, noise in NOISES.items():
        rates = [_alarm_rate(noise, moved) for moved in (0.0, *MOVED)]
        row(name, *(f"{rate:.4f}" for rate in rates))


def _alarm_rate(noise: Callable[[np.random.Generator, tuple[int, ...]], Array], moved: float) -> float:
    """Share of nights with an alarm, with twelve judges, six kinds and sixty items; all are asked again each night."""
    rng = np.random.default_rng(29)
    judges, kinds, items = 12, 6, 60
    names = tuple(f"j{j:02d}" for j in range(judges))
    ids = tuple(item_id(k) for k in range(items) for _ in range(kinds))
    of_kind = tuple(f"kind {k}" for _ in range(items) for k in range(kinds))
    spoils = dict.fromkeys(of_kind, False)
    shift = np.zeros((items * kinds, judges))
    shift[::kinds, 0] = moved

    def night(shifted: Array) -> ProbeResponses:
        return ProbeResponses(ids, of_kind, spoils, names, shifted + noise(rng, shift.shape))

    alarms = [
        bool(response_drift(night(np.zeros_like(shift)), night(shift), np.ones(judges))) for _ in range(DRIFT_NIGHTS)
    ]
    return float(np.mean(alarms))


TABLES = {
    "further": further_seeds,
    "drift": drift_alarms,
    "generated": generated,
    "labels": with_labels,
    "sizes": sizes,
    "simulated": simulated,
    "declared": declared_table,
}


def main() -> None:
    """Print the tables, or those that are named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("tables", nargs="*", metavar="table", help=f"any of {', '.join(TABLES)}; all by default")
    with threadpool_limits(limits=1, user_api="blas"):
        for name in parser.parse_args().tables or TABLES:
            TABLES[name]()


if __name__ == "__main__":
    sys.exit(main())
