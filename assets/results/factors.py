"""``factors``: what the factors look like, against features of the texts."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.code import code_version
from assets.fit.kept import read_moments, read_structure
from assets.metadata import bars, table
from assets.partitions import TESTSETS
from assets.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from assets.results.documents import FactorsDocument
    from care_ops.moments.state import Moments
    from care_ops.scores import ScoreMatrix
    from care_ops.structure.program import Structure

    Array = NDArray[np.float64]


_MOST_FACTORS = 4


@dg.asset(
    partitions_def=TESTSETS,
    deps=["aggregates"],
    group_name="results",
    code_version=code_version(__name__, "care_ops"),
    description="What each factor looks like in the texts, and which of them each rule would call quality.",
)
def factors(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Score the items on each factor and correlate with their texts."""
    from assets.results.documents import FactorsDocument
    from care_ops.results.interpret import FEATURES
    from warehouse.matrix import read_item_columns

    folder = workspace.fit_folder(context.partition_key)
    solved, document = read_structure(folder)
    if solved is None:
        FactorsDocument().write(folder)
        return dg.MaterializeResult(metadata={"no_factors": document.failures["structure"]})
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, context.partition_key)
    texts = dict(zip(columns.item_ids, columns.responses, strict=True))
    scores = folder.read_panel()
    described = describe(scores, read_moments(folder), solved, [texts.get(i) for i in scores.item_ids])
    described.write(folder)
    rows: list[dict[str, Any]] = [
        {"factor": k + 1, **dict(zip(described.features, row, strict=True))}
        for k, row in enumerate(described.correlations)
    ]
    second = described.correlations[1] if len(described.correlations) > 1 else ()
    return dg.MaterializeResult(
        metadata={
            "spearman": table(rows),
            "quality_by_rule": table([{"rule": r, "factor": k + 1} for r, k in described.rules.items()]),
            "second_factor": bars(
                "second factor against the text",
                {f: c for f, c in zip(described.features, second, strict=False) if c is not None},
            ),
            "features": json.dumps(list(FEATURES)),
        }
    )


def describe(
    scores: "ScoreMatrix", moments: "Moments", solved: "Structure", texts: Sequence[str | None]
) -> "FactorsDocument":
    """What the strongest factors look like, and which of them each rule would call quality.

    Spearman correlations with text features are null where undefined. Factors count from 0.

    Parameters
    ----------
    scores : ScoreMatrix
        In the order of ``texts``.
    moments, solved
        In canonical order of the judges.
    """
    import numpy as np

    from assets.results.documents import FactorRecord, FactorsDocument
    from care_ops.moments.missing import condition
    from care_ops.moments.state import shrink
    from care_ops.results.interpret import FEATURES, feature_correlations, text_features
    from care_ops.structure.bounds import identifiability
    from care_ops.structure.factors import extract, opinions

    names = tuple(sorted(scores.judges))
    ordered = scores.select_judges(names)
    correlation, _ = shrink(moments.correlation(), moments.n)
    factors = extract(solved.low_rank, correlation)
    filled, _ = condition(moments.standardise(ordered.values), correlation)
    features = text_features(texts)
    shown = slice(0, _MOST_FACTORS)
    correlations = feature_correlations(filled @ factors.directions[:, shown], features)
    gaps = identifiability(solved.low_rank, len(factors.strengths)).gaps / factors.strengths
    numbers = zip(factors.mass[shown], factors.agreements[shown], factors.breadth[shown], gaps[shown], strict=True)
    return FactorsDocument(
        features=tuple(FEATURES),
        correlations=tuple(tuple(None if np.isnan(c) else round(float(c), 4) for c in row) for row in correlations),
        factors=tuple(FactorRecord(float(m), float(a), float(b), float(g)) for m, a, b, g in numbers),
        rules={str(rule): factor for rule, factor in opinions(factors, filled, features).items()},
    )
