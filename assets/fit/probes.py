"""``probes``: how the judges of a panel respond to versions of items whose quality is known to be kept or spoilt.

It follows the panel, which is looked at again whenever a slice of scores, or of scores of probes, has changed.
"""

from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.made import asset_of_testsets, note, probes_version
from assets.hashing import content_hash
from assets.judge_keys import judge_item, scales_of_asked
from assets.metadata import table
from assets.probe_items import EFFECT, KIND, OF, probe_items, probe_scores
from assets.workspace import Workspace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from care_ops.probes import ProbeResponses
    from care_ops.scores import ScoreMatrix


@asset_of_testsets(
    deps=["panel"],
    kinds={"parquet"},
    description="How judges respond to versions of items whose quality is kept or spoilt, in standard deviations.",
)
def probes(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Read what the panel's judges said of the probes, and keep it beside the panel."""
    import numpy as np

    from assets.fit.kept import PROBES
    from care_ops.models.probes import responses_by_kind
    from warehouse.documents import document_of

    testset = context.partition_key
    folder = workspace.fit_folder(testset)
    scores = folder.read_panel()
    with workspace.warehouse.reader() as connection:
        known = connection.execute("SELECT items_hash FROM testsets WHERE testset = ?", [testset]).fetchone()
    version = probes_version(workspace, testset, scores.fingerprint(), known[0] if known else None)
    responses = read_responses(workspace, testset, scores)
    content = content_hash(document_of(responses))
    folder.write(responses, PROBES)
    note(folder, "probes", version, content if len(responses) else "")
    if not len(responses):
        return dg.MaterializeResult(
            data_version=dg.DataVersion("none"),
            metadata={"probes": "none are declared"},
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
    )


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
