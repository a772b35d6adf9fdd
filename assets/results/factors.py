"""Dagster asset ``factors``: correlations of the factors with features of the texts."""

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.workspace import Workspace


@asset_of_testsets(
    deps=["aggregates"],
    description="Correlations of factors with text features, and the quality factor selected by each of two rules.",
)
def factors(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Correlate the items' scores on each factor with features of the items' texts."""
    from assets.fit.kept import read_fitted, read_moments, read_structure
    from assets.results.description import describe
    from assets.results.documents import FactorsDocument

    folder = workspace.fit_folder(context.partition_key)
    solved, document = read_structure(folder)
    if solved is None:
        folder.write(FactorsDocument())
        return dg.MaterializeResult(metadata={"no_factors": document.failures["structure"]})
    scores, _ = read_fitted(folder)
    texts = workspace.parts.read_items_of(context.partition_key, scores.item_ids, ("response",))[0].to_pylist()
    described = describe(scores, read_moments(folder), solved, texts)
    folder.write(described)
    return dg.MaterializeResult(metadata={"factors": len(described.factors)})
