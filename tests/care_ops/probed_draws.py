"""Panels with planted loadings, and what their judges say of versions of some items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.probes import ProbeResponses

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ProbedDraw:
    """Scores of judges that follow quality and styles, and their responses to probes.

    Attributes
    ----------
    scores : (n, p) array
        Item k has the id ``item_id(k)``.
    quality : (n,) array
    loadings : (p, 1 + h) array
        Of each judge on quality and on the styles.
    probes : ProbeResponses
    """

    scores: Array
    quality: Array
    loadings: Array
    probes: ProbeResponses


@dataclass(frozen=True)
class Probing:
    """What probes are like.

    Attributes
    ----------
    items : int
        Items of which versions are made.
    loss : float
        Standard deviations of quality that one exchanged fact costs.
    gross : float
        Mean size of what a judge responds to in grossly spoilt versions alone; it says nothing of finer grades.
    dress_costs : float
        Standard deviations of quality that a dress costs, which is declared to keep it.
    betrays : float
        Standard deviations by which a spoilt version has less of every style than its original.
    respond : bool
        Whether judges respond at all.
    fresh : float
        Share of a judge's noise that is drawn anew for a version.
    exchanged : bool
        Whether ``other`` is the answer of another item, whose style and noise it has; otherwise it has the original's.
    heavy_tails : bool
        Whether the noise of scores follows Student's t with three degrees of freedom, at the same variance.
    """

    items: int = 60
    loss: float = 0.7
    gross: float = 0.0
    dress_costs: float = 0.0
    betrays: float = 0.0
    respond: bool = True
    fresh: float = 0.3
    exchanged: bool = False
    heavy_tails: bool = False


def probed_panel(
    rng: np.random.Generator, probing: Probing, *, n: int = 300, p: int = 12, styles: int = 2, style: float = 0.8
) -> ProbedDraw:
    """Draw judges with planted loadings, and what they say of versions of some items.

    A quarter of the judges is blind to quality; each style moves half of the judges, all in one direction, so that a
    style can be what judges share most. Each style has a dress; ``one`` and ``three`` facts are exchanged, and
    ``other`` costs four.

    Parameters
    ----------
    rng : numpy.random.Generator
    probing : Probing
    n, p, styles : int
        Items, judges and styles.
    style : float
        Mean loading of a judge on a style that moves it.
    """
    loadings = np.zeros((p, 1 + styles))
    loadings[:, 0] = rng.uniform(0.1, 1.0, p) * (rng.random(p) < 0.75)
    loadings[:, 1:] = style * rng.uniform(0.5, 1.5, (p, styles)) * (rng.random((p, styles)) < 0.5)
    noise = rng.uniform(0.4, 1.2, p)
    gross = probing.gross * rng.exponential(size=p)
    latent = rng.standard_normal((n, 1 + styles))
    errors = rng.standard_t(3, (n, p)) / np.sqrt(3.0) if probing.heavy_tails else rng.standard_normal((n, p))
    scores = latent @ loadings.T + noise * errors
    moved: dict[str, tuple[Array, float]] = {
        f"dress {k + 1}": (np.r_[-probing.dress_costs, np.eye(styles)[k]], 0.0) for k in range(styles)
    }
    betrayed = np.full(styles, -probing.betrays)
    for kind, facts in (("one", 1), ("three", 3), ("other", 4)):
        moved[kind] = (np.r_[-facts * probing.loss, betrayed], float(kind == "other"))
    ids, kinds, changes = list[str](), list[str](), list[Array]()
    for k in rng.choice(n, probing.items, replace=False):
        for kind, (step, is_gross) in moved.items():
            change = probing.fresh * noise * rng.standard_normal(p)
            if probing.respond:
                change = change + loadings @ (step * rng.uniform(0.5, 1.5)) - gross * is_gross
            if probing.exchanged and kind == "other":
                other = int(rng.integers(n))
                change = change + scores[other] - scores[k]
                if probing.respond:  # ``step`` has taken away what the question's own answer is worth
                    change = change - loadings[:, 0] * (latent[other, 0] - latent[k, 0])
            ids.append(item_id(int(k)))
            kinds.append(kind)
            changes.append(change)
    judges = tuple(f"j{j:03d}" for j in range(p))
    spoils = {kind: kind in ("one", "three", "other") for kind in moved}
    return ProbedDraw(
        scores, latent[:, 0], loadings, ProbeResponses(tuple(ids), tuple(kinds), spoils, judges, np.array(changes))
    )


def item_id(row: int) -> str:
    """Id of the item of a row of ``ProbedDraw.scores``."""
    return f"i{row:05d}"
