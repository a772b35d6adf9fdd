"""``probes``: how the judges of a panel respond to versions of items whose quality is known to be kept or spoilt.

It follows the panel, which is looked at again whenever a slice of scores, or of scores of probes, has changed.

Its check says which judges respond otherwise than when they were asked before. A judge is asked again when its key
changes, so that this is what a new model, prompt or revision brought; the model behind an endpoint that changes without
a word is the canary's.
"""

from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.made import asset_of_testsets, note, probes_version
from assets.hashing import content_hash
from assets.judge_keys import judge_item, scales_of_asked
from assets.metadata import checked, table
from assets.partitions import TESTSETS
from assets.probe_items import EFFECT, KIND, OF, probe_items, probe_scores
from assets.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from care_ops.probes import ProbeResponses
    from care_ops.scores import ScoreMatrix

CHECK = "same_responses"

_MOST_TOLD = 5
"""Changed responses that a check says in words; its table has all."""


@asset_of_testsets(
    deps=["panel"],
    kinds={"parquet"},
    check_specs=[
        dg.AssetCheckSpec(
            CHECK,
            asset="probes",
            description="Judges respond to versions of known quality as they did before.",
            partitions_def=TESTSETS,
        )
    ],
    description="How judges respond to versions of items whose quality is kept or spoilt, in standard deviations.",
)
def probes(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Read what the panel's judges said of the probes, and keep it beside the panel."""
    import numpy as np

    from assets.fit.kept import PROBES
    from assets.fit.kept import read_responses as read_kept_responses
    from care_ops.models.probes import responses_by_kind
    from warehouse.documents import document_of

    testset = context.partition_key
    folder = workspace.fit_folder(testset)
    scores = folder.read_panel()
    with workspace.warehouse.reader() as connection:
        known = connection.execute("SELECT items_hash FROM testsets WHERE testset = ?", [testset]).fetchone()
    version = probes_version(workspace, testset, scores.fingerprint(), known[0] if known else None)
    responses = read_responses(workspace, testset, scores)
    content, before = content_hash(document_of(responses)), read_kept_responses(folder)
    folder.write(responses, PROBES)
    note(folder, "probes", version, content if len(responses) else "")
    if not len(responses):
        return dg.MaterializeResult(
            data_version=dg.DataVersion("none"),
            metadata={"probes": "none are declared"},
            check_results=[checked(CHECK, "there are no responses", passed=True)],
        )
    sd = np.nanstd(scores.select_judges(list(responses.judges)).values, axis=0, ddof=1)
    rows = [
        {"judge": judge, "kind": of_kind.kind, "quality": "spoilt" if of_kind.spoils else "kept", **numbers}
        for of_kind in responses_by_kind(responses, sd)
        for judge, numbers in zip(responses.judges, of_kind.rows(), strict=True)
    ]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(content),
        metadata={
            "versions": len(responses),
            "items": len(set(responses.item_ids)),
            "judges": len(responses.judges),
            "responses": table(rows),
        },
        check_results=[compared(before, responses, sd)],
    )


def compared(before: "ProbeResponses", tonight: "ProbeResponses", sd: "NDArray[np.float64]") -> dg.AssetCheckResult:
    """The check of tonight's responses against those that were kept before."""
    from care_ops.results.drift import response_drift

    if not len(before):
        return checked(CHECK, "there are no earlier responses to compare with", passed=True)
    drifted = response_drift(before, tonight, sd)
    if not drifted:
        return checked(CHECK, "judges respond as they did", passed=True)
    told = [
        f"{d.judge!r} to {d.kind} by {d.after:+.2f} sd, {d.before:+.2f} before ({d.items} items)"
        for d in drifted[:_MOST_TOLD]
    ]
    more = f", and {len(drifted) - _MOST_TOLD} more" if len(drifted) > _MOST_TOLD else ""
    says = (
        f"judges respond otherwise than before: {'; '.join(told)}{more}. Look at what changed in these judges' files; "
        "where it was meant, nothing is to be done"
    )
    return checked(CHECK, says, passed=False, drifted=table([vars(d) for d in drifted]))


def read_responses(workspace: Workspace, testset: str, panel: "ScoreMatrix") -> "ProbeResponses":
    """What the panel's judges said of the test set's probes under their current keys; of no version if none said any.

    Raises ``InputError`` where a swap is declared, and the test set has no scale.
    """
    import numpy as np

    from care_ops.probes import NO_PROBES, responses
    from care_ops.scales import bring
    from care_ops.scores import ScoreMatrix

    records = probe_items(workspace, testset)
    if not records:
        return NO_PROBES
    row = {judge_item(record).key: k for k, record in enumerate(records)}
    asked = [j for j in panel.judges if j in workspace.judges and not workspace.judge(j).engine.needs.recordings]
    values = np.full((len(records), len(asked)), np.nan)
    for column, judge in enumerate(asked):
        for item_key, score in probe_scores(workspace, judge, testset).items():
            values[row[item_key], column] = score
    heard: NDArray[np.bool_] = ~np.all(np.isnan(values), axis=0)
    if not heard.any():
        return NO_PROBES
    versions = {
        r.item_id: (str(r.metadata[OF]), str(r.metadata[KIND]), r.metadata[EFFECT] == "spoils") for r in records
    }
    judges = tuple(judge for judge, was_heard in zip(asked, heard, strict=True) if was_heard)
    scores = ScoreMatrix(values[:, heard], tuple(record.item_id for record in records), judges)
    scores = bring(scores, scales_of_asked(workspace, testset))
    return responses(versions, scores, panel, scale=workspace.testset(testset).scale)
