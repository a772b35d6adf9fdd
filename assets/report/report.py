"""Dagster asset ``report``: the page of a test set."""

from dataclasses import replace

import dagster as dg

from assets.fit.made import RESULTS, asset_of_testsets
from assets.metadata import as_text, bullets
from assets.report.names import labels_name, page_name
from assets.workspace import Workspace


@asset_of_testsets(
    deps=["review", *RESULTS],
    kinds={"html", "duckdb"},
    pool="warehouse_writer",
    description="The page of a test set: its verdict, estimates and judge weights.",
)
def report(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Write the page of a test set with its verdict, and the file that proposes items for labelling.

    If a person has pinned an older fit, its page is kept, and only the verdict on that page mentions the newer fit.
    """
    from assets.publication.fit_versions import blocked_fit
    from assets.report.documents import FactsDocument
    from assets.report.gather import gather
    from assets.report.page import write_page
    from assets.report.retests import flip_rate, last_retest
    from assets.report.staleness import state_of
    from assets.report.to_label import items_to_label, write_items_to_label
    from assets.report.verdict_facts import store_facts
    from assets.report.verdicts import keep, note_failures, verdict_on

    testset = context.partition_key
    if blocked_fit(workspace, testset) is not None:
        raise dg.Failure(
            f"The page of {testset!r} is not rendered, because a check of the asset `review` blocks the latest fit. "
            f"Compare the latest fit with the published fit (`care fits diff {testset}`), or publish the latest fit "
            f"(`care fits accept {testset}`)."
        )
    judges, labels = workspace.judges_of(testset), workspace.labels_of(testset)
    flips = {judge: rate for judge in judges if (rate := flip_rate(workspace, judge, testset))}
    retests = {j: last for j in judges if (last := last_retest(context.instance, j, workspace.mount))}
    data = replace(gather(workspace, testset), retests=retests, flips=flips)
    path, folder = workspace.report_folder / page_name(testset), workspace.fit_folder(testset)
    facts, drawn, shown = store_facts(workspace, data), folder.find(FactsDocument), data.fit_version
    stays = shown and drawn and shown.id != shown.published == drawn.facts.fit_version and path.is_file()
    if not stays:
        folder.write(FactsDocument(facts))
    note_failures(workspace, testset, {})
    with workspace.warehouse.reader() as connection:
        verdict = verdict_on(workspace, testset, state_of(workspace, connection, testset))
    if not stays:
        write_page(data, path, verdict)
        to_label = items_to_label(data, labels)
        records = {r.item_id: r for r in workspace.parts.read_items(testset, only={*to_label, *labels.labels})}
        write_items_to_label(workspace.report_folder / labels_name(testset), to_label, records, labels)
    keep(workspace, {testset: verdict})
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(path)),
            "aggregates": len(data.aggregates),
            "state": verdict.state,
            "verdict": verdict.headline,
            "why": bullets(map(str, verdict.why)),
            "next": dg.MetadataValue.md(
                "\n".join(f"- {as_text(s.sentence)}\n\n      {s.command or ''}" for s in verdict.next_steps)
            ),
        }
    )
