"""``report``: the page of a test set."""

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
    description="The page of a test set: who is right, who counts, what the confounders look like.",
)
def report(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Assemble the page from the warehouse and write it, with the verdict and the items that are worth a label."""
    from assets.publication.editions import held_back
    from assets.report.documents import FactsDocument, HeldDocument
    from assets.report.gather import gather
    from assets.report.outdated import state_of
    from assets.report.page import write_page
    from assets.report.retests import flip_rate, last_retest, why_no_retest
    from assets.report.to_label import items_to_label, write_items_to_label
    from assets.report.verdict_facts import fit_facts
    from assets.report.verdicts import keep, note_failures, verdict_on

    testset = context.partition_key
    judges = workspace.judges_of(testset)
    flips = {judge: said for judge in judges if (said := flip_rate(workspace, judge, testset))}
    retests = {j: last_retest(context.instance, j, workspace.mount) or why_no_retest(workspace, j) for j in judges}
    data = replace(gather(workspace, testset), retests=retests, flips=flips)
    anchors = workspace.anchors_of(testset)
    path, folder = workspace.report_folder / page_name(testset), workspace.fit_folder(testset)
    assert data.edition is not None  # of a page of a workspace
    of_fit = (workspace.fit_config(testset), anchors)
    edition, made_at = data.edition.edition, data.edition.made_at
    facts = fit_facts(data, *of_fit, edition=edition, made_at=made_at, declared=workspace.review.declared)
    if data.changes is not None and data.changes.moved is not None and facts.coverage is not None:
        facts = replace(facts, coverage=replace(facts.coverage, lost=data.changes.moved.lost))
    workspace.fits.annotate(testset, edition, facts)  # for the day on which it is published again
    is_held, drawn = held_back(workspace, testset) is not None, folder.find(FactsDocument)
    if edition != data.edition.published:
        changed = ((), ()) if data.changes is None else (tuple(data.changes.why), tuple(data.changes.moves))
        folder.write(HeldDocument(facts, *changed))
    of_published = drawn is not None and drawn.facts.edition == data.edition.published != edition
    stays = is_held or (of_published and path.is_file())
    if not stays:
        folder.write(FactsDocument(facts))
    note_failures(workspace, testset, {})
    with workspace.warehouse.reader() as connection:
        verdict = verdict_on(workspace, testset, state_of(workspace, connection, testset))
    if not stays:  # people go on reading the page of the published fit; the index tells them of this one
        write_page(data, path, verdict)
        to_label = items_to_label(data, anchors)
        records = {r.item_id: r for r in workspace.parts.read_items(testset, only={*to_label, *anchors.labels})}
        write_items_to_label(workspace.report_folder / labels_name(testset), to_label, records, anchors)
    if not is_held:
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
