"""``report``: the page of a test set."""

import dagster as dg

from assets.code import code_version
from assets.partitions import TESTSETS
from assets.report.names import page_name
from assets.workspace import Workspace


@dg.asset(
    partitions_def=TESTSETS,
    deps=["review", "evaluation", "intervals", "systems", "factors"],
    group_name="report",
    kinds={"html"},
    code_version=code_version(__name__, "care_ops"),
    description="The page of a test set: who is right, who counts, what the confounders look like.",
)
def report(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Assemble the page from the warehouse and write it."""
    from assets.report.documents import WarningsDocument
    from assets.report.gather import gather
    from assets.report.page import write_page

    data = gather(workspace, context.partition_key)
    path = workspace.report_folder / page_name(context.partition_key)
    write_page(data, path)
    warnings = data.warnings()
    WarningsDocument(tuple(warnings)).write(workspace.fit_folder(context.partition_key))
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(path)),
            "aggregates": len(data.aggregates),
            "warnings": dg.MetadataValue.md("\n".join(f"- {w}" for w in warnings) or "none"),
        }
    )
