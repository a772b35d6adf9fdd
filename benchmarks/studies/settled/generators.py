"""Corpora whose declaration of probes is true, with planted truth.

True is: what is declared to keep quality keeps it exactly, and what is declared to spoil it takes some away. Nothing is
promised of the judges: they may not respond, or fall grossly at what a blind man could see and know nothing
of the finer grades, or follow a style that spoilt versions lose.

Belongs here: the draws. Belongs elsewhere: what is measured on them (``__main__``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.probes import ProbeResponses
from care_ops.scores import ScoreMatrix
from tests.support.probed_draws import ProbedDraw, Probing, item_id, probed_panel
from tests.support.probed_sets import DEMO_JUDGES, generated_set

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Corpus:
    """Scores, the truth of each item (n,), and what the judges said of the versions."""

    scores: ScoreMatrix
    truth: Array
    probes: ProbeResponses


Kind = Callable[[int], Corpus]
"""Draws a corpus from a seed."""

_STYLES = (0.4, 0.8, 1.2)
_SPOILT = ("one", "three", "other")


def simulated(
    probing: Probing,
    *,
    styles_of: tuple[float, ...] = _STYLES,
    turned: float = 0.0,
    coarse: float = 0.0,
    vendors: int = 0,
    **size: int,
) -> Kind:
    """``probed_panel`` with a mean loading on styles drawn from ``styles_of``.

    Parameters
    ----------
    turned : float
        Share of the judges that fall as much as another one of them should: what they see of spoiling says nothing of
        what they see of finer grades.
    coarse : float
        Standard deviations by which a third of the judges fall at whatever is spoilt, beside what quality does to them.
    vendors : int
        Families, each with a taste of its own that moves all its judges; 0 for none.
    """

    def drawn(seed: int) -> Corpus:
        rng = np.random.default_rng([seed, 31])
        draw = probed_panel(rng, probing, style=float(rng.choice(styles_of)), **size)
        draw = _turned(rng, draw, turned) if turned else draw
        draw = _coarse(rng, draw, coarse) if coarse else draw
        judges = draw.probes.judges
        families = {judge: f"v{k % vendors}" for k, judge in enumerate(judges)} if vendors else {}
        if vendors:
            draw = _of_vendors(rng, draw, vendors)
        ids = tuple(item_id(k) for k in range(len(draw.scores)))
        return Corpus(ScoreMatrix(draw.scores, ids, judges, families), draw.quality, draw.probes)

    return drawn


def texts(name: str, *, judges: bool, items: int) -> Kind:
    """A generated corpus of texts from another seed of its generator, scored by the demo's programs or by all."""

    def drawn(seed: int) -> Corpus:
        panel = generated_set(name, seed)
        if judges:
            panel = panel.of_judges([judge for judge in DEMO_JUDGES if judge in panel.scores.judges])
        return Corpus(panel.scores, panel.gold, panel.probes(seed=seed, items=items))

    return drawn


def _turned(rng: np.random.Generator, draw: ProbedDraw, share: float) -> ProbedDraw:
    """So many of the judges exchange what they say of spoilt versions, in their standard deviations."""
    p = draw.scores.shape[1]
    judges = rng.choice(p, max(2, round(share * p)), replace=False)
    sd = draw.scores.std(axis=0)
    rows = np.flatnonzero([kind in _SPOILT for kind in draw.probes.kinds])
    changes = draw.probes.changes.copy()
    others = np.roll(judges, 1)
    changes[np.ix_(rows, judges)] = draw.probes.changes[np.ix_(rows, others)] / sd[others] * sd[judges]
    return replace(draw, probes=replace(draw.probes, changes=changes))


def _coarse(rng: np.random.Generator, draw: ProbedDraw, size: float) -> ProbedDraw:
    """A third of the judges fall at each spoilt version, by a size of their own for each kind."""
    judges = rng.choice(draw.scores.shape[1], draw.scores.shape[1] // 3, replace=False)
    changes = draw.probes.changes.copy()
    for kind in _SPOILT:
        rows = np.flatnonzero(np.array(draw.probes.kinds) == kind)
        falls = size * draw.scores[:, judges].std(axis=0) * rng.uniform(0.5, 1.5, len(judges))
        changes[np.ix_(rows, judges)] -= falls * rng.uniform(0.5, 1.5, (len(rows), 1))
    return replace(draw, probes=replace(draw.probes, changes=changes))


def _of_vendors(rng: np.random.Generator, draw: ProbedDraw, vendors: int) -> ProbedDraw:
    """Judges of one vendor share a taste that no probe touches."""
    taste = rng.standard_normal((len(draw.scores), vendors)) * rng.uniform(0.2, 1.2, vendors)
    of = np.arange(draw.scores.shape[1]) % vendors
    return replace(draw, scores=draw.scores + taste[:, of])


CHOSEN_ON: dict[str, Kind] = {
    "true": simulated(Probing()),
    "true, other answers": simulated(Probing(exchanged=True)),
    "15 items are probed": simulated(Probing(items=15, exchanged=True)),
    "a small loss": simulated(Probing(loss=0.15, exchanged=True)),
    "gross falls at other answers": simulated(Probing(gross=1.5)),
    "a third of the judges are coarse": simulated(Probing(), coarse=1.0),
    "spoilt versions lose .7 sd of each style": simulated(Probing(betrays=0.7)),
    "nobody responds, other answers": simulated(Probing(respond=False, exchanged=True)),
    "six judges": simulated(Probing(), p=6),
    "little style": simulated(Probing(), styles_of=(0.1, 0.2)),
    "half of the judges fall as others should": simulated(Probing(exchanged=True), turned=0.5),
    "all do": simulated(Probing(exchanged=True), turned=1.0),
    "half do, little style": simulated(Probing(), turned=0.5, styles_of=(0.1, 0.2)),
    "all do, little style": simulated(Probing(), turned=1.0, styles_of=(0.1, 0.2)),
    "texts: demo, twelve judges": texts("demo", judges=True, items=60),
    "texts: demo, all judges": texts("demo", judges=False, items=60),
}
"""Kinds on which the probability was mended."""

HELD_OUT: dict[str, Kind] = {
    "heavy tails": simulated(Probing(heavy_tails=True)),
    "thirty judges": simulated(Probing(), p=30),
    "five judges, 100 items, 30 probed": simulated(Probing(items=30), p=5, n=100),
    "1,000 items": simulated(Probing(exchanged=True), n=1000),
    "one style": simulated(Probing(), styles=1),
    "four styles": simulated(Probing(), styles=4),
    "judges answer anew each time": simulated(Probing(fresh=1.0)),
    "coarse judges, other answers": simulated(Probing(exchanged=True), coarse=2.0),
    "coarse judges, a small loss": simulated(Probing(loss=0.3), coarse=0.7),
    "gross falls, eight judges": simulated(Probing(gross=3.0), p=8),
    "spoilt versions lose 1.5 sd of each style": simulated(Probing(betrays=1.5)),
    "four vendors with tastes": simulated(Probing(), vendors=4),
    "half fall as others should, thirty judges": simulated(Probing(), turned=0.5, p=30),
    "all do, six judges, 15 items": simulated(Probing(items=15), turned=1.0, p=6),
    "all do, one style": simulated(Probing(exchanged=True), turned=1.0, styles=1, styles_of=(0.1, 0.4)),
    "all do, vendors with tastes": simulated(Probing(), turned=1.0, vendors=3, styles_of=(0.1, 0.4)),
    "coarse judges, little style": simulated(Probing(), coarse=1.5, styles_of=(0.1, 0.2)),
    "heavy tails, half do, little style": simulated(Probing(heavy_tails=True), turned=0.5, styles_of=(0.1, 0.3)),
    "texts: procedures, eleven judges": texts("procedures", judges=True, items=60),
    "texts: procedures, all judges": texts("procedures", judges=False, items=60),
    "texts: elements, the demo's judges": texts("elements", judges=True, items=60),
    "texts: elements, all judges": texts("elements", judges=False, items=60),
}
"""Kinds on which nothing was chosen; the table of these is the result."""
