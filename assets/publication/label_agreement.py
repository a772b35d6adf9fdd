"""The check ``label_agreement``: do judges agree with the labels that people gave lately as with those before?

When an endpoint's model changes behind its name, old items keep their scores and newer items are scored by the new
model. Labels drawn at random from before and after show that, whatever the canary's few items say.
"""

from collections.abc import Mapping

import numpy as np

from assets.publication.documents import CheckResult
from assets.workspace import Workspace
from care_ops.least import LABELS_TO_CONFIRM
from care_ops.results.label_drift import FALSE_ALARM, agreement_drift
from care_ops.scores import ScoreMatrix
from warehouse.fits import Edition

CHECK = "label_agreement"


def check_label_agreement(workspace: Workspace, testset: str, edition: Edition, scores: ScoreMatrix) -> CheckResult:
    """Compare labels that came since an earlier fit with those that this fit had seen.

    The earlier fit is the latest since which enough labels came: how many decides, and not what they say.
    """
    anchors, scored = workspace.anchors_of(testset), set(scores.item_ids)
    chances = {item: anchors.chance_of(item) for item in anchors.labels if item in scored}
    sample = {item: chance for item, chance in chances.items() if chance is not None}  # an estimate may rest on these
    earlier = [kept for kept in workspace.fits.editions(testset) if kept.made_at < edition.made_at]
    before = next((kept for kept in reversed(earlier) if _splits(kept, sample, LABELS_TO_CONFIRM)), None)
    if before is None:
        need = f"{LABELS_TO_CONFIRM} labels of random or weighted items from before an earlier fit, and as many since"
        return CheckResult(CHECK, True, f"nothing to compare: it takes {need}")
    seen = before.inputs.labels
    row_of = {item: row for row, item in enumerate(scores.item_ids)}
    items = list(sample)
    newer = np.array([item not in seen for item in items])
    drifted = agreement_drift(
        scores.values[[row_of[item] for item in items]],
        np.array([anchors.labels[item] for item in items], dtype=np.float64),
        newer,
        np.array([1.0 / sample[item] for item in items], dtype=np.float64),
        scores.judges,
        seed=workspace.fit_config(testset).seed,
    )
    numbers = {"newer": int(newer.sum()), "older": int((~newer).sum()), "judges": len(drifted)}
    since = f"since fit {before.edition} ({before.made_at[:10]})"
    compared = f"{numbers['newer']} labels {since}, {numbers['older']} before"
    if not drifted:
        return CheckResult(CHECK, True, f"judges agree with labels as before: {compared}", numbers)
    named = "; ".join(f"{moved.judge} ({moved.before:.2f} to {moved.after:.2f})" for moved in drifted)
    return CheckResult(
        CHECK,
        False,
        f"further from people's labels than before, in mean distance of ranks: {named}. {compared}; where nothing has "
        f"changed, this is said with a probability of {FALSE_ALARM:.0%}. If the model behind a judge is another one "
        "(its check `same_model`), change `revision` in the judge's file to score everything anew; if the newer items "
        "are of another kind, `care judges report` says what the judge makes of them",
        numbers,
    )


def _splits(kept: Edition, sample: Mapping[str, float], least: int) -> bool:
    """Whether at least so many labels came before this edition was made, and at least as many since."""
    older = sum(item in kept.inputs.labels for item in sample)
    return min(older, len(sample) - older) >= least
