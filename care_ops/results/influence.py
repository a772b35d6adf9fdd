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
from care_ops.fit import Watch, fit_panel, unwatched
from care_ops.metrics import changed
from care_ops.records import Influence
from care_ops.results.dropping import drawn
from care_ops.scores import Array, ScoreMatrix, content_seed
from care_ops.sparsity import is_sparse

MOST_ITEMS, MOST_JUDGES, MOST_TOGETHER = 500, 12, 3
"""Most items of a fit; most judges that attack, those of the largest weights; and most that attack together."""

_PUSHED = (0.25, 0.5, 1.0)
"""Shares of the best tenth that an attack exchanges."""


def influence_of(
    scores: ScoreMatrix,
    config: FitConfig,
    answer: str,
    weights: Array | None,
    anchors: Anchors = NO_ANCHORS,
    *,
    watch: Watch = unwatched,
) -> Influence:
    """The worst that judges, each alone and a few together, were found to do to the best tenth of the items.

    Together are tried those that do most alone, so that fewer might do. There is nothing to say of a sparse panel, of
    another answer than ``care``, without ``resamples``, and where ``care`` has no answer for the items that are drawn.

    Parameters
    ----------
    config, anchors : of the fit
    answer : str
        The aggregator that is recommended.
    weights : (p,) array, optional
        Of the judges in it.
    """
    if answer != "care" or weights is None or not config.resamples or is_sparse(scores.values):
        return Influence()
    watch("the answer if a judge said anything", 0, 0)
    rng = np.random.default_rng([content_seed(scores), config.seed])
    chosen = np.isin(scores.item_ids, [*anchors.labels])
    chosen[drawn(scores.item_ids, np.arange(len(chosen)), rng, MOST_ITEMS)] = True
    panel = scores.select_items(chosen).canonical()
    alone = replace(config, aggregators=("care",), calibration=Calibration())

    def by_care(attacked: ScoreMatrix) -> Array:
        fitted = fit_panel(attacked, alone, anchors, solve="not").aggregates["care"].estimate
        return np.where(np.isnan(fitted), np.nanmean(fitted), fitted)

    try:
        now = by_care(panel)
    except FitError:
        return Influence()
    heaviest = [judge for _, judge in sorted(zip(-np.abs(weights), scores.judges, strict=True))[:MOST_JUDGES]]
    found = {judge: _worst(panel, by_care, now, (judge,), config.scale) for judge in heaviest}
    order = sorted(found, key=lambda judge: (-found[judge][0], judge))
    top, together, most = changed(now, now).top, tuple(order[:1]), found[order[0]][0]
    while 2 * most < top and len(together) < min(MOST_TOGETHER, len(scores.judges) // 3):
        together = tuple(order[: len(together) + 1])
        most = _worst(panel, by_care, now, together, config.scale)[0]
    moved, silent = ({judge: each[k] for judge, each in found.items()} for k in (0, 1))
    return Influence(moved, silent, top, together if 2 * most >= top else (), most, len(now))


def _worst(
    panel: ScoreMatrix,
    answer: Callable[[ScoreMatrix], Array],
    now: Array,
    judges: Sequence[str],
    scale: tuple[float, float] | None,
) -> tuple[int, int]:
    """How many of the best tenth change by the worst attack of these judges, and where they say nothing."""

    def then(attacked: ScoreMatrix) -> Array:
        try:
            return answer(attacked)
        except FitError:  # an attack after which there is no answer is noticed
            return now

    without = then(panel.select_judges([judge for judge in panel.judges if judge not in judges]))
    silent = changed(now, without).top_changed
    attacked = (then(_pushed(panel, judges, without, share, scale)) for share in _PUSHED)
    return max(silent, *(changed(now, each).top_changed for each in attacked)), silent


def _pushed(
    panel: ScoreMatrix, judges: Sequence[str], without: Array, share: float, scale: tuple[float, float] | None
) -> ScoreMatrix:
    """The panel where these judges exchange so much of the best tenth for the next ones.

    Elsewhere one judge says what the answer without it says, on its own scale. Several keep to their own scores, by
    which they are not taken for copies of one another.
    """
    values, order, top = panel.values.copy(), np.argsort(-without, kind="stable"), max(len(without) // 10, 1)
    number = max(round(share * top), 1)
    for own in (values[:, panel.judges.index(judge)] for judge in judges):
        absent = np.isnan(own)
        low, high = scale or (np.nanmin(own), np.nanmax(own))
        if len(judges) == 1:
            own[~absent] = np.sort(own[~absent])[rankdata(without[~absent], "ordinal").astype(np.intp) - 1]
        own[order[top - number : top]], own[order[top : top + number]] = low, high
        own[absent] = np.nan
    return replace(panel, values=values)
