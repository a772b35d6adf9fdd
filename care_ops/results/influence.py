"""How far one judge, or a few together, could move the answer of ``care`` if they said anything.

No bound is known: weights come from agreement, so that whoever says what the others say gains weight, and spends it on
the few items that matter. What is found here is the worst of four attacks, each fitted anew: the judge says the same of
every item, or what the answer without it says, except that it gives the lowest score to the last quarter, the last half
or the whole of the best tenth, and the highest to as many next ones. There may be worse ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import rankdata

from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import Calibration, FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.metrics import changed
from care_ops.probes import NO_PROBES, ProbeResponses
from care_ops.results.drop_evidence import MOST_TOGETHER, Influence
from care_ops.results.dropping import drawn
from care_ops.scores import Array, ScoreMatrix, content_seed
from care_ops.sparsity import is_sparse

MOST_ITEMS, MOST_JUDGES = 500, 12
"""Most items of a fit; of more, so many are drawn. Most judges that attack, those of the largest weights."""

_PUSHED = (0.25, 0.5, 1.0)
"""Shares of the best tenth that an attack exchanges."""

Answer = Callable[[ScoreMatrix], Array]


def influence_of(
    scores: ScoreMatrix,
    config: FitConfig,
    weights: Array,
    anchors: Anchors = NO_ANCHORS,
    *,
    probes: ProbeResponses = NO_PROBES,
) -> Influence:
    """The worst that each judge alone was found to do to the best tenth of the items, and a few judges together.

    Few judges are tried together in the order of what each does alone, so that fewer might do.

    Parameters
    ----------
    config, anchors, probes : of the fit
    weights : (p,) array
        Of the judges in the answer.

    Returns
    -------
    Influence
        Without any judge on a sparse panel, or where ``care`` has no answer for the items that are drawn.
    """
    if is_sparse(scores.values):
        return Influence()
    heaviest = sorted(zip(-np.abs(weights), scores.judges, strict=True))[:MOST_JUDGES]
    panel = _sampled(scores, config, anchors).canonical()
    alone = replace(config, aggregators=("care",), calibration=Calibration())

    def answer(attacked: ScoreMatrix) -> Array:
        return fit_panel(attacked, alone, anchors, solve="not", probes=probes).aggregates["care"].estimate

    try:
        now = answer(panel)
    except FitError:
        return Influence()
    found = {judge: _worst(panel, answer, now, (judge,), config.scale) for _, judge in heaviest}
    moved = {judge: most for judge, (most, _) in found.items()}
    top, order = changed(now, now).top, sorted(moved, key=lambda judge: (-moved[judge], judge))
    together, most = tuple(order[:1]), moved[order[0]]
    while 2 * most < top and len(together) < min(MOST_TOGETHER, len(scores.judges) // 3):
        together = tuple(order[: len(together) + 1])
        most = _worst(panel, answer, now, together, config.scale)[0]
    silent = {judge: without for judge, (_, without) in found.items()}
    return Influence(moved, silent, top, together if 2 * most >= top else (), most, len(panel.item_ids))


def _sampled(scores: ScoreMatrix, config: FitConfig, anchors: Anchors) -> ScoreMatrix:
    """At most ``MOST_ITEMS`` of the items, and those whose label the fit has seen."""
    rows = drawn(
        scores.item_ids,
        np.arange(len(scores.item_ids)),
        np.random.default_rng([content_seed(scores), config.seed]),
        MOST_ITEMS,
    )
    chosen = np.isin(scores.item_ids, [*anchors.labels])
    chosen[rows] = True
    return scores.select_items(chosen)


def _worst(
    panel: ScoreMatrix, answer: Answer, now: Array, judges: Sequence[str], scale: tuple[float, float] | None
) -> tuple[int, int]:
    """How many of the best tenth change by the worst attack of these judges, and where they say nothing."""
    others = [judge for judge in panel.judges if judge not in judges]

    def change(attacked: ScoreMatrix) -> tuple[int, Array]:
        try:
            then = answer(attacked)
        except FitError:  # an attack after which there is no answer is noticed
            return 0, now
        return changed(_filled(now), _filled(then)).top_changed, then

    silent, without = change(panel.select_judges(others))
    attacks = [_pushed(panel, judges, _filled(without), share, scale) for share in _PUSHED]
    return max(silent, *(change(attacked)[0] for attacked in attacks)), silent


def _pushed(
    panel: ScoreMatrix, judges: Sequence[str], without: Array, share: float, scale: tuple[float, float] | None
) -> ScoreMatrix:
    """The panel where these judges exchange so much of the best tenth for the next ones.

    Elsewhere one judge says what the answer without it says, on its own scale. Several keep to their own scores, by
    which they are not taken for copies of one another.
    """
    values = panel.values.copy()
    order = np.argsort(-without, kind="stable")
    top = max(len(order) // 10, 1)
    number = max(round(share * top), 1)
    for j in (panel.judges.index(judge) for judge in judges):
        own, present = values[:, j], ~np.isnan(values[:, j])
        low, high = scale or (np.nanmin(own), np.nanmax(own))
        if len(judges) == 1:
            ranks = rankdata(without[present], method="ordinal").astype(np.intp) - 1
            own[present] = np.sort(own[present])[ranks]
        own[order[top - number : top]], own[order[top : top + number]] = low, high
        own[~present] = np.nan
    return replace(panel, values=values)


def _filled(estimate: Array) -> Array:
    """The answer with its mean where it has none."""
    return np.where(np.isnan(estimate), np.nanmean(estimate), estimate)
